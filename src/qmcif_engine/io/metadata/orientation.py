"""Find out how a camera was held, and turn its picture upright."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

UPRIGHT = 1
"""The EXIF orientation of a picture that needs no turning."""

_ORDERS = {b"II*\0": "<", b"MM\0*": ">"}
_ORIENTATION_TAG = 274
_SHORT_TYPE = 3
_TRANSPOSED = (5, 6, 7, 8)
_ROWS_REVERSED = (3, 4, 7, 8)
_COLUMNS_REVERSED = (2, 3, 6, 7)


def settle_orientation(claimed: object) -> int:
    """Return the claimed EXIF orientation, or upright where the claim is not one of the eight that exist."""
    return claimed if isinstance(claimed, int) and 1 <= claimed <= 8 else UPRIGHT


def parse_exif_orientation(exif: bytes) -> int:
    """Return the orientation (1 to 8) stored in an EXIF block; upright where there is none or the block is damaged.

    Only the one tag is read, with plain bounds-checked unpacking: metadata is the likeliest part of a file to be broken, it never
    decides whether the picture itself can be read, and a general parser would warn about parts that do not matter here.

    Parameters
    ----------
    exif : bytes
        The TIFF structure of the block, beginning with its byte order mark.
    """
    place = find_exif_orientation(exif)
    return UPRIGHT if place is None else settle_orientation(struct.unpack_from(_ORDERS[exif[:4]] + "H", exif, place)[0])


def find_exif_orientation(exif: bytes) -> int | None:
    """Return where in an EXIF block the orientation is stored; None where it is not, or the block is damaged."""
    order = _ORDERS.get(exif[:4])
    if order is None:
        return None
    try:
        (directory,) = struct.unpack_from(order + "I", exif, 4)
        (n_entries,) = struct.unpack_from(order + "H", exif, directory)
        for entry in range(directory + 2, directory + 2 + 12 * n_entries, 12):
            tag, kind, count, _ = struct.unpack_from(order + "HHIH", exif, entry)
            if tag == _ORIENTATION_TAG:
                return entry + 8 if (kind, count) == (_SHORT_TYPE, 1) else None
    except struct.error:
        return None
    return None


def upright_size(height: int, width: int, orientation: int) -> tuple[int, int]:
    """Return height and width of the picture once it is turned."""
    return (width, height) if orientation in _TRANSPOSED else (height, width)


def turn_upright(channels: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Return a view of the picture as the photographer saw it.

    Parameters
    ----------
    channels : ndarray, shape (H, W, ...)
        The picture as stored.
    orientation : int
        EXIF orientation: which sides of the scene row 0 and column 0 of the stored picture are.
    """
    upright = channels.swapaxes(0, 1) if orientation in _TRANSPOSED else channels
    rows = slice(None, None, -1) if orientation in _ROWS_REVERSED else slice(None)
    columns = slice(None, None, -1) if orientation in _COLUMNS_REVERSED else slice(None)
    return upright[rows, columns]
