"""EXIF blocks and color profiles of cameras, made to fit another image. Pillow reads and writes the blocks.

Metadata never decide whether an image can be read: what is damaged is left out.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import IO, Any

from numpy.typing import NDArray
from PIL.Image import Exif
from PIL.TiffImagePlugin import ImageFileDirectory_v2
from tifffile import TiffFile

UPRIGHT = 1
"""The EXIF orientation of an image that needs no turning."""

_TRANSPOSED, _ROWS_REVERSED, _COLUMNS_REVERSED = (5, 6, 7, 8), (3, 4, 7, 8), (2, 3, 6, 7)

EXIF_DIRECTORY_TAG, GPS_DIRECTORY_TAG = 34665, 34853
_CAMERA_TAGS = (271, 272, 306, 315, 33432)
"""Maker, model, time, artist, copyright; the other tags of a first directory describe the file it was in."""

ORIENTATION_TAG = 274
_BOUND_TO_PLACE = (37500, 40965)
"""The note of the camera maker, which holds positions within the block, and the position of a further directory."""

_SIZE_TAGS = {0: (256, 257), EXIF_DIRECTORY_TAG: (40962, 40963)}
"""Width and height of the image, in the first directory and in that of the exposure."""

# every ICC profile has "acsp" here, and its own length in front
_PROFILE_SIGNATURE = slice(36, 40)


def parse_exif_orientation(exif: bytes) -> int:
    """Return the orientation (1 to 8) stored in an EXIF block; upright where there is none or the block is damaged."""
    # Pillow fails on damaged blocks with any class there is, or warns
    with suppress(Exception), warnings.catch_warnings(action="ignore"):
        return known_orientation(_load(exif).get(ORIENTATION_TAG))
    return UPRIGHT


def fit_exif(exif: bytes, *, height: int, width: int) -> bytes | None:
    """Return the block for an upright image of this size, without the camera's thumbnail; None where the block is damaged.

    Parameters
    ----------
    exif : bytes
        TIFF structure of the block, beginning with its byte order mark.
    height, width : int
        Size of the image it goes with.
    """
    with suppress(Exception), warnings.catch_warnings(action="error"):
        block = _load(exif)
        directories = {0: block, **{tag: block.get_ifd(tag) for tag in (EXIF_DIRECTORY_TAG, GPS_DIRECTORY_TAG) if tag in block}}
        for tag, names in _SIZE_TAGS.items():
            directory = directories.get(tag, {})
            directory.update({name: side for name, side in zip(names, (width, height), strict=True) if name in directory})
        if ORIENTATION_TAG in block:
            block[ORIENTATION_TAG] = UPRIGHT
        return _encode(block) if len(block) else None
    return None


def split_exif(exif: bytes) -> dict[int, dict[int, Any]]:
    """Return what a fitted block says by the tag of its directory, 0 for the first, of which only what cameras say is taken."""
    with suppress(Exception), warnings.catch_warnings(action="error"):
        return _split(_load(exif))
    return {0: {}}


def collect_exif(source: TiffFile | IO[bytes]) -> bytes | None:
    """Return the camera's description of a TIFF file as a block that stands alone; None where it says nothing.

    Parameters
    ----------
    source : TiffFile or stream
        Open.
    """
    stored, block = Exif(), Exif()
    with suppress(Exception), warnings.catch_warnings(action="ignore"):
        if isinstance(source, TiffFile):
            stored.endian, stored.bigtiff = source.byteorder, source.is_bigtiff
            stored.load_from_fp(source.filehandle, source.pages.first.offset)  # type: ignore[arg-type]
        else:
            stored.load_from_fp(source)
        found = _split(stored)
        block.endian = "<"
        block.update(found.pop(0))
        for tag, entries in found.items():
            block.get_ifd(tag).update(entries)
        return _encode(block) if len(block) or found else None
    return None


def _split(block: Exif) -> dict[int, dict[int, Any]]:
    found = {0: {tag: block[tag] for tag in _CAMERA_TAGS if tag in block}}
    for tag in (EXIF_DIRECTORY_TAG, GPS_DIRECTORY_TAG):
        entries = {name: value for name, value in block.get_ifd(tag).items() if name not in _BOUND_TO_PLACE} if tag in block else {}
        found |= {tag: entries} if entries else {}
    return found


def _load(exif: bytes) -> Exif:
    block = Exif()
    block.load(exif)
    return block


def _encode(block: Exif) -> bytes:
    return block.tobytes().removeprefix(b"Exif\0\0")


def lay_out_directory(entries: dict[int, Any], start: int, *, tag: int, is_big: bool) -> bytes:
    """Return a little-endian directory that begins at this position, followed by the values that do not fit into it."""
    directory = ImageFileDirectory_v2(b"II+\0\x08\0\0\0" + bytes(8) if is_big else b"II*\0" + bytes(4), group=tag)
    for name, value in entries.items():
        directory[name] = value
    return directory.tobytes(start)


def check_profile(profile: bytes) -> bytes | None:
    """Return a color profile whose length and signature are those of one, else None: a broken one would spoil the output."""
    is_sound = len(profile) >= 128 and profile[_PROFILE_SIGNATURE] == b"acsp" and int.from_bytes(profile[:4], "big") == len(profile)
    return profile if is_sound else None


def known_orientation(claimed: object) -> int:
    """Return the claimed EXIF orientation, or upright where the claim is not one of the eight that exist."""
    return claimed if isinstance(claimed, int) and 1 <= claimed <= 8 else UPRIGHT


def upright_size(height: int, width: int, orientation: int) -> tuple[int, int]:
    """Return height and width of the image once it is turned."""
    return (width, height) if orientation in _TRANSPOSED else (height, width)


def turn_upright(channels: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Return a view of the image as the photographer saw it.

    Parameters
    ----------
    channels : ndarray, shape (H, W, ...)
        The image as stored.
    orientation : int
        EXIF orientation: which sides of the scene row 0 and column 0 of the stored image are.
    """
    # transposed first: reversals then count rows and columns of the upright image
    upright = channels.swapaxes(0, 1) if orientation in _TRANSPOSED else channels
    rows = -1 if orientation in _ROWS_REVERSED else 1
    columns = -1 if orientation in _COLUMNS_REVERSED else 1
    return upright[::rows, ::columns]
