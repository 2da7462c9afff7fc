"""Checks of the images of one comparison, so that the metrics can trust what they get.

The reference reads 8-bit files. Images of other types are first brought to 8 bits, as if they had been saved to such a file, so that a
figure means the same whatever the sample type.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.errors import InvalidImageError
from qmcif_engine.io.input.array_source import compute_block, is_dask_array
from qmcif_engine.stack.samples import SUPPORTED_DTYPES

from .levels import convert_to_eight_bits, convert_to_gray
from .sliding_windows import iterate_strips

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .levels import Levels

_DTYPE_RANGES = {
    np.dtype(np.uint8): (0.0, 255.0),
    np.dtype(np.uint16): (0.0, 65535.0),
    np.dtype(np.int8): (-128.0, 127.0),
    np.dtype(np.int16): (-32768.0, 32767.0),
    np.dtype(np.bool_): (0.0, 1.0),
}
_FLOAT_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
_RANGELESS_DTYPES = (*_FLOAT_DTYPES, np.dtype(np.uint32))
"""Types without a natural black and white: no detector fills 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedImages:
    """What the metrics read, after every check has passed.

    Attributes
    ----------
    sources : tuple of ndarray of uint8, shape (H, W)
        Gray levels of the N sources.
    fused : ndarray of uint8, shape (H, W)
        Gray levels of the fused image.
    fused_samples, truth_samples : ndarray of uint8, shape (H, W) or (H, W, 3)
        The fused image and the truth with their colors; the truth is None where none was given.
    """

    sources: tuple[Levels, ...]
    fused: Levels
    fused_samples: Levels
    truth_samples: Levels | None


def name_images(sources: Sequence[Any], fused: Any, truth: Any) -> list[tuple[str, Any]]:  # noqa: ANN401 - arrays of NumPy or dask
    """Return the images of one comparison with what messages call them, once they are known to fit each other; samples are not read.

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
    _check_layout(named)
    return named


def prepare_images(named: Sequence[tuple[str, NDArray[Any]]], *, n_sources: int, limits: tuple[float, float]) -> ComparedImages:
    """Bring the images of one comparison, as `name_images` returned them, to 8 bits.

    Parameters
    ----------
    named : sequence of tuple
        Sources, the fused image and, where it is known, the truth.
    n_sources : int
    limits : tuple of float
        Samples that become levels 0 and 255, from `settle_limits`.

    Returns
    -------
    ComparedImages
        Gray levels of all images; colors of the fused image and the truth.

    Raises
    ------
    InvalidImageError
        If a sample is no number.
    """
    # all are checked before any is converted, so that a bad last image costs no work
    for name, image in named:
        _check_finite(name, image)
    sources, (fused, *truth) = ([image for _, image in part] for part in (named[:n_sources], named[n_sources:]))
    fused_samples = convert_to_eight_bits(fused, limits)
    return ComparedImages(
        sources=tuple(convert_to_gray(convert_to_eight_bits(source, limits)) for source in sources),
        fused=convert_to_gray(fused_samples),
        fused_samples=fused_samples,
        truth_samples=convert_to_eight_bits(truth[0], limits) if truth else None,
    )


def load_samples(image: Any) -> NDArray[Any]:  # noqa: ANN401 - an array of NumPy or dask
    """Return the samples of an image in memory."""
    loaded: NDArray[Any] = compute_block(image, ()) if is_dask_array(image) else image
    return loaded


def _check_array(name: str, image: object) -> None:
    """Refuse what is no array."""
    if not isinstance(image, np.ndarray) and not is_dask_array(image):
        message = f"Got {name} as {type(image).__name__}; a NumPy array or a dask array is needed. Convert it with numpy.asarray."
        raise InvalidImageError(message)


def _check_layout(named: Sequence[tuple[str, NDArray[Any]]]) -> None:
    """Refuse images that are no images, or that differ in shape or dtype."""
    first_name, first = named[0]
    for name, image in named:
        _check_array(name, image)
        if image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] != 3) or image.size == 0:
            message = (
                f"Got {name} with shape {image.shape}; (H, W) gray or (H, W, 3) RGB with at least one pixel is needed. "
                "Drop an alpha channel, pass one plane of a stack at a time."
            )
            raise InvalidImageError(message)
        if image.shape != first.shape:
            message = f"Got {name} with shape {image.shape} but {first_name} with {first.shape}; all must agree. Crop or convert them."
            raise InvalidImageError(message)
        # mixed types would be brought to 8 bits by different limits
        if image.dtype != first.dtype:
            message = f"Got {name} of {image.dtype} but {first_name} of {first.dtype}; all must agree. Convert them to one dtype first."
            raise InvalidImageError(message)


def settle_limits(dtype: np.dtype[Any], sample_range: tuple[float, float] | None) -> tuple[float, float]:
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
    if dtype not in _DTYPE_RANGES and dtype not in _RANGELESS_DTYPES:
        message = f"Got images of {dtype}; one of {', '.join(SUPPORTED_DTYPES)} is needed. Convert them to one of these."
        raise InvalidImageError(message)
    # what the user says goes before what the type suggests: 12-bit data in uint16
    if sample_range is not None:
        return _check_range(sample_range)
    if dtype in _RANGELESS_DTYPES:
        message = (
            f"Got images of {dtype} without a sample range; {'floats have' if dtype.kind == 'f' else 'it has'} no natural black and white. "
            "Pass sample_range, for instance (0, 1), or convert the images to uint8."
        )
        raise InvalidImageError(message)
    return _DTYPE_RANGES[dtype]


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


def _check_finite(name: str, image: NDArray[Any]) -> None:
    """Refuse samples no level can stand for."""
    if image.dtype not in _FLOAT_DTYPES:
        return
    refuse_infinite(name, sum(int(np.count_nonzero(~np.isfinite(image[rows]))) for rows in iterate_strips(image.shape)))


def refuse_infinite(name: str, n_bad: int) -> None:
    """Refuse an image in which so many samples were found to be no number."""
    if n_bad:
        message = f"Got {n_bad} NaN or infinite sample(s) in {name}; finite samples are needed. Replace them before the comparison."
        raise InvalidImageError(message)
