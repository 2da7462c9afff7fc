"""What a TIFF file says about its image: in OME-XML, in ImageJ's notes, in tags, and in the color tables of its pages.

ImageJ and the programs of microscopes store 8-bit intensities together with the colors in which they are shown. There the stored number is
the sample, and the table is its look. In a palette image the stored number is the place of a color in a list, and means nothing.
The values of a table alone distinguish the two: that of an intensity rises evenly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tifffile import PHOTOMETRIC, SAMPLEFORMAT, TiffFile, TiffPage

from qmcif_engine.io.metadata.exif import check_profile, collect_exif
from qmcif_engine.io.metadata.units import (
    LONGEST_DESCRIPTION,
    LONGEST_NAME,
    ChannelLook,
    complete_looks,
    parse_length,
    parse_unit,
    to_seconds,
)
from qmcif_engine.stack.image_metadata import ImageMetadata

N_PALETTE_COLORS = 3
_PROFILE_TAG = 34675
_DENSITY_TAGS = (282, 283)
_DENSITY_UNIT_TAG = 296
_INCHES = {2: 1.0, 3: 2.54}
"""Dots an inch for one dot a unit, by the code of the unit: inch, centimeter."""

_FULL_SCALE = 2**16 - 1
_LARGEST_FALL = 0.02
"""Part of the full scale by which a color of a ramp may fall from one entry to the next: some tables are rounded twice."""

_LARGEST_RISE = 0.125
"""Part of the full scale by which a color of a ramp may rise over 1/64 of the table; palettes jump."""

_LARGEST_BEND = 0.03
"""Part of the full scale by which a ramp of one color may leave the straight line from black to it."""

_LEAST_SHOWN = 0.25
"""Part of the full scale that the brightest color of a ramp reaches at least."""

_IMAGEJ_TABLE_SHAPE = (3, 256)
_NOTE = re.compile(r"^(Name|Description|Emission [1-9][0-9]{0,3}) = (.*)$", re.MULTILINE)
_SIGNIFICANT_BITS = re.compile(r"<(?:\w{1,16}:)?Pixels\s[^<>]*?\bSignificantBits=\"(\d{1,2})\"")


def read_metadata(tiff: TiffFile, described: ImageMetadata | None) -> ImageMetadata:
    """Return what the first page and the file's description say.

    Parameters
    ----------
    tiff : TiffFile
        Open.
    described : ImageMetadata, optional
        From `parse_ome`.
    """
    page = tiff.pages.first
    densities = [_read_density(page, tag) for tag in _DENSITY_TAGS]
    if described is None:
        described = _read_imagej(tiff.imagej_metadata or {}, densities) if tiff.is_imagej else ImageMetadata()
    across, down = densities
    # TIFF's default unit is the inch; 1 means no unit, only a ratio
    factor = _INCHES.get(int(page.tags.valueof(_DENSITY_UNIT_TAG, 2)))
    ramp, profile = _find_ramp_color(page), page.tags.valueof(_PROFILE_TAG)
    return replace(
        described,
        channel_colors=described.channel_colors or (() if ramp is None else (ramp,)),
        significant_bits=_find_significant_bits(page),
        icc_profile=check_profile(bytes(profile)) if isinstance(profile, bytes) else None,
        exif=collect_exif(tiff),
        dpi=(across * factor, down * factor) if across and down and factor else None,
    )


def _read_density(page: TiffPage, tag: int) -> float | None:
    """Return a resolution tag as a number; None where it is missing or senseless."""
    value = page.tags.valueof(tag)
    if not (isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, int) for part in value) and value[1]):
        return None
    return parse_length(value[0] / value[1])


def _find_significant_bits(page: TiffPage) -> int | None:
    """Return how many bits of each integer sample are used, from the sample size or the OME description; None where unsaid."""
    if page.sampleformat != SAMPLEFORMAT.UINT or find_palette(page) is not None:
        return None
    if page.bitspersample not in (8, 16, 32):
        return int(page.bitspersample)
    claim = _SIGNIFICANT_BITS.search(page.description)
    return int(claim[1]) if claim is not None and 1 <= int(claim[1]) <= page.bitspersample else None


def find_table(page: TiffPage) -> NDArray[Any] | None:
    """Return the color table of a page, shape (3, entries), None where it has none that is complete."""
    if page.photometric != PHOTOMETRIC.PALETTE or page.samplesperpixel != 1 or page.bitspersample not in range(1, 17):
        return None
    table = np.asarray(page.colormap)
    is_complete = table.ndim == 2 and table.shape[0] == N_PALETTE_COLORS and table.shape[1] >= 2**page.bitspersample
    return table if is_complete else None


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
    # a table of a single color has no meaning
    if table is None or page.parent.is_imagej or _is_ramp(table) or not np.ptp(table, axis=1).any():
        return None
    high, low = table >> 8, table & 255
    if not high.any():  # some programs write the eight bits of a color without moving them up
        return np.ascontiguousarray(low.T, dtype=np.uint8)
    is_eight_bits = ((low == 0) | (low == high)).all()
    return np.ascontiguousarray(high.T, dtype=np.uint8) if is_eight_bits else np.ascontiguousarray(table.T, dtype=np.uint16)


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


def _find_ramp_color(page: TiffPage) -> str | None:
    """Return the color in which the largest intensity of a page is shown, as ``#rrggbb``; None unless its table leads straight there."""
    table = find_table(page)
    if table is None or not _is_ramp(table):
        return None
    inner = table[:, 1:-1].astype(float)
    straight = np.arange(1, table.shape[1] - 1) / (table.shape[1] - 2) * inner[:, -1:]
    if np.abs(inner - straight).max() > _LARGEST_BEND * _FULL_SCALE:
        return None
    # the entry before the last: the very last is where some programs mark saturation
    return f"#{np.rint(inner[:, -1] / inner[:, -1].max() * 255).astype(np.uint8).tobytes().hex()}"


def _read_imagej(notes: dict[str, Any], densities: Sequence[float | None]) -> ImageMetadata:
    """Return what the notes of ImageJ say, as tifffile returns them; whatever makes no sense is left out.

    Parameters
    ----------
    notes : dict
    densities : sequence of float or None
        Pixels a unit, across and down.
    """
    claimed, info = notes.get("channels"), notes.get("Info")
    # one where the notes give none, or more than anybody has
    n_channels = claimed if isinstance(claimed, int) and 1 <= claimed < LONGEST_DESCRIPTION else 1
    found = dict(_NOTE.findall(info[:LONGEST_DESCRIPTION])) if isinstance(info, str) else {}
    names, colors = _list_names(notes.get("Labels"), n_channels), _list_colors(notes.get("LUTs"), n_channels)
    limits = notes.get("Ranges")
    # of a single channel they may stand alone
    if not isinstance(limits, (tuple, list)) or len(limits) != 2 * n_channels:
        limits = [notes.get("min"), notes.get("max")] if n_channels == 1 else []
    looks = [
        ChannelLook(
            name, color, limits[2 * place : 2 * place + 2], parse_length(found.get(f"Emission {place + 1}", "").removesuffix(" nm"))
        )
        for place, (name, color) in enumerate(zip(names, colors, strict=True))
    ]
    (across, down), unit = densities, parse_unit(notes.get("unit"))
    return ImageMetadata(
        image_name=found.get("Name", "")[:LONGEST_NAME] or None,
        description=found.get("Description") or None,
        pixel_size=(1 / down, 1 / across) if unit and across and down else None,
        z_step=parse_length(notes.get("spacing")) if unit else None,
        unit=unit,
        time_step=to_seconds(notes.get("finterval"), "s"),
        **complete_looks(looks),
    )


def _list_names(labels: object, n_channels: int) -> list[str]:
    """Return the labels of the first planes where those of all others repeat them, as names of channels do and names of files do not."""
    if isinstance(labels, list) and all(isinstance(label, str) for label in labels) and max(len(labels), n_channels) > 1:
        names = labels[:n_channels]
        if labels and labels == names * (len(labels) // n_channels):
            return names
    return [""] * n_channels


def _list_colors(tables: object, n_channels: int) -> list[str]:
    """Return the color in which ImageJ shows the largest sample of every channel, from the tables it looks colors up in."""
    if not isinstance(tables, list) or not all(isinstance(table, np.ndarray) and table.shape == _IMAGEJ_TABLE_SHAPE for table in tables):
        return [""] * n_channels
    colors = [f"#{bytes(table[:, -1]).hex()}" for table in tables]
    return colors if len(colors) == n_channels else [""] * n_channels
