"""Nikon ND2 through nd2, which maps uncompressed frames instead of reading them.

Positions of the stage are the images of a file; a frame holds all channels of a plane.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nd2
import numpy as np
from numpy.typing import NDArray

from qmcif_engine.io.input.image_file import refuse_damaged
from qmcif_engine.io.microscopes.microscope_source import MicroscopeImage
from qmcif_engine.stack.window import Window

_POSITION = "P"
_IN_FRAME = "CYXS"
_N_COLORS = 3


def list_images(location: Path) -> list[str]:
    """Return the names of the positions."""
    with nd2.ND2File(location) as file:
        n_positions = int(file.sizes.get(_POSITION, 1))
        points = [point for loop in file.experiment if loop.type == "XYPosLoop" for point in loop.parameters.points]
    names = [str(point.name or "") for point in points]
    return names if len(names) == n_positions else [""] * n_positions


def describe(location: Path, number: int) -> MicroscopeImage:
    """Return what the file says of a position."""
    del number
    with nd2.ND2File(location) as file:
        size, channels = file.voxel_size(), [entry.channel for entry in file.metadata.channels or []]
        n_bytes = math.prod(int(length) for length in file.sizes.values()) * np.dtype(file.dtype).itemsize
        return MicroscopeImage(
            sizes={axis: int(length) for axis, length in file.sizes.items() if axis != _POSITION},
            dtype=np.dtype(file.dtype),
            # the library gives a step for a single plane too
            steps={"X": size.x, "Y": size.y, "Z": size.z if "Z" in file.sizes else None},
            names=[str(channel.name or "") for channel in channels],
            colors=[f"#{channel.color.r:02x}{channel.color.g:02x}{channel.color.b:02x}" for channel in channels],
            n_bits=int(file.attributes.bitsPerComponentSignificant),
            needed_bytes=n_bytes if file.attributes.compressionType is None else 0,
        )


def read(location: Path, number: int, *, places: Sequence[Mapping[str, int]], rows: str, window: Window) -> list[NDArray[Any]]:
    """Return a window of several planes."""
    del rows  # a frame has no others
    with nd2.ND2File(location) as file:
        order = [axis for axis in file.sizes if axis not in _IN_FRAME]
        planes = []
        for place in places:
            index = [number if axis == _POSITION else place.get(axis, 0) for axis in order]
            # frames are stored in the order of the loops, the last one fastest
            frame_number = int(np.ravel_multi_index(index, [file.sizes[axis] for axis in order])) if order else 0
            planes.append(_cut(file, frame_number, place, window))
        return planes


def _cut(file: nd2.ND2File, frame_number: int, place: Mapping[str, int], window: Window) -> NDArray[Any]:
    """Return a copy of a window of a frame: the frame itself lies in a file that is closed soon."""
    # the library gives zeros for frames that are not, or not wholly, in the file; no public name tells which those are
    offset = file._rdr._frame_offsets.get(frame_number)  # type: ignore[union-attr,attr-defined,unused-ignore]
    n_bytes = 0 if file.attributes.compressionType is not None else file.attributes.heightPx * (file.attributes.widthBytes or 0)
    if offset is None or not 0 <= offset <= Path(file.path).stat().st_size - n_bytes:
        msg = f"frame {frame_number + 1} is missing"
        raise refuse_damaged(Path(file.path), msg)
    frame = file.read_frame(frame_number)
    if "C" in file.sizes:
        frame = frame[place.get("C", 0)]
    samples = frame[window.slices]
    # Nikon stores blue first
    return np.array(samples[..., ::-1] if file.is_rgb and samples.shape[-1] == _N_COLORS else samples)
