"""Files of phones and cameras that are only read: AVIF through imagecodecs, HEIC through pi-heif, camera raw through rawpy.

The last two are extras: ``pip install "napari-qmcif[heic,raw]"``. Raw images are all developed in the same way, so that the frames
of a stack stay comparable: white balance of the camera, no automatic brightening, gamma 1 (samples proportional to light), 16 bits, sRGB
primaries, upright.
"""

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
from qmcif_engine.io.limits import LARGEST_EXIF_BYTES, LARGEST_SMOOTH_BYTES, MAX_RAW_EXPANSION
from qmcif_engine.io.metadata.exif import check_profile, collect_exif, fit_exif

# sizes and properties mostly stand in front of the samples
_HEAD_BYTES = 2**20
# four samples of 16 bits
_LARGEST_PIXEL_BYTES = 8
_BRANDS = {b"avif": "AVIF", b"heic": "HEIC", b"heix": "HEIC", b"heim": "HEIC", b"heis": "HEIC"}
_N_SAMPLES = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}
# "image spatial extents" of ISO 23008-12: version and flags are zero, then width and height
_SIZE = re.compile(rb"ispe\0\0\0\0(.{4})(.{4})", re.DOTALL)
_QUARTER_TURNS = (5, 6)
"""Codes of rawpy for images that stand on their side."""


def recognize_heif(head: bytes) -> str | None:
    """Return AVIF or HEIC for a file that begins as one, else None."""
    if head[4:8] != b"ftyp":
        return None
    length = min(int.from_bytes(head[:4], "big"), len(head))
    # the main brand, then those it is compatible with, behind a version of four bytes
    brands = [head[8:12], *(head[start : start + 4] for start in range(16, length - 3, 4))]
    return next((_BRANDS[brand] for brand in brands if brand in _BRANDS), None)


def inspect_heif(file: OpenFile, path: Path) -> SourceDescription:
    """Return what is known of the image; an AVIF file is decoded for that, since nothing reads its header alone."""
    if recognize_heif(file.read(0, 64)) == "AVIF":
        samples = decode_heif(file, path)
        return describe_single_image(path, size=samples.shape[:2], n_samples=samples.shape[2], dtype=samples.dtype)
    _check_heif_size(file, path)
    image = _open_heic(file, path)
    # a lower-case a marks alpha that is multiplied into the colors
    n_samples = _N_SAMPLES.get(image.mode.partition(";")[0])
    if n_samples is None:
        raise refuse_content(path, given=f"{image.mode} colors", needed="gray or RGB", remedy="save it as PNG or TIFF")
    found = describe_single_image(
        path,
        size=image.size[::-1],
        n_samples=n_samples,
        dtype=np.dtype("uint16" if image.mode.endswith(";16") else "uint8"),
        icc_profile=check_profile(image.info.get("icc_profile") or b""),
    )
    exif = (image.info.get("exif") or b"").removeprefix(b"Exif\0\0")
    return _with_upright_exif(found, exif if len(exif) <= LARGEST_EXIF_BYTES else None)


def _with_upright_exif(found: SourceDescription, exif: bytes | None) -> SourceDescription:
    """Add what a camera says, whose orientation does not hold any more: the libraries turn the image themselves."""
    fitted = None if exif is None else fit_exif(exif, height=found.height, width=found.width)
    return replace(found, metadata=replace(found.metadata, exif=fitted))


def decode_heif(file: OpenFile, path: Path) -> NDArray[Any]:
    """Return the image, shape (H, W, C)."""
    size = _check_heif_size(file, path)
    if recognize_heif(file.read(0, 64)) == "HEIC":
        samples = np.asarray(_open_heic(file, path))
    else:
        samples = imagecodecs.avif_decode(file.read(0, file.stamp()[0]))
        if samples.shape[:2] != size:
            raise refuse_damaged(path, f"its header claims {size[1]} x {size[0]} pixels, its samples are of shape {samples.shape}")
    return samples[:, :, np.newaxis] if samples.ndim == 2 else samples


def _open_heic(file: OpenFile, path: Path) -> Any:  # noqa: ANN401 - of the library
    """Return the primary image of a HEIC file, not decoded yet."""
    library = load_extra("pi_heif", path, kind="a HEIC file", extra="heic", otherwise="save the image as JPEG or TIFF")
    opened = library.open_heif(io.BytesIO(file.read(0, file.stamp()[0])), convert_hdr_to_8bit=False)
    return opened[opened.primary_index]


def _check_heif_size(file: OpenFile, path: Path) -> tuple[int, int]:
    """Return height and width of the largest image that the header claims, once memory may be taken for it."""
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
    check_claimed_size(path, height=height, width=width, decoded_bytes=decoded_bytes, stored_bytes=stored_bytes)
    return height, width


def inspect_raw(file: OpenFile, path: Path) -> SourceDescription:
    """Return the size of the developed image, without developing it, and what the camera says of the exposure."""
    content = file.read(0, file.stamp()[0])
    with _open_raw(content, path) as raw:
        sides = (int(raw.sizes.height), int(raw.sizes.width))
        height, width = sides[::-1] if raw.sizes.flip in _QUARTER_TURNS else sides
    # three samples of 16 bits
    check_claimed_size(
        path, height=height, width=width, decoded_bytes=height * width * 6, stored_bytes=len(content), max_expansion=MAX_RAW_EXPANSION
    )
    found = describe_single_image(path, size=(height, width), n_samples=3, dtype=np.dtype(np.uint16))
    # most raw files are a TIFF inside
    return _with_upright_exif(found, collect_exif(io.BytesIO(content)))


def develop_raw(file: OpenFile, path: Path) -> NDArray[Any]:
    """Return the developed image, shape (H, W, 3)."""
    with _open_raw(file.read(0, file.stamp()[0]), path) as raw:
        return np.asarray(raw.postprocess(use_camera_wb=True, no_auto_bright=True, gamma=(1, 1), output_bps=16))


def _open_raw(content: bytes, path: Path) -> Any:  # noqa: ANN401 - of the library
    rawpy = load_extra("rawpy", path, kind="a camera raw file", extra="raw", otherwise="convert the file to 16-bit TIFF")
    return rawpy.imread(io.BytesIO(content))
