"""The decision map as clean-up stages pass it on, and what they may look at beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from qmcif_engine.config.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray
    from qmcif_engine.config.fusion_config import FusionConfig


@dataclass(frozen=True, slots=True)
class Decision:
    """Which image gives each pixel, and the probability that this is right; shape (h, w) each.

    Attributes
    ----------
    index : ndarray of uint16
    confidence : ndarray of float
    is_exact : ndarray of bool, or None
        Where edges of the map lie to the pixel; None where none does.
    """

    index: IndexArray
    confidence: FloatArray
    is_exact: BoolArray | None = None


@dataclass(frozen=True, slots=True)
class DecisionBasis:
    """What the decisions on a block rest on.

    Attributes
    ----------
    blocks : sequence of ndarray of float, shape (3, h, w)
        The images on the 0-255 scale.
    noise_level : float
        Standard deviation of the noise, in gray levels; 0 for a clean stack.
    """

    blocks: Sequence[FloatArray]
    noise_level: float


CleanUp: TypeAlias = "Callable[[Decision, DecisionBasis, FusionConfig], Decision]"
"""What a clean-up stage does: return the decisions improved, from those so far, what they rest on and the settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanUpStage(Stage):
    """A stage that improves the decision map; `qmcif_engine.tiles.stage_list.CLEAN_UP` says in which order they run.

    Attributes
    ----------
    clean_up : callable
        As `CleanUp`.
    cases : tuple of mappings of settings to values
        The settings, beside the default ones, under which its reach is checked. A stage that is off by default names those that switch it
        on.
    attains_reach : bool
        Whether generated images show an influence from as far as the reach says, rather than the reach being a bound for rare ones.
    """

    clean_up: CleanUp
    # mappings have no hash; a stage is known by its name
    cases: tuple[Mapping[str, float], ...] = field(default=({},), hash=False)
    attains_reach: bool = True
