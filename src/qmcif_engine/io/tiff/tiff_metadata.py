"""Read what a TIFF file says about its picture: from OME-XML, from ImageJ's notes, from tags."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.io.metadata.exif import check_profile, collect_exif
from qmcif_engine.io.metadata.length_units import parse_length, settle_unit
from qmcif_engine.io.metadata.ome_xml import describe_pixels
from qmcif_engine.io.tiff.tiff_checks import claimed_bits
from qmcif_engine.stack.picture_metadata import PictureMetadata

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from tifffile import TiffFile, TiffPage

_PROFILE_TAG = 34675
_DENSITY_TAGS = (282, 283)
_DENSITY_UNIT_TAG = 296
_COLOR_TABLE_SHAPE = (3, 256)
_INCHES = {2: 1.0, 3: 2.54}
"""Dots an inch for one dot a unit, by the code of the unit: inch, centimeter."""


def read_metadata(tiff: TiffFile, pixels: Element | None) -> PictureMetadata:
    """Return what the first page and the file's description say.

    Parameters
    ----------
    tiff : TiffFile
        Open.
    pixels : Element, optional
        From `parse_ome`.
    """
    page = tiff.pages.first
    profile = page.tags.valueof(_PROFILE_TAG)
    if pixels is not None:
        described = describe_pixels(pixels)
    elif tiff.is_imagej:
        described = _describe_imagej(tiff.imagej_metadata or {}, page)
    else:
        described = PictureMetadata()
    return replace(
        described,
        significant_bits=claimed_bits(page),
        icc_profile=check_profile(bytes(profile)) if isinstance(profile, bytes) else None,
        exif=collect_exif(tiff),
        dpi=_printing_density(page),
    )


def _describe_imagej(notes: dict[str, Any], page: TiffPage) -> PictureMetadata:
    unit, described = settle_unit(notes.get("unit")), PictureMetadata(channel_colors=_list_colors(notes.get("LUTs")))
    if unit is None:
        return described
    across, down = (_density(page, tag) for tag in _DENSITY_TAGS)
    return replace(
        described, pixel_size=(1 / down, 1 / across) if across and down else None, z_step=parse_length(notes.get("spacing")), unit=unit
    )


def _list_colors(tables: object) -> tuple[str, ...]:
    """Return the color in which ImageJ shows the largest sample of every channel, from the tables it looks colors up in."""
    if not isinstance(tables, list) or not all(isinstance(table, np.ndarray) and table.shape == _COLOR_TABLE_SHAPE for table in tables):
        return ()
    return tuple(f"#{bytes(table[:, -1]).hex()}" for table in tables)


def _printing_density(page: TiffPage) -> tuple[float, float] | None:
    factor = _INCHES.get(int(page.tags.valueof(_DENSITY_UNIT_TAG, 2)))
    across, down = (_density(page, tag) for tag in _DENSITY_TAGS)
    return (across * factor, down * factor) if across and down and factor else None


def _density(page: TiffPage, tag: int) -> float | None:
    """Return a resolution tag as a number; None where it is missing or senseless."""
    value = page.tags.valueof(tag)
    if not (isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, int) for part in value) and value[1]):
        return None
    return parse_length(value[0] / value[1])
