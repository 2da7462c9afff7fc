"""The units of length and of time that microscopes write, by their names in OME-NGFF."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from qmcif_engine.stack.image_metadata import ImageMetadata

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNITS = {
    "angstrom": ("Å", 1e-10),
    "picometer": ("pm", 1e-12),
    "nanometer": ("nm", 1e-9),
    "micrometer": ("µm", 1e-6),
    "millimeter": ("mm", 1e-3),
    "centimeter": ("cm", 1e-2),
    "decimeter": ("dm", 1e-1),
    "meter": ("m", 1.0),
    "inch": ("in", 0.0254),
}
"""Symbol in OME-XML and length in meters."""

_SECONDS = {
    "nanosecond": ("ns", 1e-9),
    "microsecond": ("µs", 1e-6),
    "millisecond": ("ms", 1e-3),
    "second": ("s", 1.0),
    "minute": ("min", 60.0),
    "hour": ("h", 3600.0),
    "day": ("d", 86400.0),
}
"""Symbol in OME-XML and length in seconds."""

_TIME_SPELLINGS = {spelling: seconds for name, (symbol, seconds) in _SECONDS.items() for spelling in (name, symbol)} | {"sec": 1.0}

UNIT_SYMBOLS = {name: symbol for name, (symbol, _) in _UNITS.items()}
_MICROMETER_SPELLINGS = ("um", "μm", "\\u00b5m", "micron", "microns")  # the second with the Greek letter, the third as ImageJ writes it
_SPELLINGS = {symbol.lower(): name for name, symbol in UNIT_SYMBOLS.items()} | dict.fromkeys(_MICROMETER_SPELLINGS, "micrometer")


def settle_unit(spelling: object) -> str | None:
    """Return the OME-NGFF name of a unit of length however it is spelled, None for what is none."""
    if not isinstance(spelling, str):
        return None
    word = spelling.strip().lower()
    name = _SPELLINGS.get(word, word)
    return name if name in _UNITS else None


def convert_length(length: float, unit: str, *, to: str) -> float:
    """Return a length in another unit."""
    return length if unit == to else length * _UNITS[unit][1] / _UNITS[to][1]


def settle_lengths(steps: Mapping[str, float | None], units: Mapping[str, object]) -> ImageMetadata:
    """Return the size of a pixel and the distance of images in one unit, from the step along X, Y and Z and the spelling of its unit."""
    known = {axis: (step, unit) for axis, step in steps.items() if step is not None and (unit := settle_unit(units.get(axis))) is not None}
    # that of X: one unit for all, as layers and files take it
    unit = next((known[axis][1] for axis in "XYZ" if axis in known), None)
    lengths = {axis: convert_length(*known[axis], to=unit) for axis in known} if unit else {}
    pixel_size = (lengths["Y"], lengths["X"]) if {"X", "Y"} <= set(lengths) else None
    return ImageMetadata(pixel_size=pixel_size, z_step=lengths.get("Z"), unit=unit)


def settle_seconds(step: object, spelling: object) -> float | None:
    """Return a step in time in seconds, None for what is none or has an unknown unit."""
    factor = _TIME_SPELLINGS.get(spelling.strip().lower()) if isinstance(spelling, str) else None
    length = parse_length(step)
    return None if factor is None or length is None else length * factor


def parse_length(text: object) -> float | None:
    """Return a length that can be one: a finite number above zero; None for anything else."""
    if not isinstance(text, (str, int, float)):
        return None
    try:
        length = float(text)
    except ValueError:
        return None
    return length if math.isfinite(length) and length > 0 else None
