"""Amounts of memory and time as people write them."""

from __future__ import annotations

import re

from qmcif_engine.errors import InvalidConfigError

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_AMOUNT = re.compile(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]{0,3})\s*")


def parse_bytes(text: str) -> int:
    """Read an amount of memory such as ``1GB``, ``512 MiB`` or ``2000000``."""
    found = _AMOUNT.fullmatch(text)
    unit = None if found is None else _UNITS.get(found[2].upper())
    if found is None or unit is None or float(found[1]) == 0:
        msg = f"the amount of memory is {text!r}; a number and a unit are needed: write for example 1GB or 512MiB"
        raise InvalidConfigError(msg)
    return int(float(found[1]) * unit)


def show_bytes(amount: int) -> str:
    """Return an amount with the unit that suits it."""
    for unit in ("TB", "GB", "MB", "KB"):
        if amount >= _UNITS[unit]:
            return f"{amount / _UNITS[unit]:.3g} {unit}"
    return f"{amount} bytes"


def show_seconds(seconds: float) -> str:
    """Return a duration in the unit that suits it."""
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def printable(text: str) -> str:
    """Return a name as a terminal may show it: names of files can hold anything."""
    return text if text.isprintable() else ascii(text)
