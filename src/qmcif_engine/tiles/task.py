"""The task of one tile: read its windows, decide, compose, trim to the core. Everything a worker needs is in it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray, SampleArray
from qmcif_engine.compiled import single_thread
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.rules import Decision, Rule, StackStatistics, TileSteps
from qmcif_engine.stack.samples import FocusRange, FocusRanges
from qmcif_engine.stack.stack import Stack
from qmcif_engine.stack.window import Window
from qmcif_engine.tiles.companions import compose_companions, shown_channels
from qmcif_engine.tiles.output_maps import OUTPUT_MAPS, MapPlanes
from qmcif_engine.tiles.plan import Tile, find_rule
from qmcif_engine.tiles.planes import SAMPLES_IN_MEMORY_BYTES, WindowPlanes, hold_window


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedTile(MapPlanes[IndexArray, FloatArray]):
    """What one tile gives, all of the size of its core: the image, and the maps of `MapPlanes`.

    Attributes
    ----------
    fused : ndarray, shape (h, w) or (h, w, C)
    companions : ndarray, shape (h, w) or (h, w, c), or None
    input_digest : bytes
        SHA-256 of all samples that the tile depends on, its overlap included: whether a finished tile still belongs to its input.
    """

    fused: SampleArray
    companions: SampleArray | None = None
    input_digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What is measured once for a run, before there are tiles.

    Attributes
    ----------
    statistics : tuple of StackStatistics
        One for each decision: one in all, or one per channel where channels are decided on one by one.
    noise : tuple of float
        Standard deviation of the noise of the samples that each decision composes.
    companion_noise : tuple of float
        The same of the companions, as `qmcif_engine.tiles.companions.measure_companion_noise` returns it.
    """

    statistics: tuple[StackStatistics, ...]
    noise: tuple[float, ...] = (0.0,)
    companion_noise: tuple[float, ...] = (0.0,)


TILE_PLANES = ("fused", "companions", *OUTPUT_MAPS)
"""What of a tile becomes part of the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileTask:
    """What is common to all tiles of a run; it can be sent to another process.

    Attributes
    ----------
    stack : Stack
    config : FusionConfig
    focus_range : FocusRange, or tuple of one per channel
    measured : Measured
        Empty where tiles are only to be digested.
    companions : Stack or None
        Planes composed by the same decisions.
    with_position, with_maps : bool
        What is returned beyond the image, its source index and its confidence.
    guide : Stack or None
        What decisions are made on, as `qmcif_engine.stack.deciding.join_guide` returns it, where it is not the stack itself. Focus range
        and statistics are then the guide's.
    samples_bytes : int
        How much of its windows of the stack, and of the guide, a tile may hold in memory; the others wait in a temporary file.
    """

    stack: Stack
    config: FusionConfig
    focus_range: FocusRanges
    measured: Measured = Measured(statistics=())
    companions: Stack | None = None
    with_position: bool = False
    with_maps: bool = False
    guide: Stack | None = None
    samples_bytes: int = SAMPLES_IN_MEMORY_BYTES

    @property
    def rule(self) -> Rule:
        """The rule that decides and composes."""
        return find_rule(self.config)

    @property
    def wanted_maps(self) -> tuple[str, ...]:
        """Names of the maps that are made."""
        asked = {"with_maps": self.with_maps, "with_position": self.with_position}
        return tuple(name for name, declared in OUTPUT_MAPS.items() if declared.is_wanted(**asked))

    def __call__(
        self, tile: Tile, *, check_cancelled: Callable[[], None] = lambda: None, report_image: Callable[[], None] = lambda: None
    ) -> FusedTile:
        """Fuse one tile.

        One thread in the linear algebra, because with several the rounding, and so the last byte, would depend on their number.
        """
        images = hold_window(self.stack, tile.padded, memory_bytes=self.samples_bytes)
        deciding = images if self.guide is None else hold_window(self.guide, tile.padded, memory_bytes=self.samples_bytes)
        steps = TileSteps(check_cancelled=check_cancelled, report_image=report_image)
        # first, which reads all samples once; from then on they come from memory or from the temporary file
        digest = self._digest(tile, images, deciding)
        with single_thread():
            if not self.stack.decides_each:
                return FusedTile(**self._fuse(images, deciding, tile, channel=None, steps=steps), input_digest=digest)
            parts = [
                self._fuse(images.channel(channel), deciding.channel(channel), tile, channel=channel, steps=steps)
                for channel in range(self.stack.image_shape[2])
            ]
        return FusedTile(**{name: np.stack([part[name] for part in parts], axis=-1) for name in parts[0]}, input_digest=digest)

    def _fuse(self, images: Stack, deciding: Stack, tile: Tile, *, channel: int | None, steps: TileSteps) -> dict[str, Any]:
        """Return the planes of a tile by name, decided on all channels or on one of them."""
        measured, number = self.measured, channel or 0
        # one range for all channels, or one for each
        ranges = self.focus_range
        focus_range = ranges if channel is None or isinstance(ranges, FocusRange) else ranges[channel]
        stack = self.stack if self.guide is None else self.guide
        planes = WindowPlanes(stack, deciding, tile.padded, focus_range=focus_range, config=self.config)
        core = tile.core.relative_to(tile.padded)
        decision = self.rule.decide(planes, core, measured.statistics[number], self.config, with_position=self.with_position, steps=steps)
        steps.check_cancelled()
        inner = core.relative_to(decision.window)
        # the samples of the stack, by decisions that may have been made on another one
        fused = self.rule.compose(images.cut(decision.window), decision, inner=inner, noise=measured.noise[number], config=self.config)
        found = {"fused": fused, **self._cut_maps(decision, inner)}
        if self.companions is not None:
            seen = decision.window.moved(tile.padded.top, tile.padded.left)
            found["companions"] = compose_companions(
                hold_window(self.companions, seen),
                decision,
                rule=self.rule,
                fused=fused,
                shown=shown_channels(self.stack, self.companions),
                inner=inner,
                noise=measured.companion_noise,
                config=self.config,
            )
        return {name: np.ascontiguousarray(plane) for name, plane in found.items()}

    def _cut_maps(self, decision: Decision, inner: Window) -> dict[str, Any]:
        """Return the maps of the core that were asked for."""
        taken = {name: OUTPUT_MAPS[name].take(decision) for name in self.wanted_maps}
        return {name: plane[inner.slices] for name, plane in taken.items() if plane is not None}

    def digest_input(self, tile: Tile) -> bytes:
        """Return what `FusedTile.input_digest` is now, without fusing."""
        return self._digest(
            tile, hold_window(self.stack, tile.padded), None if self.guide is None else hold_window(self.guide, tile.padded)
        )

    def _digest(self, tile: Tile, images: Stack, deciding: Stack | None) -> bytes:
        """Return a digest of all that a tile depends on: the windows with their overlaps, and which pixels their images have."""
        further = () if self.companions is None else hold_window(self.companions, tile.padded)
        masks = [
            map(partial(stack.valid, window=tile.padded), range(stack.n_images))
            for stack in (self.stack, self.guide)
            if stack is not None and stack.has_validity
        ]
        return digest_images(images, further, () if self.guide is None or deciding is None else deciding, *masks)


def digest_images(*groups: Iterable[SampleArray | BoolArray]) -> bytes:
    """Return one digest of all samples, which does not depend on how they are stored."""
    digest = hashlib.sha256()
    for image in chain.from_iterable(groups):
        # a view of a larger array, or planes in another order, must give the same digest as a copy
        digest.update(np.ascontiguousarray(image).data)
    return digest.digest()
