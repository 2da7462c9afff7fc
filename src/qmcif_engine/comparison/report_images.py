"""Images for scoring and showing, as arrays and as data of a page."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import imagecodecs
import numpy as np

from qmcif_engine.errors import ImageFileError, InvalidImageError
from qmcif_engine.io.input.readers import read_image

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from qmcif_engine.arrays import SampleArray

INDEX_COLORS = np.array(
    [(0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (86, 180, 233), (213, 94, 0), (240, 228, 66), (90, 90, 90)], np.uint8
)
"""Colors of the sources in an index map, told apart by color-blind readers too (Okabe and Ito 2008); they repeat after eight."""

_OPAQUE = {"uint8": 255.0, "uint16": 65535.0}
OPAQUE_FLOAT = 1.0


def read_opaque(path: Path) -> SampleArray:
    """Read the samples of an image file whose alpha channel, if it has one, hides nothing.

    Raises
    ------
    ImageFileError
        When the file cannot be read, or has transparent pixels: no figure says what those are worth.
    """
    file = read_image(path)
    if file.alpha is not None:
        refuse_transparency(path, bool((file.alpha != opaque_sample(file.alpha.dtype)).any()))
    return file.samples


def opaque_sample(dtype: np.dtype[Any]) -> float:
    """Return the sample of an alpha channel that hides nothing."""
    return _OPAQUE.get(dtype.name, OPAQUE_FLOAT)


def refuse_transparency(path: Path, is_transparent: bool) -> None:
    """Refuse an image that is known to have transparent pixels."""
    if is_transparent:
        msg = f"{str(path)!r} has transparent pixels; an opaque image is needed: flatten it or remove its alpha channel"
        raise ImageFileError(msg)


def read_eight_bit(path: Path) -> NDArray[np.uint8]:
    """Read an opaque image of 8-bit samples, for which the figures of benchmarks are defined.

    Raises
    ------
    ImageFileError
        When the file cannot be read or has transparent pixels.
    InvalidImageError
        When its samples are deeper.
    """
    samples = read_opaque(path)
    if samples.dtype != np.uint8:
        msg = f"{str(path)!r} has {samples.dtype} samples; benchmarks are defined on 8-bit images: convert it to 8 bits"
        raise InvalidImageError(msg)
    return np.asarray(samples, np.uint8)


def shrink(image: NDArray[np.uint8], *, longest_side_px: int) -> NDArray[np.uint8]:
    """Shrink by a whole factor, averaging blocks, until no side is longer.

    Parameters
    ----------
    image : ndarray of uint8, shape (H, W) or (H, W, 3)
    longest_side_px : int

    Returns
    -------
    ndarray of uint8, shape (h, w) or (h, w, 3)
        Rows and columns that fill no block are cut off.
    """
    # rounded up
    factor = max(1, -(-max(image.shape[:2]) // longest_side_px))
    height, width = (max(1, side // factor) for side in image.shape[:2])
    kept = image[: height * factor, : width * factor]
    # a side shorter than the factor is averaged as a whole
    rows, columns = min(factor, image.shape[0]), min(factor, image.shape[1])
    blocks = kept.reshape(height, rows, width, columns, -1)
    means: NDArray[np.uint8] = np.rint(blocks.mean(axis=(1, 3))).astype(np.uint8)
    return means.reshape(height, width, *image.shape[2:])


def color_index(source_index: NDArray[Any]) -> NDArray[np.uint8]:
    """Show which source each pixel was taken from.

    Parameters
    ----------
    source_index : ndarray of int, shape (H, W)

    Returns
    -------
    ndarray of uint8, shape (H, W, 3)
    """
    return np.take(INDEX_COLORS, source_index % len(INDEX_COLORS), axis=0)


def encode_data_uri(image: NDArray[np.uint8], *, quality: int) -> str:
    """Return the image as a JPEG data URI, so that a page needs no further file.

    Parameters
    ----------
    image : ndarray of uint8, shape (H, W) or (H, W, 3)
    quality : int
        1 to 100.
    """
    # colors at full resolution: halved ones would smear just what crops are looked at for
    encoded = imagecodecs.jpeg8_encode(np.ascontiguousarray(image), level=quality, subsampling="444")
    return f"data:image/jpeg;base64,{base64.b64encode(encoded).decode('ascii')}"
