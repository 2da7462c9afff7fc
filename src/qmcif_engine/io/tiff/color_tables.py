"""Color tables of TIFF pages: those in which microscopes show an intensity, and the palettes of true palette images.

ImageJ and the programs of microscopes store 8-bit intensities together with the colors in which they are shown. There the stored number is
the sample, and the table is its look. In a palette image the stored number is the place of a color in a list, and means nothing.
A table that rises evenly, as those of intensities do, is told from a palette by its values alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tifffile import PHOTOMETRIC, TiffPage

N_PALETTE_COLORS = 3
_NUMBER_BITS = range(1, 17)
_FULL_SCALE = 2**16 - 1
_LARGEST_FALL = 0.02
"""Part of the full scale by which a color of a ramp may fall from one entry to the next: some tables are rounded twice."""

_LARGEST_RISE = 0.125
"""Part of the full scale by which a color of a ramp may rise over 1/64 of the table; palettes jump."""

_LARGEST_BEND = 0.03
"""Part of the full scale by which a ramp of one color may leave the straight line from black to it."""

_LEAST_SHOWN = 0.25
"""Part of the full scale that the brightest color of a ramp reaches at least."""


def find_palette(page: TiffPage) -> NDArray[Any] | None:
    """Return the colors that the numbers of a page stand for, shape (entries, 3); None where the numbers are samples themselves.

    Parameters
    ----------
    page : TiffPage
        Of a file that is still open.

    Returns
    -------
    ndarray of uint8 or uint16, or None
        The type of fewest bits that holds the colors exactly.
    """
    table = find_table(page)
    # ImageJ has no palette images: whatever the table, its numbers are measured, counted and saved as intensities
    # a table of a single color tells nothing
    if table is None or page.parent.is_imagej or _is_ramp(table) or not np.ptp(table, axis=1).any():
        return None
    high, low = table >> 8, table & 255
    if not high.any():  # some programs write the eight bits of a color without moving them up
        return np.ascontiguousarray(low.T, dtype=np.uint8)
    is_eight_bits = ((low == 0) | (low == high)).all()
    return np.ascontiguousarray(high.T, dtype=np.uint8) if is_eight_bits else np.ascontiguousarray(table.T, dtype=np.uint16)


def find_ramp_color(page: TiffPage) -> str | None:
    """Return the color in which the largest intensity of a page is shown, as ``#rrggbb``; None unless its table leads straight there."""
    table = find_table(page)
    if table is None or not _is_ramp(table):
        return None
    inner = table[:, 1:-1].astype(float)
    straight = np.arange(1, table.shape[1] - 1) / (table.shape[1] - 2) * inner[:, -1:]
    if np.abs(inner - straight).max() > _LARGEST_BEND * _FULL_SCALE:
        return None
    # the entry before the last: the very last is where some programs mark saturation
    brightest = np.rint(inner[:, -1] / inner[:, -1].max() * 255).astype(np.uint8)
    return f"#{brightest.tobytes().hex()}"


def find_table(page: TiffPage) -> NDArray[Any] | None:
    """Return the table of a page, shape (3, entries), None where it has none that is complete."""
    has_numbers = page.photometric == PHOTOMETRIC.PALETTE and page.samplesperpixel == 1 and page.bitspersample in _NUMBER_BITS
    if not has_numbers or page.colormap is None:
        return None
    table = np.asarray(page.colormap)
    is_complete = table.ndim == 2 and table.shape[0] == N_PALETTE_COLORS and table.shape[1] >= 2**page.bitspersample
    return table if is_complete else None


def _is_ramp(table: NDArray[Any]) -> bool:
    """Return whether all colors of a table rise, or all fall, without jumps; its two ends may mark what is too dark or too bright."""
    inner = table[:, 1:-1].astype(float) / _FULL_SCALE
    if inner.shape[1] < 2 or inner.max() < _LEAST_SHOWN:
        return False
    steps = np.diff(inner, axis=1)
    # inverted tables fall from bright to dark
    if steps.sum(axis=1).sum() < 0:
        steps = -steps
    # over several entries: a table of 16 bits rises by too little from one to the next
    reach = max(1, -(-table.shape[1] // 64))
    rises = np.abs(inner[:, reach:] - inner[:, :-reach])
    return bool(steps.min() >= -_LARGEST_FALL and rises.max() <= _LARGEST_RISE and np.ptp(inner) >= _LEAST_SHOWN)
