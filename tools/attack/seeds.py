"""Small sound inputs, one of every format that is read, from which attacks are made by changing them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import imagecodecs
import numpy as np
import tifffile
import zarr

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

SIDE = (24, 32)


def _images(kind: type = np.uint8, channels: tuple[int, ...] = ()) -> NDArray[np.generic]:
    samples = np.random.default_rng(7).integers(0, 250, (2, *SIDE, *channels))
    return (samples // 16 * 16).astype(kind)  # few values, so that compressors have something to do


def _write_png(folder: Path) -> list[str]:
    for number, image in enumerate(_images(np.uint16, (3,))):
        (folder / f"{number}.png").write_bytes(imagecodecs.png_encode(image))
    return ["0.png", "1.png"]


def _write_jpeg(folder: Path) -> list[str]:
    from PIL import Image

    for number, image in enumerate(_images(np.uint8, (3,))):
        picture = Image.fromarray(image)
        exif = picture.getexif()
        exif[271], exif[274] = "Maker", 1
        picture.save(folder / f"{number}.jpg", progressive=bool(number), exif=exif, icc_profile=b"profile" * 20, quality=80)
    return ["0.jpg", "1.jpg"]


def _write_tiff(folder: Path, **options: object) -> list[str]:
    defaults: dict[str, object] = {"photometric": "minisblack", "compression": "zlib", "rowsperstrip": 8, "metadata": None}
    tifffile.imwrite(folder / "a.tif", _images(), **(defaults | options))
    return ["a.tif"]


def _write_tiled(folder: Path) -> list[str]:
    tifffile.imwrite(folder / "a.tif", _images(np.uint8, (3,)), photometric="rgb", compression="jpeg", tile=(16, 16))
    return ["a.tif"]


def _write_ome(folder: Path) -> list[str]:
    metadata = {"axes": "CZYX", "PhysicalSizeX": 0.2, "PhysicalSizeXUnit": "µm", "Channel": {"Name": ["DAPI", "GFP"]}}
    tifffile.imwrite(folder / "a.ome.tif", np.stack([_images(np.uint16)] * 2), photometric="minisblack", metadata=metadata)
    return ["a.ome.tif"]


def _write_imagej(folder: Path) -> list[str]:
    tifffile.imwrite(folder / "a.tif", _images(np.uint16), imagej=True, metadata={"axes": "ZYX", "unit": "um", "spacing": 0.5})
    return ["a.tif"]


def _write_zarr(folder: Path, *, version: int, is_image: bool) -> list[str]:
    chunks = {"chunks": (1, 16, 16)} if version == 2 else {"chunks": (1, 16, 16), "shards": (1, 32, 32)}
    if not is_image:
        zarr.create_array(folder / "a.zarr", data=_images(np.uint16), zarr_format=version, overwrite=True, **chunks)
        return ["a.zarr"]
    group = zarr.open_group(folder / "a.zarr", mode="w", zarr_format=version)
    group.create_array("0", data=_images(np.uint16), **chunks)
    scale = {"type": "scale", "scale": [2.0, 0.5, 0.5]}
    axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"]
    multiscale = {"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": [scale]}], "version": "0.4"}
    omero = {"channels": [{"label": "a", "color": "FF0000", "window": {"start": 0, "end": 9, "min": 0, "max": 99}}]}
    described = {"multiscales": [multiscale], "omero": omero}
    group.attrs.update(described if version == 2 else {"ome": {"version": "0.5", **described}})
    return ["a.zarr"]


def _write_settings(folder: Path) -> list[str]:
    from qmcif_engine import FusionConfig

    (folder / "settings.toml").write_text(FusionConfig().to_toml(), encoding="utf-8")
    return [*_write_png(folder), "--config", "settings.toml"]


def _write_transforms(folder: Path) -> list[str]:
    moved = {
        "format": "qmcif transforms 1",
        "model": "similarity",
        "image_shape": list(SIDE),
        "reference": 0,
        "matrices": [[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [[1.0, 0.01, 1.5], [-0.01, 1.0, 0.5], [0.0, 0.0, 1.0]]],
        "warnings": [[1, "uncertain"]],
    }
    (folder / "transforms.json").write_text(json.dumps(moved))
    return [*_write_png(folder), "--transforms", "transforms.json"]


SEEDS: dict[str, Callable[[Path], list[str]]] = {
    "PNG": _write_png,
    "JPEG": _write_jpeg,
    "TIFF": _write_tiff,
    "TIFF of JPEG tiles": _write_tiled,
    "BigTIFF": lambda folder: _write_tiff(folder, bigtiff=True, compression="lzw", byteorder=">"),
    "OME-TIFF": _write_ome,
    "ImageJ TIFF": _write_imagej,
    "Zarr 2": lambda folder: _write_zarr(folder, version=2, is_image=False),
    "Zarr 3": lambda folder: _write_zarr(folder, version=3, is_image=False),
    "OME-Zarr 0.4": lambda folder: _write_zarr(folder, version=2, is_image=True),
    "OME-Zarr 0.5": lambda folder: _write_zarr(folder, version=3, is_image=True),
    "settings": _write_settings,
    "transforms": _write_transforms,
}
"""By format, what writes a sound input into a folder and returns the arguments of ``qmcif fuse`` that name it."""
