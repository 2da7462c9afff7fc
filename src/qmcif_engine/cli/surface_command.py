"""``qmcif surface``: a height map as a surface in a file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from qmcif_engine.cli.options import Request
from qmcif_engine.errors import InvalidConfigError, InvalidImageError, OutputError
from qmcif_engine.io import surfaces
from qmcif_engine.io.input.segments import SegmentCache
from qmcif_engine.io.output.placement import check_place, check_sources_kept, place_files
from qmcif_engine.io.tiff.tiff_source import TiffSource

_SUFFIXES = (".stl", ".obj", ".ply", ".csv")
_LARGEST_TEXTURE_PX = 2**26


def run(options: Request) -> None:
    """Write a surface or a profile of heights."""
    _check(options)
    is_profile = options.output.suffix.lower() == ".csv"
    # a profile takes every pixel along its line
    stride = 1 if is_profile else options.stride
    grid = surfaces.read_heights(options.heights, stride=stride, pixel_size=options.pixel_size)
    if min(grid.heights.shape) < 2 and not is_profile:
        msg = f"{grid.heights.shape[1]} x {grid.heights.shape[0]} points are left; at least 2 x 2 are needed: take a smaller --stride"
        raise InvalidConfigError(msg)
    writes = _plan_writes(options, grid)
    check_sources_kept(tuple(writes), tuple(path for path in (options.heights, options.texture) if path is not None))
    for target in writes:
        check_place(target, overwrite=options.overwrite)
    place_files(writes, overwrite=options.overwrite)
    rows, columns = grid.heights.shape
    print(f"wrote {', '.join(str(path) for path in writes)} from {columns} x {rows} heights{f' in {grid.unit}' if grid.unit else ''}")


def _check(options: Request) -> None:
    suffix = options.output.suffix.lower()
    if suffix not in _SUFFIXES:
        msg = f"{str(options.output)!r} has the suffix {options.output.suffix!r}; one of {', '.join(_SUFFIXES)} is needed: rename it"
        raise OutputError(msg)
    if (options.line is not None) != (suffix == ".csv"):
        msg = "a profile is a .csv file along a --line, and surfaces have none: give both or neither"
        raise InvalidConfigError(msg)
    if options.texture is not None and suffix not in (".obj", ".ply"):
        msg = f"--image was given for {str(options.output)!r}; {suffix} holds no colors: use .obj or .ply, or leave it out"
        raise InvalidConfigError(msg)
    for name, value in (("--stride", options.stride), ("--pixel-size", options.pixel_size)):
        if value is not None and not (value > 0 and np.isfinite(value)):
            msg = f"{name} is {value}; a number above 0 is needed: correct it"
            raise InvalidConfigError(msg)


def _plan_writes(options: Request, grid: surfaces.HeightGrid) -> dict[Path, Callable[[BinaryIO], None]]:
    """Return what writes each file; an OBJ file has a material and a texture beside it."""
    output, suffix = options.output, options.output.suffix.lower()
    if suffix == ".csv":
        return {output: partial(surfaces.write_profile, profile=surfaces.cut_profile(grid, options.line), unit=grid.unit)}
    if suffix == ".stl":
        return {output: partial(surfaces.write_stl, grid=grid)}
    if suffix == ".ply":
        colors = None if options.texture is None else _read_colors(options.texture, grid, stride=grid.stride)
        return {output: partial(surfaces.write_ply, grid=grid, colors=colors)}
    if options.texture is None:
        return {output: partial(surfaces.write_obj, grid=grid)}
    material, texture = output.with_suffix(".mtl"), output.with_name(f"{output.stem}_texture.png")
    _check_name(texture.name)
    return {
        output: partial(surfaces.write_obj, grid=grid, material=material.name),
        material: partial(surfaces.write_material, texture=texture.name),
        texture: partial(_write_texture, colors=_read_colors(options.texture, grid, stride=1)),
    }


def _check_name(name: str) -> None:
    """Refuse names that an OBJ file cannot write down: they end at the first blank."""
    if not name.isascii() or not name.isprintable() or " " in name:
        msg = f"an OBJ file would have to name {name!r}; letters without accents and no blanks are needed: rename the target"
        raise OutputError(msg)


def _read_colors(path: Path, grid: surfaces.HeightGrid, *, stride: int) -> NDArray[np.uint8]:
    """Return an image of the size of the heights as 8-bit colors, thinned out; other types are stretched from their least to largest."""
    source = TiffSource(path, cache=SegmentCache())
    found = source.description
    if (found.height, found.width) != grid.shape or found.n_frames != 1 or found.n_channels not in (1, 3):
        msg = (
            f"{str(path)!r} has shape {found.frame_shape} and {found.n_frames} image(s); one gray or RGB image of {grid.shape[1]} x "
            f"{grid.shape[0]} pixels, as the heights have, is needed: pass the image that was fused with them"
        )
        raise InvalidImageError(msg)
    if stride == 1 and found.height * found.width > _LARGEST_TEXTURE_PX:
        msg = (
            f"{str(path)!r} has more than {_LARGEST_TEXTURE_PX} pixels; a texture must be smaller: use .ply, which has one color per point"
        )
        raise InvalidImageError(msg)
    samples: NDArray[Any] = surfaces.read_thinned(source, stride)
    if samples.dtype != np.uint8:
        low, high = float(samples.min()), float(samples.max())
        samples = np.rint((samples.astype(np.float64) - low) / (high - low or 1.0) * 255).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(samples, (*samples.shape[:2], 3)))


def _write_texture(stream: BinaryIO, colors: NDArray[np.uint8]) -> None:
    Image.fromarray(colors).save(stream, format="png")
