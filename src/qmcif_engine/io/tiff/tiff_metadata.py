"""What a TIFF file says about its image: in OME-XML, in ImageJ's notes, in tags."""

from __future__ import annotations

from dataclasses import replace

from tifffile import TiffFile, TiffPage

from qmcif_engine.io.metadata.exif import check_profile, collect_exif
from qmcif_engine.io.metadata.length_units import parse_length
from qmcif_engine.io.metadata.ome_xml import OmeImage, describe_pixels
from qmcif_engine.io.tiff.color_tables import find_ramp_color
from qmcif_engine.io.tiff.imagej import read_imagej
from qmcif_engine.io.tiff.tiff_checks import claimed_bits
from qmcif_engine.stack.image_metadata import ImageMetadata

_PROFILE_TAG = 34675
_DENSITY_TAGS = (282, 283)
_DENSITY_UNIT_TAG = 296
_INCHES = {2: 1.0, 3: 2.54}
"""Dots an inch for one dot a unit, by the code of the unit: inch, centimeter."""


def read_metadata(tiff: TiffFile, image: OmeImage | None) -> ImageMetadata:
    """Return what the first page and the file's description say.

    Parameters
    ----------
    tiff : TiffFile
        Open.
    image : OmeImage, optional
        From `parse_ome`.
    """
    page = tiff.pages.first
    profile = page.tags.valueof(_PROFILE_TAG)
    if image is not None:
        described = describe_pixels(image)
    elif tiff.is_imagej:
        described = read_imagej(tiff.imagej_metadata or {}, densities=[_density(page, tag) for tag in _DENSITY_TAGS])
    else:
        described = ImageMetadata()
    ramp = find_ramp_color(page)
    return replace(
        described,
        channel_colors=described.channel_colors or (() if ramp is None else (ramp,)),
        significant_bits=claimed_bits(page),
        icc_profile=check_profile(bytes(profile)) if isinstance(profile, bytes) else None,
        exif=collect_exif(tiff),
        dpi=_printing_density(page),
    )


def _printing_density(page: TiffPage) -> tuple[float, float] | None:
    # TIFF's default unit is the inch; 1 means no unit, only a ratio
    factor = _INCHES.get(int(page.tags.valueof(_DENSITY_UNIT_TAG, 2)))
    across, down = (_density(page, tag) for tag in _DENSITY_TAGS)
    return (across * factor, down * factor) if across and down and factor else None


def _density(page: TiffPage, tag: int) -> float | None:
    """Return a resolution tag as a number; None where it is missing or senseless."""
    value = page.tags.valueof(tag)
    if not (isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, int) for part in value) and value[1]):
        return None
    return parse_length(value[0] / value[1])
