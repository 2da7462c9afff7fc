"""Know what each output format can hold, and what to use instead where it cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from qmcif_engine.errors import InvalidImageError, OutputError
from qmcif_engine.io.jpeg import LARGEST_JPEG_SIDE_PX, write_jpeg
from qmcif_engine.io.png import LARGEST_PNG_SIDE_PX, write_png
from qmcif_engine.io.tiff import write_tiff

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFormat:
    """Describe one format: its sample types (dtype names), whether it has alpha, its largest side, and how it is written."""

    name: str
    suffixes: tuple[str, ...]
    dtypes: tuple[str, ...]
    holds_alpha: bool
    largest_side_px: int
    write: Callable[[BinaryIO, NDArray[Any]], None]


_FORMATS = (
    OutputFormat(
        name="PNG",
        suffixes=(".png",),
        dtypes=("uint8", "uint16"),
        holds_alpha=True,
        largest_side_px=LARGEST_PNG_SIDE_PX,
        write=write_png,
    ),
    OutputFormat(
        name="JPEG",
        suffixes=(".jpg", ".jpeg"),
        dtypes=("uint8",),
        holds_alpha=False,
        largest_side_px=LARGEST_JPEG_SIDE_PX,
        write=write_jpeg,
    ),
    OutputFormat(
        name="TIFF",
        suffixes=(".tif", ".tiff"),
        dtypes=("uint8", "uint16", "float32", "float64"),
        holds_alpha=True,
        largest_side_px=2**31 - 1,
        write=write_tiff,
    ),
)


def choose_format(target: Path) -> OutputFormat:
    """Return the format that the target's suffix names.

    Raises
    ------
    OutputError
        When it names none.
    """
    for candidate in _FORMATS:
        if target.suffix.lower() in candidate.suffixes:
            return candidate
    known = ", ".join(suffix for candidate in _FORMATS for suffix in candidate.suffixes)
    msg = f"{str(target)!r} has the suffix {target.suffix!r}; one of {known} is needed; rename the target"
    raise OutputError(msg)


def check_content(target: Path, *, dtype: np.dtype[Any] | None, has_alpha: bool, longest_side_px: int = 1) -> None:
    """Refuse content that the target's format cannot hold.

    Parameters
    ----------
    target : Path
        Names the format by its suffix.
    dtype : dtype or None
        Sample type, None where not yet known.
    has_alpha : bool
        Whether alpha goes with the samples.
    longest_side_px : int, optional
        The larger of height and width.

    Raises
    ------
    OutputError
        Naming a format that can.
    """
    chosen = choose_format(target)
    able = [
        candidate.suffixes[0]
        for candidate in _FORMATS
        if (dtype is None or dtype.name in candidate.dtypes)
        and (candidate.holds_alpha or not has_alpha)
        and longest_side_px <= candidate.largest_side_px
    ]
    remedy = f"use {' or '.join(able)}" if able else "convert the samples to one of these"
    if dtype is not None and dtype.name not in chosen.dtypes:
        msg = f"{str(target)!r} would have to hold {dtype.name} samples; {chosen.name} holds {', '.join(chosen.dtypes)}; {remedy}"
        raise OutputError(msg)
    if has_alpha and not chosen.holds_alpha:
        msg = f"{str(target)!r} would have to hold alpha; {chosen.name} has none; {remedy}"
        raise OutputError(msg)
    if longest_side_px > chosen.largest_side_px:
        limit = f"{chosen.name} holds at most {chosen.largest_side_px}"
        msg = f"{str(target)!r} would have a side of {longest_side_px} pixels; {limit}; {remedy}"
        raise OutputError(msg)


def join_channels(samples: NDArray[Any], alpha: NDArray[Any] | None) -> NDArray[Any]:
    """Return samples and alpha as one contiguous array in native byte order, which is what the codecs take.

    Parameters
    ----------
    samples : ndarray, shape (H, W) or (H, W, 3)
        Gray or RGB.
    alpha : ndarray of the same dtype, shape (H, W), or None
        Opacity.

    Returns
    -------
    ndarray, shape (H, W) or (H, W, 2 to 4)
        Alpha, if any, is the last channel.

    Raises
    ------
    InvalidImageError
        When the two are not an image.
    """
    is_image = samples.ndim == 2 or (samples.ndim == 3 and samples.shape[2] == 3)
    if not is_image or samples.size == 0:
        msg = f"an array of shape {samples.shape} was to be written; (H, W) or (H, W, 3) without empty sides is needed; reshape it"
        raise InvalidImageError(msg)
    native = samples.dtype.newbyteorder("=")
    if alpha is None:
        return np.ascontiguousarray(samples, dtype=native)
    if alpha.shape != samples.shape[:2] or alpha.dtype != samples.dtype:
        msg = (
            f"alpha of shape {alpha.shape} and type {alpha.dtype} was to be written; "
            f"{samples.shape[:2]} and {samples.dtype} as in the samples is needed; convert it"
        )
        raise InvalidImageError(msg)
    return np.ascontiguousarray(np.dstack([samples, alpha]), dtype=native)
