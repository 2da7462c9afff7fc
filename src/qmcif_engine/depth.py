"""Heights from the decisions of a fusion: where along the stack, in physical units, each pixel lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.arrays import FloatArray, IndexArray, SampleArray
from qmcif_engine.compiled import compiled
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.io.input.array_source import is_dask_array
from qmcif_engine.io.metadata.units import convert_length, parse_unit
from qmcif_engine.io.output.formats import name_beside
from qmcif_engine.io.output.windowed_image import ArrayImage, ImageContent, JoinedImage, WindowedImage, assemble_content
from qmcif_engine.stack.image_metadata import ImageMetadata, name_planes
from qmcif_engine.stack.samples import FocusRange, FocusRanges
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from dask.array import Array as DaskPlane

LARGEST_STEP = 1.5
"""Heights that differ by this many images are never averaged: a step of the scene stays a step."""

GUIDE_CONTRAST = 0.1
"""Difference of brightness (0-1) at which a neighbor counts half."""

LEAST_WEIGHT = 1e-3
"""What a neighbor without confidence still counts."""

LEAST_CONFIDENCE = np.float32(0.5)
"""Of a pixel about whose depth nothing is known."""

LARGEST_SMOOTHING_PX = 32
CHUNK_PX = 512
"""Smallest side of the chunks of lazy heights, far above what the smoothing reaches."""


class HeightMap(NamedTuple):
    """The heights of an image and how sure the decisions behind them are.

    Attributes
    ----------
    height : ndarray or dask array of float32, shape (H, W)
        In the unit of the z step; 0 is the first image, and heights grow along the stack unless the z step is negative.
    confidence : ndarray or dask array of float32, shape (H, W)
        Probability that the decision behind a height is right, as `FusionResult.confidence` has it.
    """

    height: Any
    confidence: Any


class HeightScale(NamedTuple):
    """What one image of a stack means in space: the distance to the next, and its unit where it is known."""

    z_step: float
    unit: str | None

    @property
    def channel_name(self) -> str:
        """What a file calls its heights."""
        return "height" if self.unit is None else f"height in {self.unit}"


_SMALLEST_Z_STEP, _LARGEST_Z_STEP = 1e-30, 1e30


@dataclass(frozen=True, slots=True, kw_only=True)
class HeightRequest:
    """Where a height map goes and how it is made.

    Attributes
    ----------
    target : Path
        A name whose format holds floats, such as ``height.ome.tif``; the confidence goes beside it.
    z_step : float, optional
        Distance between neighboring images, negative where the stack runs downwards; that of the stack's metadata where left out.
    unit : str, optional
        Unit of the z step and of the heights, such as ``micrometer``; that of the metadata where left out.
    smoothing_px : int
        Radius of the smoothing; 0 leaves the heights as they are.
    """

    target: Path
    z_step: float | None = None
    unit: str | None = None
    smoothing_px: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        check_smoothing(self.smoothing_px)

    @property
    def confidence_target(self) -> Path:
        """Where the confidence goes: ``height.ome.tif`` has its own in ``height_confidence.ome.tif``."""
        return name_beside(self.target, "_confidence")


def choose_height_scale(metadata: ImageMetadata, *, z_step: float | None = None, unit: str | None = None) -> HeightScale:
    """Return the z step and its unit: those given, else those of the metadata, in the unit that was asked for.

    Raises
    ------
    InvalidConfigError
        When there is no usable z step or unit.
    """
    name = parse_unit(unit)
    if unit is not None and name is None:
        msg = f"the unit of heights is {unit!r}; a unit of length is needed: give for example micrometer, mm or nm"
        raise InvalidConfigError(msg)
    if z_step is not None:
        return HeightScale(_checked_step(z_step), name or metadata.unit)
    if metadata.z_step is None:
        msg = "the images do not say their z step; it is needed for heights: give it with --z-step, or --z-step 1 to count in images"
        raise InvalidConfigError(msg)
    if name is None or metadata.unit is None:
        return HeightScale(_checked_step(metadata.z_step), name or metadata.unit)
    return HeightScale(_checked_step(convert_length(metadata.z_step, metadata.unit, to=name)), name)


def _checked_step(z_step: float) -> float:
    """Return a z step with which heights, in single precision, are neither all zero nor infinite."""
    if not _SMALLEST_Z_STEP <= abs(z_step) <= _LARGEST_Z_STEP:  # NaN is not, either
        msg = (
            f"the z step is {z_step}; one from {_SMALLEST_Z_STEP} to {_LARGEST_Z_STEP}, or minus that, is needed: give the distance "
            "between neighboring images, in a fitting unit"
        )
        raise InvalidConfigError(msg)
    return z_step


def check_smoothing(smoothing_px: int) -> None:
    """Refuse a radius that is none or would take hours."""
    if not 0 <= smoothing_px <= LARGEST_SMOOTHING_PX:
        msg = f"the smoothing of heights is {smoothing_px} px; 0 to {LARGEST_SMOOTHING_PX} is needed: choose a radius in between"
        raise InvalidConfigError(msg)


def height_map(
    position: FloatArray | IndexArray | DaskPlane,
    *,
    z_step: float,
    confidence: FloatArray | DaskPlane,
    guide: SampleArray | DaskPlane | None = None,
    smoothing_px: int = 0,
) -> HeightMap:
    """Return heights from what a fusion found out.

    Parameters
    ----------
    position : ndarray or dask array, shape (H, W)
        `FusionResult.position`, or `FusionResult.source_index` for whole steps.
    z_step : float
        Distance between neighboring images, negative where the stack runs downwards.
    confidence : ndarray or dask array of float, shape (H, W)
        `FusionResult.confidence`.
    guide : ndarray or dask array, shape (H, W) or (H, W, 3), optional
        The fused image, whose edges the smoothing keeps.
    smoothing_px : int
        Radius of the smoothing; 0 leaves the heights as they are.

    Returns
    -------
    HeightMap
        Of dask arrays where `position` is one: its blocks are smoothed with the neighbors they need when they are computed, and hold the
        same bytes as in memory. Only the darkest and the brightest sample of the guide are computed at once.
    """
    scale = choose_height_scale(ImageMetadata(), z_step=z_step)
    check_smoothing(smoothing_px)
    bounds = (0.0, 0.0) if guide is None else (float(guide.min()), float(guide.max()))
    guide_range = FocusRange(bounds[0], bounds[1] if bounds[1] > bounds[0] else bounds[0] + 1)
    form: dict[str, Any] = {"guide_range": guide_range, "z_step": scale.z_step, "smoothing_px": smoothing_px}
    if is_dask_array(position):
        return _map_lazily(position, confidence, guide, **form)
    planes = [np.asarray(plane) for plane in (position, confidence, guide) if plane is not None]
    return HeightMap(_read_heights(planes, Window.whole(position.shape), **form), planes[1].astype(np.float32))


def _read_heights(planes: Sequence[NDArray[Any]], window: Window, **form: Any) -> NDArray[np.float32]:  # noqa: ANN401 - of `HeightImage`
    """Return the heights of a window of arrays in memory: positions, confidences and a guide; without a guide every tone is alike."""
    position, confidence, guide = (*planes, np.zeros(planes[0].shape, np.uint8))[:3]
    image = HeightImage(position=ArrayImage(position), confidence=ArrayImage(confidence), guide=ArrayImage(guide), **form)
    return image.read(window)


def _read_block(*planes: NDArray[Any], block_info: Any = None, **form: Any) -> NDArray[np.float32]:  # noqa: ANN401 - dask's
    """Return the heights of a block of dask arrays that has its neighbors around it, except where the image ends."""
    places = zip(planes[0].shape, block_info[0]["chunk-location"], block_info[0]["num-chunks"], strict=False)
    reach_px = form["smoothing_px"]
    sides = [(reach_px if number else 0, side - (reach_px if number < count - 1 else 0)) for side, number, count in places]
    return _read_heights(planes, Window(sides[0][0], sides[1][0], sides[0][1], sides[1][1]), **form)


def _map_lazily(position: Any, confidence: Any, guide: Any, **form: Any) -> HeightMap:  # noqa: ANN401 - arrays of NumPy or dask
    """Return heights as dask arrays, whose chunks are no smaller than the smoothing reaches."""
    import dask.array as da

    chunks = tuple(_cut_evenly(side) for side in position.shape)
    planes = [da.asarray(plane).rechunk(chunks) for plane in (position, confidence)]
    kind: dict[str, Any] = {"dtype": np.float32, "meta": np.empty((0, 0), np.float32)}
    if guide is not None:
        samples = da.asarray(guide)
        samples = samples.rechunk((*chunks, *((length,) for length in samples.shape[2:])))
        planes.append(samples.map_blocks(_find_tone, bounds=form["guide_range"], drop_axis=list(range(2, samples.ndim)), **kind))
        form["guide_range"] = FocusRange(0.0, 1.0)  # tones are on this scale
    around = [da.overlap.overlap(plane, form["smoothing_px"], boundary="none") for plane in planes]
    heights = da.map_blocks(_read_block, *around, chunks=chunks, **kind, **form)
    return HeightMap(heights, planes[1].astype(np.float32))


def _find_tone(samples: NDArray[Any], *, bounds: FocusRange) -> NDArray[np.float32]:
    """Return the mean over channels, shape (h, w), on the 0-1 scale."""
    return measure_brightness(np.moveaxis(np.atleast_3d(samples), -1, 0), bounds)


def _cut_evenly(side_px: int) -> tuple[int, ...]:
    """Return the sides of chunks that differ by a pixel at most, none smaller than `CHUNK_PX` unless the image is."""
    n_chunks = max(1, side_px // CHUNK_PX)
    return tuple(side_px * (number + 1) // n_chunks - side_px * number // n_chunks for number in range(n_chunks))


@dataclass(frozen=True, kw_only=True, eq=False)
class HeightImage:
    """Heights window by window, computed when they are read; the window changes no height.

    Parameters
    ----------
    position, confidence : WindowedImage, shape (H, W)
        Where along the stack each pixel is, in images, and how clear that is.
    guide : WindowedImage, shape (H, W) or (H, W, C)
        The fused image.
    guide_range : FocusRange, or tuple of one per channel
        Its black and white.
    z_step : float
    smoothing_px : int

    Notes
    -----
    The smoothed position is ``p + sum w (q - p) / sum w`` over the neighbors ``q`` within the radius, with
    ``w = c (1 - (q - p)^2 / s^2)^2 / (1 + (g_q - g_p)^2 / t^2)`` where ``|q - p| < s`` and 0 elsewhere: a bilateral filter (Tomasi and
    Manduchi 1998) of compact support, weighted by the confidence ``c``; ``s`` is `LARGEST_STEP`, ``t`` is `GUIDE_CONTRAST`.
    """

    position: WindowedImage
    confidence: WindowedImage
    guide: WindowedImage
    guide_range: FocusRanges
    z_step: float
    smoothing_px: int = 0
    dtype = np.dtype(np.float32)

    @property
    def shape(self) -> tuple[int, ...]:
        """Height and width."""
        return self.position.shape[:2]

    def read(self, window: Window) -> NDArray[np.float32]:
        """Return the heights of a window."""
        if self.smoothing_px == 0:
            return self._scaled(self.position.read(window).astype(np.float32))
        position = self._around(self.position, window).astype(np.float32)
        known = (self._around(self.confidence, window).astype(np.float32) - LEAST_CONFIDENCE) / (1 - LEAST_CONFIDENCE)
        weights = np.maximum(known, np.float32(LEAST_WEIGHT)).astype(np.float32, copy=False)
        tones = measure_brightness(self._around(self.guide, window), self.guide_range)
        smoothed = np.empty(window.shape, np.float32)
        smooth_heights(position, weights, tones, np.array([LARGEST_STEP, GUIDE_CONTRAST], np.float32), smoothed)
        return self._scaled(smoothed)

    def _around(self, image: WindowedImage, window: Window) -> NDArray[Any]:
        """Return a window with the reach of the smoothing around it; outside the image it continues by reflection."""
        grown = window.grown(self.smoothing_px, (self.shape[0], self.shape[1]))
        planes = np.moveaxis(np.atleast_3d(image.read(grown)), -1, 0)
        before = (grown.top - window.top + self.smoothing_px, grown.left - window.left + self.smoothing_px)
        after = (window.bottom + self.smoothing_px - grown.bottom, window.right + self.smoothing_px - grown.right)
        cut = np.ascontiguousarray(np.pad(planes, [(0, 0), *zip(before, after, strict=True)], mode="symmetric"))
        return cut[0] if len(image.shape) == 2 else cut

    def _scaled(self, position: NDArray[np.float32]) -> NDArray[np.float32]:
        heights: NDArray[np.float32] = position * np.float32(self.z_step)
        return heights


def measure_brightness(samples: NDArray[Any], ranges: FocusRanges) -> NDArray[np.float32]:
    """Return the mean over the channels of samples, shape (h, w) or (C, h, w), on the 0-1 scale."""
    planes = samples if samples.ndim == 3 else samples[np.newaxis]
    if isinstance(ranges, FocusRange):
        return np.asarray((planes.mean(axis=0, dtype=np.float64) - ranges.low) / ranges.width, np.float32)
    # a plane of zeros has no range and no tone
    tones = [(plane.astype(np.float64) - bounds.low) / bounds.width for plane, bounds in zip(planes, ranges, strict=False)]
    return np.asarray(np.mean(tones, axis=0), np.float32)


def assemble_heights(
    request: HeightRequest,
    *,
    position: WindowedImage,
    confidence: WindowedImage,
    guide: WindowedImage,
    guide_range: FocusRanges,
    metadata: ImageMetadata,
    provenance: Mapping[str, object],
) -> dict[Path, ImageContent]:
    """Return what goes into the files of a height map and of its confidence.

    Parameters
    ----------
    request : HeightRequest
    position, confidence, guide, guide_range
        As for `HeightImage`.
    metadata : ImageMetadata
        Of the stack: z step, unit and size of a pixel, and the names of channels where each has heights of its own.
    provenance : mapping
        What the image was made of and how; z step, unit and smoothing are added.
    """
    scale = choose_height_scale(metadata, z_step=request.z_step, unit=request.unit)

    def measure(planes: Sequence[WindowedImage], bounds: FocusRanges) -> HeightImage:
        position, confidence, guide = planes
        form: dict[str, Any] = {"z_step": scale.z_step, "smoothing_px": request.smoothing_px}
        return HeightImage(position=position, confidence=confidence, guide=guide, guide_range=bounds, **form)

    planes = (position, confidence, guide)
    names: tuple[str, ...] = ()
    heights: WindowedImage
    if len(position.shape) == 2:
        heights = measure(planes, guide_range)
    else:  # channels that were decided on one by one, each guided by its own image
        names = name_planes(metadata.channel_names, position.shape[2])
        ranges = (guide_range,) * len(names) if isinstance(guide_range, FocusRange) else guide_range
        shown = [[JoinedImage([plane], channel) for plane in planes] for channel in range(len(names))]
        heights = JoinedImage([measure(*one) for one in zip(shown, ranges, strict=True)])
    described = {**provenance, "height": describe_request(request, metadata)}
    plain = ImageMetadata(pixel_size=metadata.pixel_size, unit=metadata.unit, dpi=metadata.dpi, channel_names=names)
    named = replace(plain, channel_names=tuple(f"{name} {scale.channel_name}" for name in names) or (scale.channel_name,))
    return {
        request.target: assemble_content(heights, None, metadata=named, provenance=described),
        request.confidence_target: assemble_content(confidence, None, metadata=plain, provenance=provenance),
    }


def describe_request(request: HeightRequest, metadata: ImageMetadata) -> dict[str, object]:
    """Return how heights are made, for their provenance."""
    scale = choose_height_scale(metadata, z_step=request.z_step, unit=request.unit)
    return {"z_step": scale.z_step, "unit": scale.unit, "smoothing_px": request.smoothing_px}


@compiled
def smooth_heights(
    heights: NDArray[np.float32],
    weights: NDArray[np.float32],
    guide: NDArray[np.float32],
    scales: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Put the mean of the heights around each pixel into `out`, which is smaller by the radius on every side.

    A neighbor counts by its weight, less the more its guide differs and nothing at all where its height differs by `scales[0]`;
    `scales[1]` is the difference of the guide at which it counts half.
    """
    radius = (heights.shape[0] - out.shape[0]) // 2
    largest, contrast = scales
    for y in range(out.shape[0]):
        for x in range(out.shape[1]):
            height, tone = heights[y + radius, x + radius], guide[y + radius, x + radius]
            total, shift = np.float32(0), np.float32(0)
            for row in range(y, y + 2 * radius + 1):
                for column in range(x, x + 2 * radius + 1):
                    difference = heights[row, column] - height
                    # falls to 0 at a step of the surface, so that nothing is averaged across it
                    likeness = np.float32(1) - (difference / largest) ** 2
                    if likeness > 0:
                        step = (guide[row, column] - tone) / contrast
                        weight = weights[row, column] * likeness * likeness / (np.float32(1) + step * step)
                        total += weight
                        shift += weight * difference
            # differences, not heights, are averaged: rounding is that of small numbers
            out[y, x] = height + shift / total
