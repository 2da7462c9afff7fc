"""Image files for scoring, whose alpha channel hides nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.arrays import SampleArray
from qmcif_engine.errors import ImageFileError, InvalidImageError
from qmcif_engine.io.input.open import read_image

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
