"""Meshes of a height map: STL, OBJ with a texture, PLY with colors; written row by row.

x grows to the right and y upwards, so that the surface is seen from above as the image shows it; z is the height.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qmcif_engine.io.surfaces.height_file import HeightGrid

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
    shown = ["property uchar red", "property uchar green", "property uchar blue"] if colors is not None else []
    head = [
        "ply",
        "format binary_little_endian 1.0",
        f"comment unit {grid.unit or 'unknown'}",
        f"element vertex {rows * columns}",
        *(f"property float {axis}" for axis in "xyz"),
        *shown,
        f"element face {2 * (rows - 1) * (columns - 1)}",
        "property list uchar int vertex_indices",
        "end_header",
    ]
    stream.write(("\n".join(head) + "\n").encode("ascii"))
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
        lines = [f"v {x:.9g} {y:.9g} {z:.9g}" for x, y, z in _row_of_points(grid, row).tolist()]
        stream.write(("\n".join(lines) + "\n").encode("ascii"))
    if material is not None:
        # the middle of a pixel, as a share of the texture
        across = (np.arange(columns) * grid.stride + 0.5) / grid.shape[1]
        for row in range(rows):
            # textures begin at the lower left
            up = 1 - (row * grid.stride + 0.5) / grid.shape[0]
            stream.write(("\n".join(f"vt {right:.9g} {up:.9g}" for right in across.tolist()) + "\n").encode("ascii"))
    for corners in _all_faces(grid):
        if material is None:
            # OBJ counts from 1
            lines = [f"f {a} {b} {c}" for a, b, c in (corners + 1).tolist()]
        else:
            lines = [f"f {a}/{a} {b}/{b} {c}/{c}" for a, b, c in (corners + 1).tolist()]
        stream.write(("\n".join(lines) + "\n").encode("ascii"))


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
