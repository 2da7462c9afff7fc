"""How the channels of an image of ours are named and shown, as its file says."""

from __future__ import annotations

import html
import re
from typing import Any

import numpy as np

_CHANNEL = re.compile(r"<Channel\b([^>]*)>")
_LIMITS = re.compile(r'<M K="channel \d+">([^<]*)</M>')
_HEXADECIMAL_COLOR = re.compile("[0-9a-fA-F]{6}")


def looks_in_xml(text: str) -> dict[str, list[Any]]:
    """Return what OME-XML says of the channels, as attributes of layers; only what it says of all of them."""
    channels = _CHANNEL.findall(text)
    names = [html.unescape(found[1]) if (found := re.search(r'\bName="([^"]*)"', channel)) else "" for channel in channels]
    numbers = [found[1] if (found := re.search(r'\bColor="(-?\d{1,10})"', channel)) else "" for channel in channels]
    colors = [f"#{int(number) >> 8 & 0xFFFFFF:06x}" if number else "" for number in numbers]
    limits = [_parse_limits(pair.split()) for pair in _LIMITS.findall(text)]
    return _complete(len(channels), name=names, colormap=colors, contrast_limits=limits)


def looks_in_notes(notes: dict[str, Any], n_channels: int) -> dict[str, list[Any]]:
    """Return what the notes of ImageJ say of the channels, as attributes of layers."""
    ranges, tables = notes.get("Ranges") or (), notes.get("LUTs") or ()
    limits = [_parse_limits(ranges[start : start + 2]) for start in range(0, len(ranges), 2)]
    colors = [f"#{bytes(table[:, -1]).hex()}" for table in tables if isinstance(table, np.ndarray) and table.shape == (3, 256)]
    return _complete(n_channels, name=list(notes.get("Labels") or ())[:n_channels], colormap=colors, contrast_limits=limits)


def looks_in_omero(channels: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return what an OME-Zarr says of its channels, as attributes of layers."""
    colors = [str(channel.get("color", "")) for channel in channels]
    windows = [channel.get("window") or {} for channel in channels]
    return _complete(
        len(channels),
        name=[str(channel.get("label", "")) for channel in channels],
        colormap=[f"#{color}" if _HEXADECIMAL_COLOR.fullmatch(color) else "" for color in colors],
        contrast_limits=[_parse_limits([window.get("start"), window.get("end")]) for window in windows],
    )


def _complete(n_channels: int, **looks: list[Any]) -> dict[str, list[Any]]:
    return {name: values for name, values in looks.items() if len(values) == n_channels and all(values)}


def _parse_limits(pair: Any) -> tuple[float, float] | None:  # noqa: ANN401 - whatever a file says
    try:
        low, high = (float(value) for value in pair)
    except (TypeError, ValueError):
        return None
    return (low, high) if -np.inf < low < high < np.inf else None
