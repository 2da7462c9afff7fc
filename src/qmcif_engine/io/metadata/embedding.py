"""What an image file says beside its samples, in the terms that PNG, JPEG and TIFF share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal, NamedTuple

from qmcif_engine.io.metadata.exif import fit_exif
from qmcif_engine.io.metadata.units import convert_length, parse_length, parse_unit
from qmcif_engine.io.output.windowed_image import ImageContent
from qmcif_engine.stack.image_metadata import ImageMetadata

_PROFILE_SPACES = {1: b"GRAY", 3: b"RGB "}
_LARGEST_PART = 2**31 - 1


class Resolution(NamedTuple):
    """Pixels per unit of length, horizontally and vertically."""

    horizontal: float
    vertical: float
    unit: Literal["inch", "centimeter"]


class Embedding(NamedTuple):
    """What is embedded into a file; None stands for nothing.

    Attributes
    ----------
    profile : bytes or None
        ICC profile whose color space is that of the image.
    exif : bytes or None
        EXIF block that fits the upright image.
    resolution : Resolution or None
        For printing where it is known, else from the size of a pixel.
    comment : str or None
        Provenance as JSON in ASCII.
    software : str or None
        Name and version of this program.
    """

    profile: bytes | None
    exif: bytes | None
    resolution: Resolution | None
    comment: str | None
    software: str | None


def prepare_embedding(content: ImageContent) -> Embedding:
    """Return what the image's metadata and provenance become in a file."""
    metadata, profile, (height, width) = content.metadata, content.metadata.icc_profile, content.image.shape[:2]
    # the color space stands at this place of an ICC profile; readers refuse or misread one for another number of colors
    fits = profile is not None and profile[16:20] == _PROFILE_SPACES.get(content.n_colors)
    return Embedding(
        profile=profile if fits else None,
        exif=None if metadata.exif is None else fit_exif(metadata.exif, height=height, width=width),
        resolution=_find_resolution(metadata),
        comment=encode_provenance(content.provenance) if content.provenance else None,
        software=name_software(content.provenance),
    )


def encode_provenance(provenance: Mapping[str, object]) -> str:
    """Return provenance as JSON in ASCII under the one key ``qmcif``; the same for equal mappings."""
    # ASCII: tags of TIFF and comments of JPEG name no encoding
    return json.dumps({"qmcif": provenance}, sort_keys=True, ensure_ascii=True, allow_nan=False)


def name_software(provenance: Mapping[str, object]) -> str | None:
    """Return the name of this program with the version in the provenance, or None where it has none."""
    version = provenance.get("version")
    return f"napari-qmcif {version}".encode("ascii", "replace").decode() if isinstance(version, str) else None


def _find_resolution(metadata: ImageMetadata) -> Resolution | None:
    # what the camera says of printing is kept as it is
    if metadata.dpi is not None and all(is_storable_density(dots) for dots in metadata.dpi):
        return Resolution(*metadata.dpi, unit="inch")
    unit = parse_unit(metadata.unit)
    if metadata.pixel_size is None or unit is None or not all(map(parse_length, metadata.pixel_size)):
        return None
    # sizes are height before width, resolutions horizontal first
    down, across = (convert_length(side, unit, to="centimeter") for side in metadata.pixel_size)
    if not all(side and is_storable_density(1 / side) for side in (down, across)):
        return None
    return Resolution(1 / across, 1 / down, unit="centimeter")


def is_storable_density(density: float) -> bool:
    """Return whether the fractions of two numbers of 32 bits that files have for a resolution can hold this one."""
    return 1 / _LARGEST_PART <= density <= _LARGEST_PART
