"""What an image file says beside its samples, in the terms that PNG, JPEG and TIFF share."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from qmcif_engine.io.metadata.exif import fit_exif
from qmcif_engine.io.metadata.length_units import convert_length, settle_unit
from qmcif_engine.io.output.windowed_image import ImageContent
from qmcif_engine.stack.image_metadata import ImageMetadata

_INCHES_IN_A_METER = 1 / 0.0254

_PROFILE_SPACES = {1: b"GRAY", 3: b"RGB "}


@dataclass(frozen=True, slots=True)
class Resolution:
    """Pixels per unit of length, horizontally and vertically."""

    horizontal: float
    vertical: float
    unit: Literal["inch", "centimeter"]

    @property
    def per_meter(self) -> tuple[float, float]:
        """Pixels per meter, horizontally and vertically."""
        factor = _INCHES_IN_A_METER if self.unit == "inch" else 100.0
        return self.horizontal * factor, self.vertical * factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
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

    profile: bytes | None = None
    exif: bytes | None = None
    resolution: Resolution | None = None
    comment: str | None = None
    software: str | None = None


_LARGEST_PART = 2**31 - 1


def prepare_embedding(content: ImageContent) -> Embedding:
    """Return what the image's metadata and provenance become in a file."""
    height, width = content.image.shape[:2]
    exif = content.metadata.exif
    return Embedding(
        exif=None if exif is None else fit_exif(exif, height=height, width=width),
        profile=_fitting_profile(content.metadata.icc_profile, content.n_colors),
        resolution=_settle_resolution(content.metadata),
        comment=encode_provenance(content.provenance) if content.provenance else None,
        software=name_software(content.provenance),
    )


def encode_provenance(provenance: Mapping[str, object]) -> str:
    """Return provenance as JSON in ASCII under the one key ``qmcif``; the same for equal mappings."""
    # ASCII: tags of TIFF and comments of JPEG name no encoding
    return json.dumps({"qmcif": provenance}, sort_keys=True, ensure_ascii=True, allow_nan=False)


def name_software(provenance: Mapping[str, object]) -> str | None:
    """Return the name of this program with the version that provenance tells, or None where it tells none."""
    version = provenance.get("version")
    return f"napari-qmcif {version}".encode("ascii", "replace").decode() if isinstance(version, str) else None


def _fitting_profile(profile: bytes | None, n_colors: int) -> bytes | None:
    """Return the profile if it is for images of so many colors: readers refuse or misread one that is not."""
    # the color space stands at this place of an ICC profile
    if profile is None or profile[16:20] != _PROFILE_SPACES.get(n_colors):
        return None
    return profile


def _settle_resolution(metadata: ImageMetadata) -> Resolution | None:
    # what the camera says of printing is kept as it is
    if metadata.dpi is not None and all(is_storable_density(dots) for dots in metadata.dpi):
        return Resolution(*metadata.dpi, unit="inch")
    unit = settle_unit(metadata.unit)
    if metadata.pixel_size is None or unit is None or not all(_is_positive(side) for side in metadata.pixel_size):
        return None
    sides = [convert_length(side, unit, to="centimeter") for side in metadata.pixel_size]
    if not all(side and is_storable_density(1 / side) for side in sides):
        return None
    # sizes are height before width, resolutions horizontal first
    return Resolution(1 / sides[1], 1 / sides[0], unit="centimeter")


def is_storable_density(density: float) -> bool:
    """Return whether the fractions of two numbers of 32 bits that files have for a resolution can hold this one."""
    return 1 / _LARGEST_PART <= density <= _LARGEST_PART


def _is_positive(value: float) -> bool:
    return math.isfinite(value) and value > 0
