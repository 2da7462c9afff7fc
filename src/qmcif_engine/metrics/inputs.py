"""Checks of the images of one comparison, so that the metrics can trust what they get."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.errors import InvalidImageError
from qmcif_engine.io.input.array_source import is_dask_array
from qmcif_engine.stack.samples import SUPPORTED_DTYPES

_DTYPE_RANGES = {
    "uint8": (0.0, 255.0),
    "uint16": (0.0, 65535.0),
    "int8": (-128.0, 127.0),
    "int16": (-32768.0, 32767.0),
    "bool": (0.0, 1.0),
}
"""Other types have no natural black and white: floats, and uint32, since no detector fills 32 bits."""


def name_images(sources: Sequence[Any], fused: Any, truth: Any) -> list[tuple[str, Any]]:  # noqa: ANN401 - arrays of NumPy or dask
    """Return the images of one comparison with what messages call them, checked to fit each other; samples are not read.

    Parameters
    ----------
    sources : sequence of ndarray or dask array, shape (H, W) or (H, W, 3)
        At least two images of one shape and dtype.
    fused, truth : ndarray or dask array of the same shape and dtype
        The image to be judged, and the all-in-focus image, or None where it is not known.

    Raises
    ------
    InvalidImageError
        If images are missing, or differ in shape or dtype.
    """
    if len(sources) < 2:
        message = f"Got {len(sources)} source image(s); fusion is judged against at least 2. Pass all images that were fused."
        raise InvalidImageError(message)
    named = [(f"source {number}", source) for number, source in enumerate(sources, start=1)]
    # order that the rest relies on: sources, fused image, truth
    named.append(("the fused image", fused))
    if truth is not None:
        named.append(("the truth", truth))
    first_name, first = named[0]
    for name, image in named:
        _check_image(name, image)
        if image.shape != first.shape:
            message = f"Got {name} with shape {image.shape} but {first_name} with {first.shape}; all must agree. Crop or convert them."
            raise InvalidImageError(message)
        # mixed types would be brought to 8 bits by different limits
        if image.dtype != first.dtype:
            message = f"Got {name} of {image.dtype} but {first_name} of {first.dtype}; all must agree. Convert them to one dtype first."
            raise InvalidImageError(message)
    return named


def _check_image(name: str, image: Any) -> None:  # noqa: ANN401 - anything
    """Refuse what is no image."""
    if not isinstance(image, np.ndarray) and not is_dask_array(image):
        message = f"Got {name} as {type(image).__name__}; a NumPy array or a dask array is needed. Convert it with numpy.asarray."
        raise InvalidImageError(message)
    if image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] != 3) or image.size == 0:
        message = (
            f"Got {name} with shape {image.shape}; (H, W) gray or (H, W, 3) RGB with at least one pixel is needed. "
            "Drop an alpha channel, pass one plane of a stack at a time."
        )
        raise InvalidImageError(message)


def choose_limits(dtype: np.dtype[Any], sample_range: tuple[float, float] | None) -> tuple[float, float]:
    """Choose the samples that become levels 0 and 255, never looking at pixels.

    Parameters
    ----------
    dtype : dtype
    sample_range : tuple of float, optional
        Samples shown as black and as white. Needed for floats and uint32; for other integers the limits of the dtype are the default.

    Raises
    ------
    InvalidImageError
        If the images cannot be brought to 8 bits without guessing.
    """
    if dtype.name not in SUPPORTED_DTYPES:
        message = f"Got images of {dtype}; one of {', '.join(SUPPORTED_DTYPES)} is needed. Convert them to one of these."
        raise InvalidImageError(message)
    # what the user says goes before what the type suggests: 12-bit data in uint16
    if sample_range is not None:
        return _check_range(sample_range)
    if dtype.name not in _DTYPE_RANGES:
        message = (
            f"Got images of {dtype} without a sample range; {'floats have' if dtype.kind == 'f' else 'it has'} no natural black and white. "
            "Pass sample_range, for instance (0, 1), or convert the images to uint8."
        )
        raise InvalidImageError(message)
    return _DTYPE_RANGES[dtype.name]


def _check_range(sample_range: tuple[float, float]) -> tuple[float, float]:
    """Refuse a range that maps nothing to black and white."""
    limits = np.array(sample_range)
    if limits.shape == (2,) and limits.dtype.kind in "iuf":
        black, white = map(float, limits)
        # the difference of two finite numbers may be infinite, and levels are shares of it
        if black < white and math.isfinite(white - black):
            return black, white
    message = f"Got sample range {sample_range!r}; two finite numbers, black below white, are needed. Pass for instance (0, 4095)."
    raise InvalidImageError(message)


def refuse_infinite(name: str, n_bad: int) -> None:
    """Refuse an image with so many samples that no level can stand for."""
    if n_bad:
        message = f"Got {n_bad} NaN or infinite sample(s) in {name}; finite samples are needed. Replace them before the comparison."
        raise InvalidImageError(message)


def check_border(border_px: object) -> None:
    """Refuse a border that is no width."""
    if isinstance(border_px, bool) or not isinstance(border_px, (int, np.integer)) or border_px < 0:
        message = f"Got a border of {border_px!r} px; a whole number from 0 on is needed. Pass 0 to leave nothing out."
        raise InvalidImageError(message)


def rate_choices(
    source_index: NDArray[Any] | None, true_index: NDArray[Any] | None, *, shape: tuple[int, ...], n_sources: int
) -> float | None:
    """Check both index maps and return the share of pixels in which they agree; without any there is nothing to rate."""
    if source_index is None and true_index is None:
        return None
    if source_index is None or true_index is None:
        given, missing = ("true_index", "source_index") if source_index is None else ("source_index", "true_index")
        message = f"Got {given} without {missing}; the share of right choices needs both. Pass both, or neither."
        raise InvalidImageError(message)
    _check_index("source_index", source_index, shape=shape, n_sources=n_sources)
    _check_index("true_index", true_index, shape=shape, n_sources=n_sources)
    return int(np.count_nonzero(source_index == true_index)) / source_index.size


def _check_index(name: str, index: object, *, shape: tuple[int, ...], n_sources: int) -> None:
    """Refuse a map that does not name one of the sources at each pixel."""
    if not (isinstance(index, np.ndarray) and np.issubdtype(index.dtype, np.integer) and index.shape == shape):
        found = f"{index.dtype} of shape {index.shape}" if isinstance(index, np.ndarray) else type(index).__name__
        message = f"Got {name} as {found}; an integer array of shape {shape} is needed. Pass one source number for each pixel."
        raise InvalidImageError(message)
    if index.min() < 0 or index.max() >= n_sources:
        found = f"{index.min()} to {index.max()}"
        message = f"Got {name} from {found}; there are {n_sources} sources, counted from 0. Pass 0 to {n_sources - 1}."
        raise InvalidImageError(message)
