"""What each output format can hold, and what to use instead where it cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from qmcif_engine.errors import OutputError
from qmcif_engine.io.limits import LARGEST_JPEG_SIDE_PX, LARGEST_PNG_SIDE_PX
from qmcif_engine.io.output.windowed_image import ImageContent, count_blocks
from qmcif_engine.io.pictures import encode_jpeg, encode_png
from qmcif_engine.io.remote.remote_path import Location
from qmcif_engine.io.tiff.tiff_writer import count_ome_tiff_blocks, count_tiff_blocks, write_ome_tiff, write_tiff
from qmcif_engine.io.zarr.image_store import count_chunks, write_ome_zarr
from qmcif_engine.stack.samples import SUPPORTED_DTYPES

_Location = TypeVar("_Location", bound="Location")

LARGEST_WHOLE_PIXELS = 2**28
"""Pixels of the largest image that is written in a format which needs it whole in memory."""

_EVERY_DTYPE = SUPPORTED_DTYPES
_LONGEST_SIDE_PX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFormat:
    """One format: what it can hold and how it is written.

    Attributes
    ----------
    name : str
    suffixes : tuple of str
    dtypes : tuple of str
        Names of the sample types.
    holds_alpha : bool
    holds_channels : bool
        Whether channels may be other than gray or RGB.
    largest_side_px, largest_n_pixels : int
    is_store : bool
        Whether it is a folder rather than a file.
    holds_stacks : bool
        Whether images can lie along an axis in it.
    write : callable
        Writes a content into an open file or, for a store, as a folder.
    count_blocks : callable
        Returns how many blocks that takes.
    """

    name: str
    suffixes: tuple[str, ...]
    dtypes: tuple[str, ...] = _EVERY_DTYPE
    holds_alpha: bool = True
    holds_channels: bool = True
    largest_side_px: int = _LONGEST_SIDE_PX
    largest_n_pixels: int = _LONGEST_SIDE_PX**2
    is_store: bool = False
    holds_stacks: bool = True
    write: Callable[..., None]
    count_blocks: Callable[[ImageContent], int]


def _count_whole(content: ImageContent) -> int:
    return count_blocks(content.image.shape)


_PLAIN_FORMATS = (
    OutputFormat(
        name="PNG",
        suffixes=(".png",),
        dtypes=("uint8", "uint16"),
        holds_channels=False,
        holds_stacks=False,
        largest_side_px=LARGEST_PNG_SIDE_PX,
        largest_n_pixels=LARGEST_WHOLE_PIXELS,
        write=encode_png,
        count_blocks=_count_whole,
    ),
    OutputFormat(
        name="JPEG",
        suffixes=(".jpg", ".jpeg"),
        dtypes=("uint8",),
        holds_alpha=False,
        holds_channels=False,
        holds_stacks=False,
        largest_side_px=LARGEST_JPEG_SIDE_PX,
        largest_n_pixels=LARGEST_WHOLE_PIXELS,
        write=encode_jpeg,
        count_blocks=_count_whole,
    ),
    OutputFormat(name="TIFF", suffixes=(".tif", ".tiff"), write=write_tiff, count_blocks=count_tiff_blocks),
)
_PYRAMID_FORMATS = (
    OutputFormat(name="OME-TIFF", suffixes=(".ome.tif", ".ome.tiff"), write=write_ome_tiff, count_blocks=count_ome_tiff_blocks),
    OutputFormat(name="OME-Zarr", suffixes=(".ome.zarr", ".zarr"), is_store=True, write=write_ome_zarr, count_blocks=count_chunks),
)


def choose_format(target: Location) -> OutputFormat:
    """Return the format that the target's suffix names; ``.ome.tif`` is another one than ``.tif``.

    Raises
    ------
    OutputError
        When it names none.
    """
    # the longer suffixes first: .ome.tif ends in .tif too
    for candidate in (*_PYRAMID_FORMATS, *_PLAIN_FORMATS):
        if target.name.lower().endswith(candidate.suffixes):
            return candidate
    known = ", ".join(suffix for candidate in (*_PLAIN_FORMATS, *_PYRAMID_FORMATS) for suffix in candidate.suffixes)
    msg = f"{str(target)!r} has the suffix {target.suffix!r}; one of {known} is needed; rename the target"
    raise OutputError(msg)


def check_content(target: Location, *, dtype: np.dtype[Any] | None, has_alpha: bool, shape: tuple[int, ...] = (1, 1)) -> None:
    """Refuse content that the target's format cannot hold.

    Parameters
    ----------
    target : Path
        Names the format by its suffix.
    dtype : dtype or None
        Sample type, None where not yet known.
    has_alpha : bool
        Whether alpha goes with the samples.
    shape : tuple of int, optional
        Height, width and, where there is more than one, channels without alpha.

    Raises
    ------
    OutputError
        Naming a format that can.
    """
    reason = _find_fault(choose_format(target), dtype, has_alpha=has_alpha, shape=shape)
    if reason is not None:
        msg = f"{str(target)!r} would have {reason}; {_find_remedy(dtype, has_alpha=has_alpha, shape=shape)}"
        raise OutputError(msg)


def _find_fault(chosen: OutputFormat, dtype: np.dtype[Any] | None, *, has_alpha: bool, shape: tuple[int, ...]) -> str | None:
    """Return what a format cannot hold of an image, None where it can hold all of it."""
    (height, width), channels = shape[:2], shape[2:]
    if dtype is not None and dtype.name not in chosen.dtypes:
        return f"to hold {dtype.name} samples; {chosen.name} holds {', '.join(chosen.dtypes)}"
    if has_alpha and not chosen.holds_alpha:
        return f"to hold alpha; {chosen.name} has none"
    if not chosen.holds_channels and channels not in ((), (3,)):
        return f"to hold {channels[0]} channels; {chosen.name} holds gray or RGB"
    if max(height, width) > chosen.largest_side_px:
        return f"a side of {max(height, width)} pixels; {chosen.name} holds at most {chosen.largest_side_px}"
    if height * width > chosen.largest_n_pixels:
        return f"{width} x {height} pixels; as {chosen.name} at most {chosen.largest_n_pixels} are written, which must be held in memory"
    return None


def _find_remedy(dtype: np.dtype[Any] | None, *, has_alpha: bool, shape: tuple[int, ...]) -> str:
    """Return the formats that can hold the content: those everybody knows, unless the image is for a pyramid."""
    is_large = shape[0] * shape[1] > LARGEST_WHOLE_PIXELS or shape[2:] not in ((), (3,))
    candidates = _PYRAMID_FORMATS if is_large else _PLAIN_FORMATS
    able = [candidate.suffixes[0] for candidate in candidates if _find_fault(candidate, dtype, has_alpha=has_alpha, shape=shape) is None]
    return f"use {' or '.join(able)}" if able else "convert the samples to one of these"


def name_beside(target: _Location, addition: str) -> _Location:
    """Return the name of an output of the same format in the same place: ``a.ome.tif`` with ``_t2`` is ``a_t2.ome.tif``.

    Raises
    ------
    OutputError
        When the suffix of the target names no format.
    """
    name = target.name
    # .ome.zarr ends in .zarr, which is a suffix of the same format
    length = max(len(suffix) for suffix in choose_format(target).suffixes if name.lower().endswith(suffix))
    return cast("_Location", target.with_name(f"{name[:-length]}{addition}{name[-length:]}"))
