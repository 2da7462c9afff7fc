"""Leica LIF through liffile: samples lie uncompressed in the file, and are read plane by plane.

Series, and the tiles of those that are scans of tiles, are the images of a file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from liffile import LifFile, LifImage, LifImageABC
from numpy.typing import NDArray

from qmcif_engine.io.microscopes.microscope_source import MicroscopeImage
from qmcif_engine.stack.window import Window

_TILE = "M"
_COLORS = {
    "red": "#ff0000",
    "green": "#00ff00",
    "blue": "#0000ff",
    "cyan": "#00ffff",
    "magenta": "#ff00ff",
    "yellow": "#ffff00",
    "gray": "#ffffff",
    "grey": "#ffffff",
}
"""What Leica calls the tables of colors in which channels are shown."""


def list_images(location: Path) -> list[str]:
    """Return the names of the series."""
    with LifFile(location) as file:
        return [name for image in file.images for name in _name_tiles(image)]


def describe(location: Path, number: int) -> MicroscopeImage:
    """Return what the file says of a series."""
    with LifFile(location) as file:
        image, _ = _find(file, number)
        sizes = {axis: int(length) for axis, length in image.sizes.items() if axis != _TILE}
        block, channels = image.memory_block, image.xml_element.findall("./Data/Image/ImageDescription/Channels/ChannelDescription")
        # one depth for all channels, else none is known
        bits = {channel.attrib.get("Resolution", "") for channel in channels}
        return MicroscopeImage(
            sizes=sizes,
            dtype=np.dtype(image.dtype),
            steps={axis: _measure_step(image.coords.get(axis)) for axis in "XYZ"},
            names=[channel.findtext("./ChannelProperty[Key='DyeName']/Value") or "" for channel in channels],
            colors=[_COLORS.get(channel.attrib.get("LUTName", "").lower(), "") for channel in channels],
            n_bits=int(bits.pop()) if len(bits) == 1 and min(bits).isdecimal() else 0,
            needed_bytes=math.prod(image.shape) * image.dtype.itemsize,
            # no more than the file really has behind the beginning of the block
            stored_bytes=min(int(block.size), max(location.stat().st_size - int(block.offset), 0)),
            # scans may lie along X and Z: the last two axes are what is stored as a plane
            plane_axes="".join(axis for axis in sizes if axis != "S")[-2:],
        )


def read(location: Path, number: int, *, places: Sequence[Mapping[str, int]], rows: str, window: Window) -> list[NDArray[Any]]:
    """Return a window of several planes."""
    with LifFile(location) as file:
        image, tile = _find(file, number)
        indices = [dict(place) | ({_TILE: tile} if tile is not None else {}) for place in places]
        return [_read_plane(image, index, rows=rows, window=window) for index in indices]


def _read_plane(image: LifImage, index: dict[str, int], *, rows: str, window: Window) -> NDArray[Any]:
    """Return a window of a plane; one that is cut across the planes of the file takes a row of each of them."""
    stored_rows = [axis for axis in image.dims if axis != "S"][-2]
    if rows == stored_rows:
        return np.array(image.frame(out=None, **index)[window.slices])
    row = index.pop(stored_rows)
    columns = window.slices[1]
    return np.stack([image.frame(out=None, **index | {rows: number})[row, columns] for number in range(window.top, window.bottom)])


def _find(file: LifFile, number: int) -> tuple[LifImage, int | None]:
    """Return a series and which of its tiles is meant, None where it has one."""
    for image in file.images:
        n_tiles = int(image.sizes.get(_TILE, 1))
        if number < n_tiles:
            return cast("LifImage", image), number if n_tiles > 1 else None
        number -= n_tiles
    msg = f"there is no image {number + 1}"
    raise IndexError(msg)


def _name_tiles(image: LifImageABC) -> list[str]:
    n_tiles = int(image.sizes.get(_TILE, 1))
    return [f"{image.path}, tile {tile + 1}" for tile in range(n_tiles)] if n_tiles > 1 else [str(image.path)]


def _measure_step(places: NDArray[Any] | None) -> float | None:
    """Return the distance of neighbors along an axis in micrometers, from their places in meters."""
    if places is None or len(places) < 2:
        return None
    # over the whole axis: single places are rounded
    return abs(float(places[-1] - places[0])) / (len(places) - 1) * 1e6
