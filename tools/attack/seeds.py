"""Small sound inputs, one of every format that is read, from which attacks are made by changing them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import imagecodecs
import numpy as np
import tifffile
import zarr
from microscope_seeds import write_czi, write_dng, write_heic, write_lif, write_nd2
from seed_images import SIDE, make_images

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _write_png(folder: Path) -> list[str]:
    for number, image in enumerate(make_images(np.uint16, (3,))):
        (folder / f"{number}.png").write_bytes(imagecodecs.png_encode(image))
    return ["0.png", "1.png"]


def _write_alpha(folder: Path) -> list[str]:
    from PIL import Image

    for number, image in enumerate(make_images(np.uint8, (4,))):
        Image.fromarray(image).save(folder / f"{number}.png", icc_profile=b"profile" * 9, dpi=(300, 300))
    return ["0.png", "1.png"]


def _write_jpeg(folder: Path) -> list[str]:
    from PIL import Image

    for number, image in enumerate(make_images(np.uint8, (3,))):
        picture = Image.fromarray(image)
        exif = picture.getexif()
        exif[271], exif[274] = "Maker", 1
        picture.save(folder / f"{number}.jpg", progressive=bool(number), exif=exif, icc_profile=b"profile" * 20, quality=80)
    return ["0.jpg", "1.jpg"]


def _write_tiff(folder: Path, **options: object) -> list[str]:
    defaults: dict[str, object] = {"photometric": "minisblack", "compression": "zlib", "rowsperstrip": 8, "metadata": None}
    tifffile.imwrite(folder / "a.tif", make_images(), **(defaults | options))
    return ["a.tif"]


def _write_tiled(folder: Path) -> list[str]:
    tifffile.imwrite(folder / "a.tif", make_images(np.uint8, (3,)), photometric="rgb", compression="jpeg", tile=(16, 16))
    return ["a.tif"]


def _write_ome(folder: Path) -> list[str]:
    metadata = {"axes": "CZYX", "PhysicalSizeX": 0.2, "PhysicalSizeXUnit": "µm", "Channel": {"Name": ["DAPI", "GFP"]}}
    tifffile.imwrite(folder / "a.ome.tif", np.stack([make_images(np.uint16)] * 2), photometric="minisblack", metadata=metadata)
    return ["a.ome.tif"]


def _write_imagej(folder: Path) -> list[str]:
    tifffile.imwrite(folder / "a.tif", make_images(np.uint16), imagej=True, metadata={"axes": "ZYX", "unit": "um", "spacing": 0.5})
    return ["a.tif"]


def _write_palette(folder: Path) -> list[str]:
    colors = np.random.default_rng(3).integers(0, 2**16, (3, 256), dtype=np.uint16)
    tifffile.imwrite(folder / "a.tif", make_images(), photometric="palette", colormap=colors, compression="packbits")
    return ["a.tif"]


def _write_real_numbers(folder: Path) -> list[str]:
    tifffile.imwrite(folder / "a.tif", make_images(np.float32), photometric="minisblack", compression="zlib", predictor=True, tile=(16, 16))
    return ["a.tif"]


def _write_pyramid(folder: Path) -> list[str]:
    with tifffile.TiffWriter(folder / "a.ome.tif", ome=True) as file:
        file.write(make_images(np.uint8), photometric="minisblack", subifds=1, tile=(16, 16), metadata={"axes": "ZYX"})
        file.write(make_images(np.uint8)[:, ::2, ::2], photometric="minisblack", subfiletype=1, tile=(16, 16))
    return ["a.ome.tif"]


def _write_avif(folder: Path) -> list[str]:
    for number, image in enumerate(make_images(np.uint8, (3,))):
        (folder / f"{number}.avif").write_bytes(imagecodecs.avif_encode(image, level=100))
    return ["0.avif", "1.avif"]


def _write_collection(folder: Path) -> list[str]:
    """Write images side by side in one store, as bioformats2raw does."""
    _write_zarr(folder, version=2, is_image=True)
    (folder / "a.zarr").rename(folder / "0")
    group = zarr.open_group(folder / "a.zarr", mode="w", zarr_format=2)
    group.attrs["bioformats2raw.layout"] = 3
    (folder / "0").rename(folder / "a.zarr" / "0")
    (folder / "a.zarr" / "OME").mkdir()
    (folder / "a.zarr" / "OME" / "METADATA.ome.xml").write_text(
        '<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><Image ID="Image:0" Name="first"><Pixels ID="Pixels:0" '
        'DimensionOrder="XYZCT" Type="uint16" SizeX="32" SizeY="24" SizeZ="2" SizeC="1" SizeT="1"/></Image></OME>'
    )
    return ["a.zarr"]


def _write_zarr(folder: Path, *, version: int, is_image: bool) -> list[str]:
    chunks = {"chunks": (1, 16, 16)} if version == 2 else {"chunks": (1, 16, 16), "shards": (1, 32, 32)}
    if not is_image:
        zarr.create_array(folder / "a.zarr", data=make_images(np.uint16), zarr_format=version, overwrite=True, **chunks)
        return ["a.zarr"]
    group = zarr.open_group(folder / "a.zarr", mode="w", zarr_format=version)
    group.create_array("0", data=make_images(np.uint16), **chunks)
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
    "PNG with alpha": _write_alpha,
    "JPEG": _write_jpeg,
    "AVIF": _write_avif,
    "HEIC": write_heic,
    "DNG": write_dng,
    "TIFF": _write_tiff,
    "TIFF of JPEG tiles": _write_tiled,
    "BigTIFF": lambda folder: _write_tiff(folder, bigtiff=True, compression="lzw", byteorder=">"),
    "TIFF of a palette": _write_palette,
    "TIFF of floats": _write_real_numbers,
    "OME-TIFF": _write_ome,
    "OME-TIFF with levels": _write_pyramid,
    "ImageJ TIFF": _write_imagej,
    "Zarr 2": lambda folder: _write_zarr(folder, version=2, is_image=False),
    "Zarr 3": lambda folder: _write_zarr(folder, version=3, is_image=False),
    "OME-Zarr 0.4": lambda folder: _write_zarr(folder, version=2, is_image=True),
    "OME-Zarr 0.5": lambda folder: _write_zarr(folder, version=3, is_image=True),
    "bioformats2raw": _write_collection,
    "CZI": write_czi,
    "ND2": write_nd2,
    "LIF": write_lif,
    "settings": _write_settings,
    "transforms": _write_transforms,
}
"""By format, what writes a sound input into a folder and returns the arguments of ``qmcif fuse`` that name it."""
