"""How channels are named and shown, from what files say of them: whatever makes no sense is left out, whatever is missing filled in."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from qmcif_engine.io.metadata.length_units import convert_length, parse_length, settle_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_NAME = 256
"""Characters of the name of an image or a channel that are kept."""

LONGEST_DESCRIPTION = 2**16
"""Characters of what an image says in words that are kept."""

_WHITE = "#ffffff"


def complete_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return a name for every channel: those that have none get a number; none where no channel has a name."""
    if not any(names):
        return ()
    return tuple(name[:LONGEST_NAME] or f"Channel {number}" for number, name in enumerate(names, 1))


def complete_colors(colors: Sequence[str]) -> tuple[str, ...]:
    """Return a color for every channel: white, which OME means by none, for those without; none where no channel has a color."""
    return tuple(color or _WHITE for color in colors) if any(colors) else ()


def complete_limits(limits: Sequence[tuple[float, float] | None]) -> tuple[tuple[float, float], ...]:
    """Return the limits of all channels, none where one has none."""
    # unlike colors there is no limit that means none
    known = tuple(pair for pair in limits if pair is not None)
    return known if len(known) == len(limits) else ()


def complete_emissions(wavelengths: Sequence[float | None]) -> tuple[float | None, ...]:
    """Return the wavelengths of all channels, none where no channel has one."""
    return tuple(wavelengths) if any(wavelengths) else ()


def parse_limits(pair: object) -> tuple[float, float] | None:
    """Return two limits that can be such: finite numbers, the first below the second."""
    if not isinstance(pair, (list, tuple)) or len(pair) != 2:
        return None
    try:
        low, high = (float(value) for value in pair)
    except (TypeError, ValueError, OverflowError):
        return None
    return (low, high) if math.isfinite(low) and math.isfinite(high) and low < high else None


def settle_nanometers(length: object, unit: object) -> float | None:
    """Return a wavelength in nanometers, None for what is none."""
    known, name = parse_length(length), settle_unit(unit)
    return None if known is None or name is None else convert_length(known, name, to="nanometer")
