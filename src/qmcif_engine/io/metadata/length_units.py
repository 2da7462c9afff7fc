"""The units of length that microscopes write, by their names in OME-NGFF."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from qmcif_engine.stack.picture_metadata import PictureMetadata

if TYPE_CHECKING:
    from collections.abc import Mapping

_METERS = {
    "angstrom": 1e-10,
    "picometer": 1e-12,
    "nanometer": 1e-9,
    "micrometer": 1e-6,
    "millimeter": 1e-3,
    "centimeter": 1e-2,
    "decimeter": 1e-1,
    "meter": 1.0,
    "inch": 0.0254,
}
_SPELLINGS = {
    "å": "angstrom",
    "pm": "picometer",
    "nm": "nanometer",
    "um": "micrometer",
    "µm": "micrometer",  # micro sign
    "μm": "micrometer",  # Greek letter
    "\\u00b5m": "micrometer",  # as ImageJ writes it
    "micron": "micrometer",
    "microns": "micrometer",
    "mm": "millimeter",
    "cm": "centimeter",
    "dm": "decimeter",
    "m": "meter",
    "in": "inch",
}


def settle_unit(spelling: object) -> str | None:
    """Return the OME-NGFF name of a unit of length however it is spelled, None for what is none."""
    if not isinstance(spelling, str):
        return None
    word = spelling.strip().lower()
    name = _SPELLINGS.get(word, word)
    return name if name in _METERS else None


def convert_length(length: float, unit: str, *, to: str) -> float:
    """Return a length in another unit."""
    return length if unit == to else length * _METERS[unit] / _METERS[to]


def settle_lengths(steps: Mapping[str, float | None], units: Mapping[str, object]) -> PictureMetadata:
    """Return the size of a pixel and the distance of images in one unit, from the step along X, Y and Z and the spelling of its unit."""
    known = {axis: (step, unit) for axis, step in steps.items() if step is not None and (unit := settle_unit(units.get(axis))) is not None}
    unit = next((known[axis][1] for axis in "XYZ" if axis in known), None)
    lengths = {axis: convert_length(*known[axis], to=unit) for axis in known} if unit else {}
    pixel_size = (lengths["Y"], lengths["X"]) if {"X", "Y"} <= set(lengths) else None
    return PictureMetadata(pixel_size=pixel_size, z_step=lengths.get("Z"), unit=unit)


def parse_length(text: object) -> float | None:
    """Return a length that can be one: a finite number above zero; None for anything else."""
    if not isinstance(text, (str, int, float)):
        return None
    try:
        length = float(text)
    except ValueError:
        return None
    return length if math.isfinite(length) and length > 0 else None
