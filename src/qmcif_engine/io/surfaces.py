"""Heights as other programs take them: meshes for 3-D programs, profiles for tables.

A height map is read back from its TIFF file, thinned out to what a mesh has room for. Meshes are STL, OBJ with a texture and PLY with
colors, written row by row: x grows to the right and y upwards, so that the surface is seen from above as the image shows it; z is the
height.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.io.input.frame_source import FramePosition
from qmcif_engine.io.input.image_file import refuse_content
from qmcif_engine.io.input.segments import SegmentCache
from qmcif_engine.io.input.written_image import WrittenImage
from qmcif_engine.io.metadata.units import convert_length, parse_unit
from qmcif_engine.io.tiff.tiff_source import TiffSource
from qmcif_engine.stack.window import Window

MOST_VERTICES = 2**22
"""Points of a mesh that is not thinned out by hand: a gigabyte in the program that opens it."""

_BAND_ROWS = 512


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeightGrid:
    """Every so many rows and columns of a height map.

    Attributes
    ----------
    heights : ndarray of float32, shape (rows, columns)
        In `unit`.
    stride : int
        How many pixels apart they are.
    pixel_size : tuple of float
        Height and width of a pixel in `unit`.
    shape : tuple of int
        Of the whole map.
    unit : str or None
        Of heights and sizes; None where the file does not say it.
    """

    heights: NDArray[np.float32]
    stride: int
    pixel_size: tuple[float, float]
    shape: tuple[int, int]
    unit: str | None


def read_heights(path: Path, *, stride: int | None = None, pixel_size: float | None = None) -> HeightGrid:
    """Read the heights that ``qmcif fuse --depth`` wrote as TIFF or OME-TIFF, in bands, so that memory holds a thinned map at most.

    Parameters
    ----------
    path : Path
    stride : int, optional
        Rows and columns from one point to the next; as few as keep the number of points below `MOST_VERTICES` where left out.
    pixel_size : float, optional
        Side of a pixel in the unit of the heights; that of the file where left out.

    Raises
    ------
    ImageFileError
        For a file that holds no heights.
    InvalidConfigError
        When the size of a pixel is neither in the file nor given.
    """
    source = TiffSource(path, cache=SegmentCache())
    found = source.description
    if found.n_frames != 1 or found.n_channels != 1 or found.dtype.kind != "f":
        given = f"{found.n_frames} image(s) of {found.n_channels} channel(s) and type {found.dtype}"
        raise refuse_content(path, given=given, needed="one plane of heights as floats", remedy="pass what fuse --depth wrote")
    # heights may be in another unit than pixels
    unit = _find_unit(path) or found.metadata.unit
    if pixel_size is not None:
        sides = (pixel_size, pixel_size)
    elif found.metadata.pixel_size is not None and found.metadata.unit is not None:
        known = found.metadata.unit
        height, width = found.metadata.pixel_size
        sides = (convert_length(height, known, to=unit or known), convert_length(width, known, to=unit or known))
    else:
        msg = f"{str(path)!r} does not say how large a pixel is, which is needed: give its side with --pixel-size, in the heights' unit"
        raise InvalidConfigError(msg)
    step = stride or next(step for step in count(1) if -(-found.height // step) * -(-found.width // step) <= MOST_VERTICES)
    return HeightGrid(
        heights=np.ascontiguousarray(read_thinned(source, step)[..., 0], np.float32),
        stride=step,
        pixel_size=sides,
        shape=(found.height, found.width),
        unit=unit,
    )


def read_thinned(source: TiffSource, stride: int) -> NDArray[Any]:
    """Return every so many rows and columns of the first frame of a file, shape (rows, columns, C)."""
    found = source.description
    # a multiple of the stride, so that every band begins with a row that is kept
    band = -(-_BAND_ROWS // stride) * stride
    parts = []
    for top in range(0, found.height, band):
        window = Window(top, 0, min(top + band, found.height), found.width)
        # without the copy the thinned view would keep the whole band
        parts.append(source.read(FramePosition(0, 0), window, range(found.n_channels))[::stride, ::stride].copy())
    samples = np.concatenate(parts)
    if samples.dtype.kind == "f" and not np.isfinite(samples).all():
        raise refuse_content(found.paths[0], given="NaN or infinite samples", needed="finite ones", remedy="fill them first")
    return samples


def _find_unit(path: Path) -> str | None:
    """Return the unit that the record of a file gives its heights."""
    described = (WrittenImage.find_record(path) or {}).get("height")
    return parse_unit(described.get("unit")) if isinstance(described, dict) else None


_STL_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("mark", "<u2")])
_PLY_FACE = np.dtype([("n", "u1"), ("corners", "<i4", 3)])
_STL_HEAD_BYTES = 80


def write_stl(stream: BinaryIO, grid: HeightGrid) -> None:
    """Write a binary STL file: triangles alone, without scale or color."""
    rows, columns = grid.heights.shape
    stream.write(b"heights by napari-qmcif".ljust(_STL_HEAD_BYTES))
    # two triangles a square of four points
    stream.write(np.uint32(2 * (rows - 1) * (columns - 1)).tobytes())
    for row in range(rows - 1):
        points = np.concatenate([_row_of_points(grid, row), _row_of_points(grid, row + 1)])
        corners = points[_faces_of_row(0, columns)]
        # counterclockwise corners: it points upwards
        normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        triangles = np.zeros(len(corners), _STL_TRIANGLE)
        triangles["normal"] = normal / np.linalg.norm(normal, axis=1, keepdims=True)
        triangles["corners"] = corners
        stream.write(triangles.tobytes())


def write_ply(stream: BinaryIO, grid: HeightGrid, colors: NDArray[np.uint8] | None = None) -> None:
    """Write a binary PLY file; each point has the color of its pixel where there are colors, shape (rows, columns, 3)."""
    rows, columns = grid.heights.shape
    properties = [f"float {axis}" for axis in "xyz"] + ([] if colors is None else [f"uchar {color}" for color in ("red", "green", "blue")])
    head = [
        f"ply\nformat binary_little_endian 1.0\ncomment unit {grid.unit or 'unknown'}\nelement vertex {rows * columns}",
        *(f"property {name}" for name in properties),
        f"element face {2 * (rows - 1) * (columns - 1)}\nproperty list uchar int vertex_indices\nend_header\n",
    ]
    stream.write("\n".join(head).encode("ascii"))
    form = np.dtype([("place", "<f4", 3), *([("color", "u1", 3)] if colors is not None else [])])
    for row in range(rows):
        points = np.zeros(columns, form)
        points["place"] = _row_of_points(grid, row)
        if colors is not None:
            points["color"] = colors[row]
        stream.write(points.tobytes())
    for corners in _all_faces(grid):
        faces = np.zeros(len(corners), _PLY_FACE)
        faces["n"], faces["corners"] = 3, corners
        stream.write(faces.tobytes())


def write_obj(stream: BinaryIO, grid: HeightGrid, material: str | None = None) -> None:
    """Write a Wavefront OBJ file; where a material file is named, each point has its place in the texture."""
    rows, columns = grid.heights.shape
    stream.write(f"# heights by napari-qmcif, unit {grid.unit or 'unknown'}\n".encode("ascii"))
    if material is not None:
        stream.write(f"mtllib {material}\nusemtl surface\n".encode())
    for row in range(rows):
        np.savetxt(stream, _row_of_points(grid, row), fmt="v %.9g %.9g %.9g")
    if material is not None:
        # the middle of a pixel, as a share of the texture
        across = (np.arange(columns) * grid.stride + 0.5) / grid.shape[1]
        for row in range(rows):
            # textures begin at the lower left
            up = 1 - (row * grid.stride + 0.5) / grid.shape[0]
            np.savetxt(stream, np.stack([across, np.full(columns, up)], axis=1), fmt="vt %.9g %.9g")
    for corners in _all_faces(grid):
        # OBJ counts from 1; a point and its place in the texture have the same number
        if material is None:
            np.savetxt(stream, corners + 1, fmt="f %d %d %d")
        else:
            np.savetxt(stream, np.repeat(corners + 1, 2, axis=1), fmt="f %d/%d %d/%d %d/%d")


def write_material(stream: BinaryIO, texture: str) -> None:
    """Write the material file of an OBJ file, which names the image that lies on the surface."""
    stream.write(f"newmtl surface\nKa 1 1 1\nKd 1 1 1\nKs 0 0 0\nillum 1\nmap_Kd {texture}\n".encode())


def _row_of_points(grid: HeightGrid, row: int) -> NDArray[np.float32]:
    """Return x, y, z of the points of a row, shape (columns, 3)."""
    heights = grid.heights[row]
    x = np.arange(len(heights)) * grid.stride * grid.pixel_size[1]
    # rows go down, y goes up
    y = np.full(len(heights), -row * grid.stride * grid.pixel_size[0])
    return np.stack([x, y, heights], axis=1).astype(np.float32)


def _all_faces(grid: HeightGrid) -> Iterator[NDArray[np.int64]]:
    rows, columns = grid.heights.shape
    for row in range(rows - 1):
        yield _faces_of_row(row, columns)


def _faces_of_row(row: int, columns: int) -> NDArray[np.int64]:
    """Return the numbers of the corners of the triangles below a row of points, counterclockwise seen from above."""
    left = row * columns + np.arange(columns - 1)
    below = left + columns
    return np.concatenate([np.stack([left, below, left + 1], axis=1), np.stack([left + 1, below, below + 1], axis=1)])


def cut_profile(grid: HeightGrid, line: Sequence[float]) -> NDArray[np.float64]:
    """Return distance, column, row and height of points about a pixel apart, shape (points, 4).

    Heights between pixels are interpolated linearly.

    Parameters
    ----------
    grid : HeightGrid
        Not thinned out.
    line : sequence of four floats
        Column and row of its start, then of its end, in pixels.

    Raises
    ------
    InvalidConfigError
        For a line that leaves the image or has no length.
    """
    height, width = grid.heights.shape
    left, top, right, bottom = (float(value) for value in line)
    is_inside = all(0 <= x <= width - 1 for x in (left, right)) and all(0 <= y <= height - 1 for y in (top, bottom))
    length_px = math.hypot(right - left, bottom - top)
    if not is_inside or length_px == 0:
        msg = (
            f"the line {left:g},{top:g} to {right:g},{bottom:g} was given; two different points within columns 0 to {width - 1} and "
            f"rows 0 to {height - 1} are needed: correct it"
        )
        raise InvalidConfigError(msg)
    share = np.linspace(0, 1, math.ceil(length_px) + 1)
    columns, rows = left + share * (right - left), top + share * (bottom - top)
    heights = ndimage.map_coordinates(grid.heights.astype(np.float64), [rows, columns], order=1, mode="nearest")
    # in the unit of a pixel's size, whose sides may differ
    distance = share * math.hypot((right - left) * grid.pixel_size[1], (bottom - top) * grid.pixel_size[0])
    return np.stack([distance, columns, rows, heights], axis=1)


def write_profile(stream: BinaryIO, profile: NDArray[np.float64], unit: str | None) -> None:
    """Write a profile as CSV with one line of headings."""
    in_unit = f" ({unit})" if unit else ""
    np.savetxt(stream, profile, fmt="%.9g", delimiter=",", comments="", header=f"distance{in_unit},column (px),row (px),height{in_unit}")
