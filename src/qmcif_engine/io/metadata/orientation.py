"""Find out how a camera was held, and turn its picture upright."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

UPRIGHT = 1
"""The EXIF orientation of a picture that needs no turning."""

_TRANSPOSED = (5, 6, 7, 8)
_ROWS_REVERSED = (3, 4, 7, 8)
_COLUMNS_REVERSED = (2, 3, 6, 7)


def settle_orientation(claimed: object) -> int:
    """Return the claimed EXIF orientation, or upright where the claim is not one of the eight that exist."""
    return claimed if isinstance(claimed, int) and 1 <= claimed <= 8 else UPRIGHT


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
