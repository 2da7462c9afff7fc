"""Images of phones: AVIF through imagecodecs, HEIC through pi-heif, which is an extra: ``pip install "napari-qmcif[heic]"``."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import imagecodecs
import numpy as np

from qmcif_engine.errors import MissingExtraError
from qmcif_engine.io.input.image_file import (
    check_claimed_size,
    check_regular_file,
    describe_picture,
    refuse_content,
    refuse_damaged,
    translate_failures,
)
from qmcif_engine.io.limits import LARGEST_EXIF_BYTES, LARGEST_PICTURE_OVERHEAD_BYTES, MAX_PIXELS
from qmcif_engine.io.metadata.exif import check_profile, fit_exif

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from numpy.typing import NDArray

    from qmcif_engine.io.input.frame_source import SourceDescription

_HEAD_BYTES = 2**20
_EXIF_PREFIX = b"Exif\0\0"
_BRANDS = {b"avif": "AVIF", b"heic": "HEIC", b"heix": "HEIC", b"heim": "HEIC", b"heis": "HEIC"}
_SIZE = re.compile(rb"ispe\0\0\0\0(.{4})(.{4})", re.DOTALL)


def recognize_heif(path: Path) -> str | None:
    """Return AVIF or HEIC for a file that is one, else None."""
    head = translate_failures(lambda file: _read_head(file)[:64], path)
    if head[4:8] != b"ftyp":
        return None
    length = min(int.from_bytes(head[:4], "big"), len(head))
    brands = [head[8:12], *(head[start : start + 4] for start in range(16, length - 3, 4))]
    return next((_BRANDS[brand] for brand in brands if brand in _BRANDS), None)


def inspect_heif(path: Path) -> SourceDescription:
    """Return what is known of the image; an AVIF file is decoded for that, since nothing reads its header alone.

    Raises
    ------
    MissingExtraError
        For HEIC where pi-heif is not installed.
    ImageFileError
        For what cannot be read completely and faithfully.
    """
    kind = recognize_heif(path)
    if kind == "AVIF":
        samples = read_avif(path)
        return describe_picture(path, size=samples.shape[:2], n_samples=samples.shape[2], dtype=samples.dtype)
    library = _import_library(path)
    return translate_failures(lambda file: _inspect_heic(library, file), path)


def read_heif(path: Path) -> NDArray[Any]:
    """Return the image, shape (H, W, C)."""
    if recognize_heif(path) == "AVIF":
        return read_avif(path)
    library = _import_library(path)
    return translate_failures(lambda file: _shaped(np.asarray(_open(library, file)[0])), path)


def read_avif(path: Path) -> NDArray[Any]:
    """Return the image of an AVIF file, shape (H, W, C)."""
    return translate_failures(_decode_avif, path)


def _decode_avif(path: Path) -> NDArray[Any]:
    height, width = _check_size(path)
    head = _read_head(path)
    if b"avis" in head[:64] or b"irot" in head or b"imir" in head:
        raise refuse_content(
            path, given="an animation, or an image that has to be turned", needed="one upright image", remedy="save it as PNG or TIFF"
        )
    samples = _shaped(imagecodecs.avif_decode(path.read_bytes()))
    if samples.shape[:2] != (height, width):
        raise refuse_damaged(path, f"its header claims {width} x {height} pixels, and {samples.shape[1]} x {samples.shape[0]} are there")
    return samples


def _inspect_heic(library: ModuleType, path: Path) -> SourceDescription:
    picture, info = _open(library, path)
    width, height = picture.size
    n_samples = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}.get(picture.mode.partition(";")[0], 0)
    if not n_samples or "a" in picture.mode:
        raise refuse_content(path, given=f"{picture.mode} colors", needed="gray or RGB", remedy="save it as PNG or TIFF")
    profile = info.get("icc_profile")
    dtype = np.dtype(np.uint16 if picture.mode.endswith(";16") else np.uint8)
    found = describe_picture(
        path, size=(height, width), n_samples=n_samples, dtype=dtype, icc_profile=check_profile(profile) if profile else None
    )
    exif = bytes(info.get("exif") or b"").removeprefix(_EXIF_PREFIX)
    # the decoder turns the image itself, so what the camera says of its orientation does not hold any more
    kept = fit_exif(exif, height=height, width=width) if 0 < len(exif) <= LARGEST_EXIF_BYTES else None
    return replace(found, metadata=replace(found.metadata, exif=kept))


def _open(library: ModuleType, path: Path) -> tuple[Any, dict[str, Any]]:
    """Return the primary image of a HEIC file, not decoded yet, and what is said of it."""
    _check_size(path)
    file = library.open_heif(path, convert_hdr_to_8bit=False)
    picture = file[file.primary_index]
    return picture, picture.info


def _check_size(path: Path) -> tuple[int, int]:
    """Return height and width of the largest image that the header claims, once memory may be taken for it."""
    head = _read_head(path)
    sizes = [(int.from_bytes(height, "big"), int.from_bytes(width, "big")) for width, height in _SIZE.findall(head)]
    if not sizes:
        raise refuse_damaged(path, "its header claims no size")
    height, width = max(sizes, key=lambda size: size[0] * size[1])
    check_claimed_size(path, height=height, width=width, decoded_bytes=8 * height * width, stored_bytes=None, max_pixels=MAX_PIXELS)
    if path.stat().st_size > 16 * height * width + LARGEST_PICTURE_OVERHEAD_BYTES:
        raise refuse_damaged(path, f"{path.stat().st_size} bytes for {width} x {height} pixels")
    return height, width


def _read_head(path: Path) -> bytes:
    check_regular_file(path)
    with path.open("rb") as stream:
        return stream.read(_HEAD_BYTES)


def _shaped(samples: NDArray[Any]) -> NDArray[Any]:
    return samples[:, :, np.newaxis] if samples.ndim == 2 else samples


def _import_library(path: Path) -> ModuleType:
    try:
        return import_module("pi_heif")
    except ImportError as error:
        msg = (
            f"{str(path)!r} is a HEIC file; pi-heif is needed to read it; install it with: pip install 'napari-qmcif[heic]', "
            "or save the image as JPEG or TIFF"
        )
        raise MissingExtraError(msg) from error
