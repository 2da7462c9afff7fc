"""Units of length and of time however files spell them, and how channels are named and shown: whatever makes no sense is left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from qmcif_engine.stack.image_metadata import ImageMetadata

LONGEST_NAME = 256
"""Characters of the name of an image or a channel that are kept."""

LONGEST_DESCRIPTION = 2**16
"""Characters of what an image says in words that are kept."""

_WHITE = "#ffffff"
UNIT_SYMBOLS = {"angstrom": "Å", "picometer": "pm", "nanometer": "nm", "micrometer": "µm", "millimeter": "mm", "centimeter": "cm"}
UNIT_SYMBOLS |= {"decimeter": "dm", "meter": "m", "inch": "in"}
"""Units of length as OME-NGFF names them and OME-XML writes them."""

_METERS = {"angstrom": 1e-10, "picometer": 1e-12, "nanometer": 1e-9, "micrometer": 1e-6, "millimeter": 1e-3, "centimeter": 1e-2}
_METERS |= {"decimeter": 1e-1, "meter": 1.0, "inch": 0.0254}
_SECONDS = {"nanosecond": 1e-9, "microsecond": 1e-6, "millisecond": 1e-3, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}
_SECONDS |= {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

_MICROMETER_SPELLINGS = ("um", "μm", "\\u00b5m", "micron", "microns")  # the second with the Greek letter, the third as ImageJ writes it
_SPELLINGS = {symbol.lower(): name for name, symbol in UNIT_SYMBOLS.items()} | dict.fromkeys(_MICROMETER_SPELLINGS, "micrometer")


def parse_unit(spelling: object) -> str | None:
    """Return the OME-NGFF name of a unit of length however it is spelled, None for what is none."""
    if not isinstance(spelling, str):
        return None
    word = spelling.strip().lower()
    name = _SPELLINGS.get(word, word)
    return name if name in _METERS else None


def convert_length(length: float, unit: str, *, to: str) -> float:
    """Return a length in another unit."""
    return length if unit == to else length * _METERS[unit] / _METERS[to]


def to_one_unit(steps: Mapping[str, float | None], units: Mapping[str, object]) -> ImageMetadata:
    """Return the size of a pixel and the distance of images in one unit, from the step along X, Y and Z and the spelling of its unit."""
    known = {axis: (step, unit) for axis, step in steps.items() if step is not None and (unit := parse_unit(units.get(axis))) is not None}
    # that of X: one unit for all, as layers and files take it
    unit = next((known[axis][1] for axis in "XYZ" if axis in known), None)
    lengths = {axis: convert_length(*known[axis], to=unit) for axis in known} if unit else {}
    pixel_size = (lengths["Y"], lengths["X"]) if {"X", "Y"} <= set(lengths) else None
    return ImageMetadata(pixel_size=pixel_size, z_step=lengths.get("Z"), unit=unit)


def to_seconds(step: object, spelling: object) -> float | None:
    """Return a step in time in seconds, None for what is none or has an unknown unit."""
    factor = _SECONDS.get(spelling.strip().lower()) if isinstance(spelling, str) else None
    length = parse_length(step)
    return None if factor is None or length is None else length * factor


def parse_length(text: object) -> float | None:
    """Return a length that can be one: a finite number above zero; None for anything else."""
    try:
        length = float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return length if math.isfinite(length) and length > 0 else None


class ChannelLook(NamedTuple):
    """How a file says that a channel is called and shown; nothing of it is checked yet, but that a color is ``#rrggbb`` or empty."""

    name: object = ""
    color: str = ""
    limits: Sequence[Any] = ()
    emission_nm: float | None = None


def complete_looks(looks: Sequence[ChannelLook]) -> dict[str, Any]:
    """Return the fields of `ImageMetadata` about channels; each of them is empty, or has an entry for every channel.

    Channels without a name get a number, those without a color white, which OME means by none. There are no limits that mean none, so they
    are left out where one channel has none.
    """
    names = [look.name[:LONGEST_NAME] if isinstance(look.name, str) else "" for look in looks]
    colors, emissions = [look.color for look in looks], [look.emission_nm for look in looks]
    limits = [_parse_limits(look.limits) for look in looks]
    return {
        "channel_names": tuple(name or f"Channel {number}" for number, name in enumerate(names, 1)) if any(names) else (),
        "channel_colors": tuple(color or _WHITE for color in colors) if any(colors) else (),
        "channel_limits": tuple(limits) if all(limits) else (),
        "channel_emissions_nm": tuple(emissions) if any(emissions) else (),
    }


def _parse_limits(pair: Sequence[Any]) -> tuple[float, float] | None:
    """Return two limits that can be such: finite numbers, the first below the second."""
    try:
        low, high = map(float, pair)
    except (TypeError, ValueError, OverflowError):
        return None
    return (low, high) if math.isfinite(low) and math.isfinite(high) and low < high else None
