"""The task of one tile: read its windows, run the numerical stages, trim to the core. Everything a worker needs is in it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.arrays import FloatArray, IndexArray
from qmcif_engine.kernels.single_thread import single_thread
from qmcif_engine.method.focus import Borders
from qmcif_engine.method.fusion import LOW_PASS_REACH_PX, compose
from qmcif_engine.stack.noise import adapt_to_noise
from qmcif_engine.stack.samples import FocusRange
from qmcif_engine.tiles.output_maps import OUTPUT_MAPS, MapPlanes
from qmcif_engine.tiles.stages import plan_geometry
from qmcif_engine.tiles.tile_decisions import TileDecisions
from qmcif_engine.tiles.tile_parts import decides_on_cells
from qmcif_engine.tiles.window_images import SAMPLES_IN_MEMORY_BYTES, ChannelImages, WindowImages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from qmcif_engine.arrays import BoolArray, SampleArray
    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.method.decomposition import Decomposition
    from qmcif_engine.stack.samples import FocusRanges
    from qmcif_engine.stack.stack import Stack
    from qmcif_engine.stack.window import Window
    from qmcif_engine.tiles.plan import Tile
    from qmcif_engine.tiles.stages import FocusLevels, FocusMaps
    from qmcif_engine.tiles.tile_decisions import DecidedPart


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedTile(MapPlanes[IndexArray, FloatArray]):
    """What one tile gives, all of the size of its core: the image, and the maps of `MapPlanes`.

    Attributes
    ----------
    fused : ndarray, shape (h, w) or (h, w, C)
    companions : ndarray, shape (h, w) or (h, w, c), or None
    input_digest : bytes
        SHA-256 of all samples that the tile depends on, its overlap included: tells whether a finished tile still belongs to its input.
    layers : tuple of Decomposition
        Empty unless they were asked for.
    """

    fused: SampleArray
    companions: SampleArray | None = None
    input_digest: bytes
    layers: tuple[Decomposition, ...] = ()


TILE_PLANES = ("fused", "companions", *OUTPUT_MAPS)
"""What of a tile becomes part of the result."""


@dataclass(frozen=True, slots=True)
class TileTask:
    """What is common to all tiles of a run; it can be sent to another process.

    Attributes
    ----------
    stack : Stack
    config : FusionConfig
    focus_range : FocusRange, or tuple of one per channel
    companions : Stack or None
        Planes composed by the same decisions.
    keep_layers, with_position, with_maps : bool
        What is returned beyond the image, its source index and its confidence.
    noise_levels : tuple of float
        Standard deviation of the noise on the 0-255 scale; one per channel where channels are decided on one by one.
    guide : Stack or None
        What decisions are made on, as `qmcif_engine.stack.guide.settle_guide` returns it, where it is not the stack itself. Focus range
        and noise are then the guide's.
    samples_bytes : int
        How much of its windows of the stack, and of the guide, a tile may hold in memory; the others wait in a temporary file.
    """

    stack: Stack
    config: FusionConfig
    focus_range: FocusRanges
    companions: Stack | None = None
    keep_layers: bool = False
    with_position: bool = False
    with_maps: bool = False
    noise_levels: tuple[float, ...] = (0.0,)
    guide: Stack | None = None
    samples_bytes: int = SAMPLES_IN_MEMORY_BYTES

    def __call__(
        self, tile: Tile, *, check_cancelled: Callable[[], None] = lambda: None, report_image: Callable[[], None] = lambda: None
    ) -> FusedTile:
        """Fuse one tile.

        One thread in the linear algebra, because with several the rounding, and so the last byte, would depend on their number.
        """
        images = WindowImages(self.stack, tile.padded, memory_bytes=self.samples_bytes)
        deciding = images if self.guide is None else WindowImages(self.guide, tile.padded, memory_bytes=self.samples_bytes)
        told: dict[str, Any] = {"check_cancelled": check_cancelled, "report_image": report_image}
        # first, which reads all samples once; from then on they come from memory or from the temporary file
        digest = self._digest(tile, images, deciding)
        if not self.stack.decides_each:
            return self._fuse(
                images, deciding, tile, focus_range=self.focus_range, noise_level=self.noise_levels[0], input_digest=digest, **told
            )
        n_channels = self.stack.image_shape[2]
        # one figure for all channels, or one for each
        ranges = (self.focus_range,) * n_channels if isinstance(self.focus_range, FocusRange) else self.focus_range
        levels = self.noise_levels * n_channels if len(self.noise_levels) == 1 else self.noise_levels
        parts = [
            self._fuse(
                ChannelImages(images, channel),
                ChannelImages(deciding, channel),
                tile,
                focus_range=bounds,
                noise_level=level,
                input_digest=digest,
                **told,
            )
            for channel, (bounds, level) in enumerate(zip(ranges, levels, strict=True))
        ]
        return join_channels(parts, input_digest=digest)

    def _fuse(
        self,
        images: WindowImages,
        deciding: WindowImages,
        tile: Tile,
        *,
        focus_range: FocusRanges,
        noise_level: float,
        input_digest: bytes,
        check_cancelled: Callable[[], None],
        report_image: Callable[[], None],
    ) -> FusedTile:
        """Decide on one window of the deciding images, and compose the images and their companions within the core of the tile."""
        shape = (self.stack.image_shape[0], self.stack.image_shape[1])
        core = tile.core.relative_to(tile.padded)
        decisions = TileDecisions(
            config=self.config,
            images=deciding,
            focus_range=focus_range,
            borders=Borders(*tile.padded.ends_of(shape)),
            adaptation=adapt_to_noise(noise_level, self.config, n_images=self.stack.n_images),
            geometry=plan_geometry(shape, self.config),
            with_position=self.with_position,
            check_cancelled=check_cancelled,
            report_image=report_image,
        )
        maps: FocusMaps | None = None
        by_pixel: FocusLevels | None = None
        planes: dict[str, Any] = {}
        with single_thread():
            # the default decides on cells and never measures all pixels; maps and layers of pixels are extra work
            if self.with_maps or self.keep_layers or not decides_on_cells(self.config):
                by_pixel = decisions.measure_pixels(keep_layers=self.keep_layers)
            if self.with_maps and by_pixel is not None:
                maps = decisions.map_focus(by_pixel)
            for part in decisions.decide(core, by_pixel):
                found = {
                    # the samples of the stack, by decisions that may have been made on another one
                    "fused": compose(images.cropped(part.seen), part.blend, inner=part.window.relative_to(part.seen)),
                    "companions": self._compose_companions(part, tile),
                    **{name: declared.take(part, maps) for name, declared in OUTPUT_MAPS.items()},
                }
                for name, values in found.items():
                    if values is not None:
                        # the first part tells which planes there are, and of which type
                        plane = planes.setdefault(name, np.empty((*core.shape, *values.shape[2:]), values.dtype))
                        plane[part.window.relative_to(core).slices] = values
        return FusedTile(**planes, input_digest=input_digest, layers=() if by_pixel is None else by_pixel.layers)

    def _compose_companions(self, part: DecidedPart, tile: Tile) -> SampleArray | None:
        if self.companions is None:
            return None
        window = part.window.moved(tile.padded.top, tile.padded.left)
        seen = self._reach_of_companions(window)
        return compose(WindowImages(self.companions, seen), part.blend, inner=window.relative_to(seen))

    def digest_input(self, tile: Tile) -> bytes:
        """Return what `FusedTile.input_digest` is now, without fusing."""
        return self._digest(
            tile, WindowImages(self.stack, tile.padded), None if self.guide is None else WindowImages(self.guide, tile.padded)
        )

    def _digest(self, tile: Tile, images: WindowImages, deciding: WindowImages | None) -> bytes:
        """Return a digest of all that a tile depends on: the windows with their overlaps, and which pixels their images have."""
        # companions matter as far as the low pass of the blend sees beyond the core
        further = () if self.companions is None else WindowImages(self.companions, self._reach_of_companions(tile.core))
        masks = [
            map(partial(stack.valid, window=tile.padded), range(stack.n_images))
            for stack in (self.stack, self.guide)
            if stack is not None and stack.has_validity
        ]
        return digest_images(images, further, () if self.guide is None or deciding is None else deciding, *masks)

    def _reach_of_companions(self, window: Window) -> Window:
        return window.grown(LOW_PASS_REACH_PX, (self.stack.image_shape[0], self.stack.image_shape[1]))


def join_channels(parts: Sequence[FusedTile], *, input_digest: bytes) -> FusedTile:
    """Return the tiles of all channels as one, with a plane for each channel in everything."""
    given = [name for name in TILE_PLANES if getattr(parts[0], name) is not None]
    planes: dict[str, Any] = {name: np.stack([getattr(part, name) for part in parts], axis=-1) for name in given}
    return FusedTile(**planes, input_digest=input_digest, layers=tuple(chain.from_iterable(part.layers for part in parts)))


def digest_images(*groups: Iterable[SampleArray | BoolArray]) -> bytes:
    """Return one digest of all samples, which does not depend on how they are stored."""
    digest = hashlib.sha256()
    for image in chain.from_iterable(groups):
        # a view of a larger array, or planes in another order, must give the same digest as a copy
        digest.update(np.ascontiguousarray(image).data)
    return digest.digest()
