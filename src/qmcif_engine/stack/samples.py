"""Samples as users hold them, and the 0-255 planes that the method computes with.

Two ranges are kept apart. The *sample range* is the dtype's and bounds the output. The *focus range* says which samples count as dark
and bright for decisions; it is chosen once for a whole stack, never from a part of it, so that 10-, 12- and 14-bit data in 16-bit
files and floats of any range are decided on as 8-bit data are.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.arrays import FloatArray, SampleArray
from qmcif_engine.config.fusion_config import Representation
from qmcif_engine.errors import InvalidConfigError, InvalidImageError

SUPPORTED_DTYPES = ("uint8", "uint16", "float32", "float64", "int8", "int16", "uint32", "bool")
FULL_SCALE = 255.0
"""The published parameters assume samples from 0 to 255."""

FOCUS_PERCENTILES = (0.1, 99.9)
FARTHEST_LEVEL = 2.0**16
"""Samples farther out on the 0-255 scale are sentinels, not light; their squares must not overflow."""

EXACT_BYTES = 2
"""Integers of so many bytes are exact in float32."""

N_SENTINELS = 2
"""So many different values far outside the percentiles are marks for missing samples; more of them are light on a dark ground."""

SUBSAMPLE_SIZE = 2**20
"""Pixels that the focus range is measured on: enough for a percentile of 0.1 %."""

LUMINANCE = (0.299, 0.587, 0.114)
"""Gray value of a color, for the paper's real-valued ablation."""


class FocusRange(NamedTuple):
    """The samples that stand for 0 and for 255 when decisions are made."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """Difference of samples that stands for 255, as far as numbers go; a stack of one value keeps its own scale."""
        return min(self.high - self.low, sys.float_info.max) or FULL_SCALE


FocusRanges: TypeAlias = "FocusRange | tuple[FocusRange, ...]"
"""One range for all channels, or one for each channel of a stack whose channels were recorded one by one."""

GivenRanges: TypeAlias = "tuple[float, float] | Sequence[tuple[float, float]]"
"""What a user may give: the bounds for all channels, or those of each."""


def check_images(images: Sequence[SampleArray] | SampleArray, *, names: Sequence[str] | None = None) -> list[SampleArray]:
    """Check that the images can be fused with each other and return them as a list.

    Parameters
    ----------
    images : sequence of ndarray, or one ndarray of shape (N, H, W) or (N, H, W, 3)
    names : sequence of str, optional
        What messages call the images; "image 1" and so on where left out.

    Raises
    ------
    InvalidImageError
        For fewer than two images, different shapes or dtypes, an unsupported dtype or channel count, NaN or infinity.
    """
    _check_container(images)
    stack = [np.asarray(image) for image in images]
    called = [f"image {number}" for number in range(1, len(stack) + 1)] if names is None else list(names)
    check_number(len(stack))
    first = stack[0]
    for image, name in zip(stack, called, strict=True):
        _check_image(image, name)
        if image.shape != first.shape:
            msg = f"{called[0]} has shape {first.shape} and {name} {image.shape}; all must be equal: crop or align them first"
            raise InvalidImageError(msg)
        if image.dtype != first.dtype:
            msg = f"{called[0]} is {first.dtype} and {name} {image.dtype}; all must be of one type: convert them first"
            raise InvalidImageError(msg)
    return stack


def check_number(n_images: int) -> None:
    """Refuse a stack of one image: there is nothing to choose from."""
    if n_images < 2:
        given = "1 image was" if n_images else "0 images were"
        msg = f"{given} given; at least 2 of one scene are needed: add the other focus positions"
        raise InvalidImageError(msg)


def _check_container(images: Sequence[SampleArray] | SampleArray) -> None:
    """Refuse an array that is one image rather than a stack: (Y, X), or (Y, X, 3), which would pass for Y gray images 3 pixels wide."""
    if isinstance(images, np.ndarray) and (images.ndim < 3 or (images.ndim == 3 and images.shape[-1] == 3)):
        msg = f"one array of shape {images.shape} was given; a stack (N, Y, X) or (N, Y, X, 3) is needed: pass a list of images"
        raise InvalidImageError(msg)


def _check_image(image: NDArray[Any], name: str) -> None:
    if image.dtype.name not in SUPPORTED_DTYPES:
        msg = f"{name} has samples of type {image.dtype}; {', '.join(SUPPORTED_DTYPES)} are supported: convert it with astype"
        raise InvalidImageError(msg)
    is_gray, is_color = image.ndim == 2, image.ndim == 3 and image.shape[-1] == 3
    if not (is_gray or is_color) or image.size == 0:
        msg = f"{name} has shape {image.shape}; (height, width) or (height, width, 3) is needed: drop or select channels first"
        raise InvalidImageError(msg)
    check_finite(image, name)


def check_finite(samples: NDArray[Any], name: str) -> None:
    """Refuse NaN and infinity, which no decision can be made on."""
    if samples.dtype.kind == "f" and not np.isfinite(samples).all():
        msg = f"{name} holds NaN or infinite samples; finite ones are needed: fill them first, for example with numpy.nan_to_num"
        raise InvalidImageError(msg)


def measure_focus_range(stack: Sequence[SampleArray]) -> FocusRange:
    """Return the 0.1 and 99.9 percentiles of one fixed subsample of the stack, or the extremes of a sparse stack.

    In a sparse image, such as a few bright beads on black, the percentiles span the noise of the background only, and all that is to
    be seen lies far beyond them.

    The subsample is a regular grid over all images that depends on the stack's shape alone, so the same stack always gives the same
    range, however it is stored or cut into tiles. Of a large stack, `qmcif_engine.stack.stack.sample_stack` gives the windows.

    Notes
    -----
    Departs: the paper has 8-bit samples and takes them as they are. The range applies in the ``paper`` preset too; ``focus_range`` of
    `qmcif_engine.fuse` overrides it.
    """
    height, width = stack[0].shape[:2]
    # the same step along rows and columns, so that about SUBSAMPLE_SIZE pixels of all images are left
    step = max(1, int(np.ceil(np.sqrt(len(stack) * height * width / SUBSAMPLE_SIZE))))
    grid = np.concatenate([image[::step, ::step].reshape(-1) for image in stack])
    grid = grid.view(np.uint8) if grid.dtype == bool else grid  # no percentile is defined between false and true
    # no interpolation between samples: a gray image and its copy with three equal channels then have the same range
    low, high = (float(bound) for bound in np.percentile(grid, FOCUS_PERCENTILES, method="inverted_cdf"))
    # of all samples, not of the grid: a few bright beads may lie between its points
    least, largest = float(min(image.min() for image in stack)), float(max(image.max() for image in stack))
    farthest = FARTHEST_LEVEL / FULL_SCALE * (high - low)
    bound = float(np.finfo(grid.dtype).max) if grid.dtype.kind == "f" else np.inf  # no sample lies beyond it
    below, above = max(low - farthest, -bound), min(high + farthest, bound)
    # samples that the clipping of `to_planes` would make equal
    beyond = np.concatenate([image[(image < below) | (image > above)] for image in stack])
    is_sparse = high == low or len(np.unique(beyond)) > N_SENTINELS
    return FocusRange(least, largest) if is_sparse else FocusRange(low, high)


def check_focus_range(bounds: Sequence[float]) -> FocusRange:
    """Return a range given by the user, or say what is wrong with it."""
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        low = high = float("nan")
    if isinstance(bounds, FocusRange) and low == high:
        return bounds  # measured before, of a stack of one value
    is_usable = low < high and np.isfinite(high - low) and high - low >= np.finfo(np.float64).tiny
    if not is_usable:
        msg = f"the focus range is {bounds}; two finite values, the lower first, are needed: give for example 0 and 4095 for 12 bits"
        raise InvalidConfigError(msg)
    return FocusRange(low, high)


def check_focus_ranges(bounds: GivenRanges, *, n_channels: int) -> FocusRanges:
    """Return what the user gave: one range for all channels, or one for each.

    Parameters
    ----------
    bounds : two floats, or a sequence of two floats a channel
    n_channels : int
        How many channels decide.
    """
    # anything that does not hold pairs is taken for one, and refused as such where it is none
    is_pair = not isinstance(bounds, (list, tuple)) or not any(isinstance(bound, (list, tuple)) for bound in bounds)
    if is_pair:
        return check_focus_range(bounds)  # type: ignore[arg-type] # whatever else it is, that is refused there
    if len(bounds) != n_channels:
        msg = (
            f"{len(bounds)} focus ranges were given and {n_channels} channels decide; one for all or one for each is needed: "
            "give as many as there are channels"
        )
        raise InvalidConfigError(msg)
    return tuple(check_focus_range(pair) for pair in bounds)  # type: ignore[arg-type] # as above


def list_bounds(focus_range: FocusRanges) -> list[float] | list[list[float]]:
    """Return ranges as JSON holds them: two numbers, or two numbers a channel."""
    return list(focus_range) if isinstance(focus_range, FocusRange) else [list(bounds) for bounds in focus_range]


def spread_range(focus_range: FocusRanges, n_planes: int, *, dtype: np.dtype[Any]) -> tuple[FloatArray, FloatArray]:
    """Return the lower bound and the width of the focus range of each image plane, shape (n_planes, 1, 1).

    Planes beyond the ranges hold zeros: they stand where a quaternion has room for a third channel, and stay zero.
    """
    ranges = [focus_range] * n_planes if isinstance(focus_range, FocusRange) else list(focus_range)
    ranges += [FocusRange(0.0, FULL_SCALE)] * (n_planes - len(ranges))
    low, width = ([bounds.low for bounds in ranges], [bounds.width for bounds in ranges])
    return np.array(low, dtype).reshape(-1, 1, 1), np.array(width, dtype).reshape(-1, 1, 1)


def to_planes(image: SampleArray, focus_range: FocusRanges, *, representation: Representation) -> FloatArray:
    """Embed an image on the 0-255 scale of decisions.

    Parameters
    ----------
    image : ndarray, shape (H, W) or (H, W, 3)
    focus_range : FocusRange, or tuple of one per channel
        Samples outside it map outside 0-255: clipping there would invent saturated areas.
    representation : Representation

    Returns
    -------
    ndarray of float32, shape (1, H, W) or (3, H, W)
        One plane for a gray image or for the gray value of a color, else the planes of ``I = R i + G j + B k`` [QMCIF, Definition 3],
        [QMCIF, Eq. (1)]. A gray image is a color image with equal channels.

    Notes
    -----
    float32 holds 16-bit samples exactly; longer integers and floats of any magnitude are mapped in float64.
    """
    is_exact = image.dtype.kind != "f" and image.dtype.itemsize <= EXACT_BYTES
    # plane by plane, so that what follows runs along contiguous rows
    planes: FloatArray = np.array(np.moveaxis(np.atleast_3d(image), -1, 0), np.float32 if is_exact else np.float64, order="C")
    low, width = spread_range(focus_range, len(planes), dtype=planes.dtype)
    if planes.dtype == np.float64 and width.max() > sys.float_info.max / 4:  # differences would be beyond all numbers
        planes /= 4
        low, width = low / 4, width / 4
    # in place: no further arrays of the size of a tile
    planes -= low
    planes /= width
    planes *= FULL_SCALE
    # only sentinels are caught: the focus range itself does not clip
    np.clip(planes, -FARTHEST_LEVEL, FARTHEST_LEVEL, out=planes)
    if representation is Representation.GRAY and len(planes) > 1:
        planes = (np.moveaxis(planes, 0, -1) @ np.asarray(LUMINANCE, planes.dtype))[np.newaxis]
    return planes.astype(np.float32, copy=False)


def count_planes(image_shape: tuple[int, ...], representation: Representation) -> int:
    """Return how many planes `to_planes` makes of an image of this shape."""
    return 1 if representation is Representation.GRAY or len(image_shape) == 2 else image_shape[2]


def find_highest(dtype: np.dtype[Any], focus_range: FocusRanges, *, significant_bits: int | None = None) -> float | None:
    """Return the largest sample of a type on the 0-255 scale; None for floats, which have no limit.

    Of channels that have a range each, the largest of all: none is taken for clipped that is not.
    """
    if dtype.kind == "f":
        return None
    largest = sample_limits(dtype)[1] if significant_bits is None else 2**significant_bits - 1
    ranges = (focus_range,) if isinstance(focus_range, FocusRange) else focus_range
    return min(max((largest - bounds.low) / bounds.width for bounds in ranges) * FULL_SCALE, FARTHEST_LEVEL)


def to_samples(values: FloatArray, dtype: np.dtype[Any]) -> SampleArray:
    """Return working values to the source's dtype: the only way back. Integers are rounded and clipped, floats only cast."""
    if dtype.kind == "f":
        samples: SampleArray = values.astype(dtype)
        return samples
    low, high = sample_limits(dtype)
    # single precision would round the largest number of 32 bits up, beyond what the type holds
    kind = np.float64 if dtype.itemsize > EXACT_BYTES else values.dtype.type
    rounded: SampleArray = np.clip(np.rint(values), kind(low), kind(high)).astype(dtype)
    return rounded


def sample_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the least and the largest sample of a type that is not float; those of bool are 0 and 1."""
    return (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
