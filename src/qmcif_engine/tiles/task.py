"""Fuse one tile: read its windows, run the numerical stages, trim to the core. Everything a worker needs is in the task."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from qmcif_engine.cleanup.frame_ends import FrameEnds, reach_of_ends
from qmcif_engine.cleanup.positions import interpolate_position
from qmcif_engine.kernels.single_thread import single_thread
from qmcif_engine.method.focus import Borders
from qmcif_engine.method.fusion import LOW_PASS_REACH_PX, Blend, compose
from qmcif_engine.stack.noise import adapt_to_noise
from qmcif_engine.stack.samples import FocusRange, PlaneStack, check_finite
from qmcif_engine.stack.stack import ArrayStack
from qmcif_engine.tiles.spilling import SpilledArrays
from qmcif_engine.tiles.cell_stages import decides_on_cells, measure_cells
from qmcif_engine.tiles.stages import decide, decide_by_cells, find_focus_maps, measure_focus, plan_geometry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from qmcif_engine.config.fusion_config import DecisionConfig, FusionConfig
    from qmcif_engine.kernels.array_types import BoolArray, FloatArray, IndexArray, SampleArray
    from qmcif_engine.method.decomposition import Decomposition
    from qmcif_engine.stack.samples import FocusRanges
    from qmcif_engine.stack.stack import Stack
    from qmcif_engine.stack.window import Window
    from qmcif_engine.tiles.plan import Tile
    from qmcif_engine.tiles.stages import FocusMaps

SAMPLES_IN_MEMORY_BYTES = 48 * 2**20
"""Windows of more images than this holds wait in a temporary file: every stage looks at each image again, and decoding is dear."""


@dataclass(frozen=True, slots=True)
class FusedTile:
    """What one tile gives, all of the size of its core.

    Attributes
    ----------
    fused : ndarray, shape (h, w) or (h, w, C)
    source_index : ndarray of uint16, shape (h, w), or (h, w, C) where each channel was decided on by itself
    base_map, detail_map : ndarray of uint16, of the same shape, or None
        None unless they were asked for.
    confidence : ndarray of float32, of the same shape
    companions : ndarray, shape (h, w) or (h, w, c), or None
    input_digest : bytes
        SHA-256 of the samples that went in, within the core: tells whether a finished tile still belongs to its input.
    layers : tuple of Decomposition
        Empty unless they were asked for.
    position : ndarray of float32, of the same shape, or None
        Where along the stack each pixel is sharpest, in images; None unless it was asked for.
    """

    fused: SampleArray
    source_index: IndexArray
    base_map: IndexArray | None
    detail_map: IndexArray | None
    confidence: FloatArray
    companions: SampleArray | None
    input_digest: bytes
    layers: tuple[Decomposition, ...]
    position: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class TileTask:
    """What is common to all tiles of a run; it can be sent to another process.

    Attributes
    ----------
    stack : Stack
    config : FusionConfig
    focus_range : FocusRange, or tuple of one a channel
    companions : Stack or None
        Planes composed by the same decisions.
    keep_layers, with_position, with_maps : bool
        What is returned beyond the picture, its source index and its confidence.
    noise_levels : tuple of float
        Standard deviation of the noise on the 0-255 scale; one a channel where channels are decided on one by one.
    guide : Stack or None
        What decisions are made on, as `qmcif_engine.stack.guide.settle_guide` returns it, where it is not the stack itself. Focus range
        and noise are then the guide's.
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

    def __call__(
        self, tile: Tile, *, check_cancelled: Callable[[], None] = lambda: None, report_image: Callable[[], None] = lambda: None
    ) -> FusedTile:
        """Fuse one tile.

        One thread in the linear algebra, because with several the rounding, and so the last byte, would depend on their number.
        """
        images = WindowImages(self.stack, tile.padded)
        deciding = images if self.guide is None else WindowImages(self.guide, tile.padded)
        told: dict[str, Any] = {"check_cancelled": check_cancelled, "report_image": report_image}
        if not self.stack.decides_each:
            return self._fuse(images, deciding, tile, focus_range=self.focus_range, noise_level=self.noise_levels[0], **told)
        n_channels = self.stack.image_shape[2]
        ranges = (self.focus_range,) * n_channels if isinstance(self.focus_range, FocusRange) else self.focus_range
        core = tile.core.relative_to(tile.padded)
        digest = digest_images(images.cropped(core), () if self.guide is None else deciding.cropped(core))
        levels = self.noise_levels * n_channels if len(self.noise_levels) == 1 else self.noise_levels
        parts = [
            self._fuse(
                ChannelImages(images, channel), ChannelImages(deciding, channel), tile, focus_range=bounds, noise_level=level, **told
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
        check_cancelled: Callable[[], None],
        report_image: Callable[[], None],
    ) -> FusedTile:
        """Decide on one window of the deciding images, and compose the images and their companions within the core of the tile."""
        shape = (self.stack.image_shape[0], self.stack.image_shape[1])
        geometry = plan_geometry(shape, self.config)
        blocks = PlaneStack(deciding, focus_range, representation=self.config.focus.representation)
        borders = Borders(*tile.padded.ends_of(shape))
        adaptation = adapt_to_noise(noise_level, self.config, n_images=self.stack.n_images)
        ends = deciding.find_frame_ends(self.config.decision)
        validity = deciding.validity if ends is None else ends.choosable
        common: dict[str, Any] = {"borders": borders, "adaptation": adaptation, "validity": validity}
        told: dict[str, Any] = {"check_cancelled": check_cancelled, "report_image": report_image}
        maps: FocusMaps | None = None
        layers: tuple[Decomposition, ...] = ()
        with single_thread():
            is_by_cells = decides_on_cells(self.config)
            if self.with_maps or self.keep_layers or not is_by_cells:
                by_pixel = measure_focus(blocks, self.config, geometry=geometry, keep_layers=self.keep_layers, **common, **told)
                layers = by_pixel.layers
            if self.with_maps:
                maps = find_focus_maps(blocks, by_pixel, geometry=geometry, config=self.config, **common)
            if is_by_cells:
                by_cell = measure_cells(blocks.few_planes(), self.config, detail_patch_px=geometry.detail_patch_px, **common, **told)
                check_cancelled()
                result = decide_by_cells(blocks, by_cell, geometry=geometry, config=self.config, ends=ends, **common)
                detail_levels: Iterable[FloatArray] = by_cell.spread_detail(tile.padded.shape)
            else:
                check_cancelled()
                result = decide(blocks, by_pixel, geometry=geometry, config=self.config, ends=ends, **common)
                detail_levels = by_pixel.detail
            position = interpolate_position(detail_levels, result.blend.source_index) if self.with_position else None
        core = tile.core.relative_to(tile.padded)
        blend = crop_blend(result.blend, core)
        chosen = images.cropped(core)
        further = () if self.companions is None else WindowImages(self.companions, tile.core)
        seen = tile.core.grown(LOW_PASS_REACH_PX, shape)
        companions = None
        if self.companions is not None:
            companions = compose(WindowImages(self.companions, seen), blend, inner=tile.core.relative_to(seen))
        return FusedTile(
            fused=compose(images, blend, inner=core),
            source_index=blend.source_index,
            base_map=None if maps is None else np.ascontiguousarray(maps.base[core.slices]),
            detail_map=None if maps is None else np.ascontiguousarray(maps.detail[core.slices]),
            confidence=np.ascontiguousarray(result.confidence[core.slices]),
            companions=companions,
            input_digest=digest_images(chosen, further, () if self.guide is None else deciding.cropped(core)),
            layers=layers,
            position=None if position is None else np.ascontiguousarray(position[core.slices]),
        )

    def digest_input(self, tile: Tile) -> bytes:
        """Return what `FusedTile.input_digest` is now, without fusing."""
        others = [WindowImages(stack, tile.core) for stack in (self.companions, self.guide) if stack is not None]
        return digest_images(WindowImages(self.stack, tile.core), *others)


def join_channels(parts: Sequence[FusedTile], *, input_digest: bytes) -> FusedTile:
    """Return the tiles of all channels as one, with a plane for each channel in everything."""

    def stacked(name: str) -> NDArray[Any]:
        return np.stack([getattr(part, name) for part in parts], axis=-1)

    return FusedTile(
        fused=stacked("fused"),
        source_index=stacked("source_index"),
        base_map=None if parts[0].base_map is None else stacked("base_map"),
        detail_map=None if parts[0].detail_map is None else stacked("detail_map"),
        confidence=stacked("confidence"),
        companions=None,
        input_digest=input_digest,
        layers=tuple(chain.from_iterable(part.layers for part in parts)),
        position=None if parts[0].position is None else stacked("position"),
    )


def digest_images(*groups: Sequence[SampleArray]) -> bytes:
    """Return one digest of all samples, which does not depend on how they are stored."""
    digest = hashlib.sha256()
    for image in chain.from_iterable(groups):
        digest.update(np.ascontiguousarray(image).data)
    return digest.digest()


def crop_blend(blend: Blend, window: Window) -> Blend:
    """Return a window of a blend."""
    is_inside = np.zeros(blend.band.shape, bool)
    is_inside[window.slices] = True
    kept = np.flatnonzero(is_inside[blend.band])
    return Blend(
        np.ascontiguousarray(blend.source_index[window.slices]),
        np.ascontiguousarray(blend.band[window.slices]),
        blend.sources,
        blend.weights[:, kept],
        blend.brightness[:, kept],
    )


class WindowImages(Sequence["SampleArray"]):
    """Offer one window of every image of a stack, each read from its source only once."""

    def __init__(self, stack: Stack, window: Window) -> None:
        self._stack, self._window = stack, window
        self._known = SpilledArrays(memory_bytes=SAMPLES_IN_MEMORY_BYTES)

    @property
    def validity(self) -> Callable[[int], BoolArray] | None:
        """What tells which pixels of the window an image has; None where every image has all."""
        return (lambda number: self._stack.valid(number, self._window)) if self._stack.has_validity else None

    def find_frame_ends(self, config: DecisionConfig) -> FrameEnds | None:
        """Return what images may give near the ends of their frames; None where every image has all pixels, or nothing is blended."""
        reach, shape = reach_of_ends(config), (self._stack.image_shape[0], self._stack.image_shape[1])
        if not self._stack.has_validity or reach == 0:
            return None
        return FrameEnds(self._stack.valid, self._window, n_images=len(self), shape=shape, reach_px=reach)

    def __len__(self) -> int:
        """Return the number of images."""
        return self._stack.n_images

    @overload
    def __getitem__(self, number: int) -> SampleArray: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[SampleArray]: ...

    def __getitem__(self, number: int | slice) -> SampleArray | Sequence[SampleArray]:
        """Return the window of one image."""
        if isinstance(number, slice):
            return _Some(self, range(*number.indices(len(self))), None)
        if not 0 <= number < len(self):
            raise IndexError(number)
        return self._image(number)

    def _image(self, number: int) -> SampleArray:
        if type(self._stack) is ArrayStack:  # a view costs nothing
            return self._stack.read(number, self._window)
        while len(self._known) <= number:
            self._known.append(self._checked(len(self._known)))
        return self._known[number]

    def cropped(self, window: Window) -> Sequence[SampleArray]:
        """Return the images cut to a window that is counted from the corner of this one."""
        return _Some(self, range(len(self)), window)

    def _checked(self, number: int) -> NDArray[Any]:
        samples = self._stack.read(number, self._window)
        check_finite(samples, self._stack.names[number])
        return samples


class ChannelImages(WindowImages):
    """One channel of a window of every image, shape (h, w); the images are read once for all channels."""

    def __init__(self, images: WindowImages, channel: int) -> None:
        super().__init__(images._stack, images._window)
        self._images, self._channel = images, channel

    def _image(self, number: int) -> SampleArray:
        return self._images[number][..., self._channel]


class _Some(Sequence["SampleArray"]):
    """Offer some of the images, or a part of each, without reading them before they are asked for."""

    def __init__(self, images: WindowImages, numbers: range, window: Window | None) -> None:
        self._images, self._numbers, self._window = images, numbers, window

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, number: int) -> SampleArray: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[SampleArray]: ...

    def __getitem__(self, number: int | slice) -> SampleArray | Sequence[SampleArray]:
        if isinstance(number, slice):
            return _Some(self._images, self._numbers[number], self._window)
        image = self._images[self._numbers[number]]
        return image if self._window is None else image[self._window.slices]
