"""What a numerical stage states of itself, by the settings: how far it looks, and what it costs in memory.

A stage lives in one module, beside its code. `qmcif_engine.tiles.stage_list` puts all of them into their order; the overlap of a tile, the
estimate of its memory and the table of reaches in `docs/method.md` follow from that list and are written nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from qmcif_engine.config.fusion_config import FusionConfig


@dataclass(frozen=True, slots=True)
class TileSize:
    """Size of the work on one tile, as far as memory depends on it.

    Attributes
    ----------
    padded_px : int
        Pixels of the tile together with its overlap.
    n_images : int
    """

    padded_px: int
    n_images: int


Pixels: TypeAlias = Callable[[FusionConfig, int], int]
"""A distance in pixels, from the settings and the side of a detail patch."""

Bytes: TypeAlias = Callable[[FusionConfig, TileSize], int]
"""An amount of memory, from the settings and the size of a tile."""


def no_pixels(_config: FusionConfig, _detail_patch_px: int) -> int:
    """Return 0, the distance of stages that add nothing to the overlap."""
    return 0


def no_bytes(_config: FusionConfig, _size: TileSize) -> int:
    """Return 0, the memory of stages that hold next to nothing."""
    return 0


def bytes_per_pixel(amount: int) -> Bytes:
    """Return the memory of a stage that holds so many bytes for each pixel of a tile and its overlap."""
    return lambda _config, size: amount * size.padded_px


@dataclass(frozen=True, slots=True)
class Reach:
    """How far from a pixel the input lies that the output of a stage depends on: the larger distance of rows and columns.

    Attributes
    ----------
    px : callable
        The distance; what lies one pixel farther never matters.
    formula : str
        The same in words and Markdown, for the table of the document.
    of : str
        Which input, where a stage looks at several differently far.
    adds_up : bool
        Whether it is a summand of the longest way of a sample into a decision.
    """

    px: Pixels
    formula: str
    of: str = ""
    adds_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One numerical stage: what tiles must know of it.

    Attributes
    ----------
    name : str
        The function or class that does it, without the package.
    reaches : tuple of Reach
        Its full support; empty for a stage that looks at each pixel alone, or at all of them, as the solve does.
    overlap_px : callable
        How much of that the overlap of a tile holds. The difference are rare events, and windows with little weight.
    acts_far : bool
        Of the stages that act far, only the one with the largest `overlap_px` counts in the overlap; those of all others add up.
    kept_bytes : callable
        What stays in memory until the tile is done, or with the allocator; adds up over the stages.
    working_bytes : callable
        What is held while the stage runs and is free for the next one afterwards; the largest of all stages counts.
    """

    name: str
    reaches: tuple[Reach, ...] = ()
    overlap_px: Pixels = no_pixels
    acts_far: bool = False
    kept_bytes: Bytes = no_bytes
    working_bytes: Bytes = no_bytes
