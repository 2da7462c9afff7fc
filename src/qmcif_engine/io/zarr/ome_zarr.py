"""Write OME-Zarr pyramids of any size from windows.

The arrays are written with zarr itself. ome-zarr-py streams too, but from dask arrays only, its means of integers are cut off instead
of rounded, and it brings clients of object stores with it, as ngff-zarr brings WebAssembly. What is left to take from either, for a
picture of two axes, are the few lines of metadata below, which the tests read back with ome-zarr-py and check by the specification.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

from qmcif_engine.io.metadata.embedding import encode_provenance, prepare_embedding
from qmcif_engine.io.metadata.ome_xml import name_channels
from qmcif_engine.io.output.picture import BLOCK_SIDE_PX, count_blocks
from qmcif_engine.io.output.pyramid import halve, level_shapes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from qmcif_engine.io.output.picture import OmeZarrVersion, Picture, PictureContent, WriteRun
    from qmcif_engine.stack.window import Window

_COMPRESSION_LEVEL = 3
_RGB_COLORS = ("FF0000", "00FF00", "0000FF")
_DYE_COLORS = ("0000FF", "00FF00", "FF0000", "FF00FF", "00FFFF", "FFFF00")
_WHITE = "FFFFFF"


class _Extremes:
    """Least and largest finite color sample, from which viewers set their contrast."""

    def __init__(self) -> None:
        self.low, self.high = np.inf, -np.inf

    def include(self, samples: NDArray[Any]) -> None:
        """Take samples into account."""
        finite = samples if samples.dtype.kind == "u" else samples[np.isfinite(samples)]
        if finite.size:
            self.low, self.high = min(self.low, float(finite.min())), max(self.high, float(finite.max()))


def write_ome_zarr(folder: Path, content: PictureContent, *, run: WriteRun, images: Sequence[Picture] | None = None) -> None:
    """Write a picture or a stack of images, and smaller copies, into an empty folder, as one group of chunked arrays.

    Color is stored in planes with a channel axis (c, y, x); gray has the axes (y, x). Chunks hold all channels of a block and carry a
    checksum. Each level is made of the one before, read back from the store: memory holds a few chunks. Everything is written, black
    chunks too, so that a missing chunk always means a damaged store.

    Parameters
    ----------
    folder : Path
        Exists and is empty.
    content : PictureContent
        The picture, or the first image of the stack.
    run : WriteRun
        Its version of OME-Zarr is stored as Zarr 3 (0.5) or, for older readers, as Zarr 2 (0.4).
    images : sequence of Picture, optional
        All images of a stack, which lie along an axis z; z itself is never reduced.
    """
    group = zarr.open_group(folder, mode="w-", zarr_format=3 if run.ome_zarr_version == "0.5" else 2)
    shapes = level_shapes(content.picture.shape)
    n_images = None if images is None else len(images)
    arrays = [_create_level(group, str(level), content, shape, n_images=n_images) for level, shape in enumerate(shapes)]
    extremes = _Extremes()
    numbers: Sequence[int | None] = [None] if images is None else range(len(images))
    for number, picture in zip(numbers, images or [content.picture], strict=True):
        for window, block in run.read(picture):
            extremes.include(block[..., : content.n_colors] if content.has_alpha else block)
            _store_block(arrays[0], window, block, number=number)
    for larger, smaller, shape in zip(arrays, arrays[1:], shapes[1:], strict=False):
        for number in numbers:
            for window in run.windows(shape):
                _store_block(smaller, window, halve(_load_double(larger, window, number=number), is_index=content.is_index), number=number)
                run.count_block()
    group.attrs.update(_describe_group(content, version=run.ome_zarr_version, n_levels=len(shapes), extremes=extremes, n_images=n_images))


def count_chunks(content: PictureContent, *, n_images: int = 1) -> int:
    """Return how many chunks are written, over all images and levels."""
    return n_images * sum(count_blocks(shape) for shape in level_shapes(content.picture.shape))


def _create_level(
    group: zarr.Group, name: str, content: PictureContent, shape: tuple[int, ...], *, n_images: int | None
) -> zarr.Array[Any]:
    """Make the empty array of one level, of shape (H, W) or (H, W, C); the images of a stack lie along an axis z."""
    is_latest = group.metadata.zarr_format == 3
    options = {"level": _COMPRESSION_LEVEL, "checksum": True}
    compressor: Any = {"name": "zstd", "configuration": options} if is_latest else {"id": "zstd", **options}
    channels, depth = shape[2:], () if n_images is None else (n_images,)
    return group.create_array(
        name,
        shape=(*channels, *depth, *shape[:2]),
        chunks=(*channels, *(1 for _ in depth), BLOCK_SIDE_PX, BLOCK_SIDE_PX),
        dtype=content.picture.dtype,
        compressors=compressor,  # not Blosc: its threads store their parts in the order in which they happen to finish
        fill_value=0,
        dimension_names=_axis_names(content, n_images) if is_latest else None,
        chunk_key_encoding={"name": "default" if is_latest else "v2", "separator": "/"},
        config={"write_empty_chunks": True},
    )


def _store_block(array: zarr.Array[Any], window: Window, block: NDArray[Any], *, number: int | None) -> None:
    """Write a window of a picture, or of one image of a stack."""
    depth = () if number is None else (number,)
    array[(..., *depth, *window.slices)] = np.moveaxis(block, -1, 0) if block.ndim == 3 else block


def _load_double(larger: zarr.Array[Any], window: Window, *, number: int | None) -> NDArray[Any]:
    """Return the samples of the larger level whose means make up a window of the smaller."""
    rows, columns = (slice(2 * side.start, 2 * side.stop) for side in window.slices)
    planes = np.asarray(larger[(..., *(() if number is None else (number,)), rows, columns)])
    return np.moveaxis(planes, 0, -1) if planes.ndim == 3 else planes


def _axis_names(content: PictureContent, n_images: int | None) -> list[str]:
    return ["c"] * (content.n_channels > 1) + ["z"] * (n_images is not None) + ["y", "x"]


def _describe_group(
    content: PictureContent, *, version: OmeZarrVersion, n_levels: int, extremes: _Extremes, n_images: int | None
) -> dict[str, Any]:
    """Return the attributes of a group of levels, of a picture or of a stack of images."""
    multiscale: dict[str, Any] = {
        "axes": _axes(content, n_images),
        "datasets": [_dataset(content, level, n_images) for level in range(n_levels)],
        "type": "nearest" if content.is_index else "mean",
    }
    described: dict[str, Any] = {"multiscales": [multiscale]}
    if not content.is_index:
        described["omero"] = _rendering(content, extremes)
    if version == "0.4":
        multiscale["version"] = version
        return described | _own_attributes(content)
    return {"ome": {"version": version} | described} | _own_attributes(content)


def _axes(content: PictureContent, n_images: int | None) -> list[dict[str, str]]:
    metadata = content.metadata
    known = {"y": metadata.pixel_size, "x": metadata.pixel_size, "z": metadata.z_step}
    units = {name: {"unit": metadata.unit} if metadata.unit and length else {} for name, length in known.items()}
    names = _axis_names(content, n_images)
    return [{"name": name, "type": "channel"} if name == "c" else {"name": name, "type": "space"} | units[name] for name in names]


def _dataset(content: PictureContent, level: int, n_images: int | None) -> dict[str, Any]:
    """Return the place of a level: its first pixel covers several of the picture's, so its center lies a little further in."""
    factor = 2**level
    shift = (factor - 1) / 2
    pixel = content.metadata.pixel_size or (1.0, 1.0)
    channel, depth = content.n_channels > 1, n_images is not None
    step = content.metadata.z_step or 1.0
    return {
        "path": str(level),
        "coordinateTransformations": [
            {"type": "scale", "scale": [1.0] * channel + [step] * depth + [side * factor for side in pixel]},
            {"type": "translation", "translation": [0.0] * (channel + depth) + [side * shift for side in pixel]},
        ],
    }


def _rendering(content: PictureContent, extremes: _Extremes) -> dict[str, Any]:
    if content.is_rgb:
        colors: tuple[str, ...] = _RGB_COLORS
    else:
        colors = (_WHITE,) if content.n_colors == 1 else _DYE_COLORS
    window = _display_window(content, extremes)
    channels = [
        {
            "label": name,
            "color": _WHITE if is_alpha else colors[number % len(colors)],
            "active": not is_alpha,
            "coefficient": 1,
            "family": "linear",
            "inverted": False,
            "window": window,
        }
        for number, name in enumerate(name_channels(content))
        for is_alpha in [number >= content.n_colors]
    ]
    return {"channels": channels, "rdefs": {"defaultT": 0, "defaultZ": 0, "model": "color" if content.n_colors > 1 else "greyscale"}}


def _display_window(content: PictureContent, extremes: _Extremes) -> dict[str, float]:
    """Return one contrast for all channels, so that colors keep their balance: 8 bits whole, others as far as there are samples."""
    low, high = (extremes.low, extremes.high) if extremes.low < extremes.high else (0.0, 1.0)
    if content.picture.dtype.kind != "u":
        return {"min": low, "max": high, "start": low, "end": high}
    n_bits = content.metadata.significant_bits or 8 * content.picture.dtype.itemsize
    largest = 2**n_bits - 1
    is_whole = content.picture.dtype.itemsize == 1
    return {"min": 0, "max": largest, "start": 0 if is_whole else int(low), "end": largest if is_whole else int(high)}


def _own_attributes(content: PictureContent) -> dict[str, Any]:
    """Return provenance under one key, and with it what cameras write, for which OME-Zarr has no place."""
    own: dict[str, Any] = json.loads(encode_provenance(content.provenance))
    metadata, embedding = content.metadata, prepare_embedding(content)
    for name, value in (("icc_profile", embedding.profile), ("exif", embedding.exif)):
        if value is not None:
            own["qmcif"][name] = base64.b64encode(value).decode()
    if metadata.dpi is not None:
        own["qmcif"]["dpi"] = list(metadata.dpi)
    if metadata.significant_bits is not None:
        own["qmcif"]["significant_bits"] = metadata.significant_bits
    return own
