"""Images of phones: AVIF through imagecodecs, HEIC through pi-heif, which is an extra: ``pip install "napari-qmcif[heic]"``."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from qmcif_engine.io.input.frame_source import SourceDescription
from qmcif_engine.io.input.image_file import check_claimed_size, describe_single_image, load_extra, refuse_content, refuse_damaged
from qmcif_engine.io.input.segments import OpenFile
from qmcif_engine.io.limits import LARGEST_EXIF_BYTES, LARGEST_SMOOTH_BYTES, MAX_EXPANSION
from qmcif_engine.io.metadata.exif import check_profile, fit_exif

# sizes and properties mostly stand in front of the samples
_HEAD_BYTES = 2**20
# four samples of 16 bits
_LARGEST_PIXEL_BYTES = 8
_EXIF_PREFIX = b"Exif\0\0"
_BRANDS = {b"avif": "AVIF", b"heic": "HEIC", b"heix": "HEIC", b"heim": "HEIC", b"heis": "HEIC"}
_N_SAMPLES = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}
# "image spatial extents" of ISO 23008-12: version and flags are zero, then width and height
_SIZE = re.compile(rb"ispe\0\0\0\0(.{4})(.{4})", re.DOTALL)


def recognize_heif(head: bytes) -> str | None:
    """Return AVIF or HEIC for a file that begins as one, else None."""
    if head[4:8] != b"ftyp":
        return None
    length = min(int.from_bytes(head[:4], "big"), len(head))
    # the main brand, then those it is compatible with, behind a version of four bytes
    brands = [head[8:12], *(head[start : start + 4] for start in range(16, length - 3, 4))]
    return next((_BRANDS[brand] for brand in brands if brand in _BRANDS), None)


def inspect_avif(file: OpenFile, path: Path) -> SourceDescription:
    """Return what is known of the image, which is decoded for that: nothing reads the header alone."""
    _check_size(file, path)
    samples = decode_avif(file, path)
    n_samples = 1 if samples.ndim == 2 else samples.shape[2]
    return describe_single_image(path, size=(samples.shape[0], samples.shape[1]), n_samples=n_samples, dtype=samples.dtype)


def decode_avif(file: OpenFile, _path: Path) -> NDArray[Any]:
    """Return the image, shape (H, W) or (H, W, C)."""
    return imagecodecs.avif_decode(file.read(0, file.stamp()[0]))


def inspect_heic(file: OpenFile, path: Path) -> SourceDescription:
    """Return what the header says of the image."""
    _check_size(file, path)
    image = _open_heic(file, path)
    # a lower-case a marks alpha that is multiplied into the colors
    n_samples = _N_SAMPLES.get(image.mode.partition(";")[0])
    if n_samples is None:
        raise refuse_content(path, given=f"{image.mode} colors", needed="gray or RGB", remedy="save it as PNG or TIFF")
    width, height = image.size
    found = describe_single_image(
        path,
        size=(height, width),
        n_samples=n_samples,
        dtype=np.dtype("uint16" if image.mode.endswith(";16") else "uint8"),
        icc_profile=check_profile(image.info.get("icc_profile") or b""),
    )
    exif = (image.info.get("exif") or b"").removeprefix(_EXIF_PREFIX)
    # the decoder turns the image itself, so what the camera says of its orientation does not hold any more
    kept = fit_exif(exif, height=height, width=width) if len(exif) <= LARGEST_EXIF_BYTES else None
    return replace(found, metadata=replace(found.metadata, exif=kept))


def decode_heic(file: OpenFile, path: Path) -> NDArray[Any]:
    """Return the image, shape (H, W) or (H, W, C)."""
    return np.asarray(_open_heic(file, path))


def _open_heic(file: OpenFile, path: Path) -> Any:  # noqa: ANN401 - of the library
    """Return the primary image of a HEIC file, not decoded yet."""
    library = load_extra("pi_heif", path, kind="a HEIC file", extra="heic", otherwise="save the image as JPEG or TIFF")
    opened = library.open_heif(io.BytesIO(file.read(0, file.stamp()[0])), convert_hdr_to_8bit=False)
    return opened[opened.primary_index]


def _check_size(file: OpenFile, path: Path) -> None:
    """Refuse an image for whose claimed size no memory may be taken."""
    head = file.read(0, _HEAD_BYTES)
    # the brand of animations, and properties that turn or mirror, which imagecodecs leaves to its caller
    if recognize_heif(head[:64]) == "AVIF" and (b"avis" in head[:64] or b"irot" in head or b"imir" in head):
        raise refuse_content(
            path, given="an animation, or an image that has to be turned", needed="one upright image", remedy="save it as PNG or TIFF"
        )
    sizes = [(int.from_bytes(height, "big"), int.from_bytes(width, "big")) for width, height in _SIZE.findall(head)]
    if not sizes:
        raise refuse_damaged(path, "its header claims no size")
    # thumbnails and tiles claim sizes too: the largest bounds what decoding takes
    height, width = max(sizes, key=lambda size: size[0] * size[1])
    decoded_bytes = _LARGEST_PIXEL_BYTES * height * width
    # a smooth image may become nearly nothing
    stored_bytes = None if decoded_bytes <= LARGEST_SMOOTH_BYTES else file.stamp()[0]
    check_claimed_size(
        path, height=height, width=width, decoded_bytes=decoded_bytes, stored_bytes=stored_bytes, max_expansion=MAX_EXPANSION
    )
