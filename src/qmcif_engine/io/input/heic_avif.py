"""Images of phones: AVIF through imagecodecs, HEIC through pi-heif, which is an extra: ``pip install "napari-qmcif[heic]"``.

The decoders of video below them run in a process that can be ended.
"""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import imagecodecs
import numpy as np

from qmcif_engine.errors import MissingExtraError
from qmcif_engine.io.input.guarded_reading import is_installed, read_apart
from qmcif_engine.io.input.image_file import (
    check_claimed_size,
    check_regular_file,
    describe_single_image,
    refuse_content,
    refuse_damaged,
    translate_failures,
)
from qmcif_engine.io.input.reading_process import ReadContent
from qmcif_engine.io.limits import (
    LARGEST_EXIF_BYTES,
    LARGEST_IMAGE_OVERHEAD_BYTES,
    LARGEST_PROFILE_BYTES,
    LARGEST_SMOOTH_BYTES,
    MAX_PHONE_EXPANSION,
    MAX_PIXELS,
)
from qmcif_engine.io.metadata.exif import check_profile, fit_exif

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from qmcif_engine.io.input.frame_source import SourceDescription

# sizes and properties mostly stand in front of the samples
_HEAD_BYTES = 2**20
# four samples of 16 bits
_LARGEST_PIXEL_BYTES = 8
_EXIF_PREFIX = b"Exif\0\0"
_BRANDS = {b"avif": "AVIF", b"heic": "HEIC", b"heix": "HEIC", b"heim": "HEIC", b"heis": "HEIC"}
# "image spatial extents" of ISO 23008-12: version and flags are zero, then width and height
_SIZE = re.compile(rb"ispe\0\0\0\0(.{4})(.{4})", re.DOTALL)


def recognize_heif(path: Path) -> str | None:
    """Return AVIF or HEIC for a file that is one, else None."""
    head = translate_failures(lambda file: _read_head(file)[:64], path)
    if head[4:8] != b"ftyp":
        return None
    length = min(int.from_bytes(head[:4], "big"), len(head))
    # the main brand, then those it is compatible with, behind a version of four bytes
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
    _check_library(path)
    return translate_failures(_inspect, path)


def read_heif(path: Path) -> NDArray[Any]:
    """Return the image, shape (H, W, C)."""
    _check_library(path)
    return translate_failures(lambda file: _ask(decode_heif, file).arrays[0], path)


def _ask(function: Callable[[Path], ReadContent], path: Path) -> ReadContent:
    height, width = _check_size(path)
    return read_apart(function, path, n_bytes=path.stat().st_size + _LARGEST_PIXEL_BYTES * height * width)


def _inspect(path: Path) -> SourceDescription:
    known = _ask(describe_heif, path).values
    height, width = known["size"]
    profile = base64.b64decode(known["profile"])
    found = describe_single_image(
        path,
        size=(height, width),
        n_samples=known["n_samples"],
        dtype=np.dtype(known["dtype"]),
        icc_profile=check_profile(profile) if profile else None,
    )
    exif = base64.b64decode(known["exif"]).removeprefix(_EXIF_PREFIX)
    # the decoder turns the image itself, so what the camera says of its orientation does not hold any more
    kept = fit_exif(exif, height=height, width=width) if 0 < len(exif) <= LARGEST_EXIF_BYTES else None
    return replace(found, metadata=replace(found.metadata, exif=kept))


def describe_heif(path: Path) -> ReadContent:
    """Return what is known of the image; called in the process that reads."""
    return translate_failures(_describe_avif if recognize_heif(path) == "AVIF" else _describe_heic, path)


def decode_heif(path: Path) -> ReadContent:
    """Return the image; called in the process that reads."""
    if recognize_heif(path) == "AVIF":
        return ReadContent({}, [translate_failures(_decode_avif, path)])
    return ReadContent({}, [translate_failures(lambda file: _shaped(np.asarray(_open_heic(file))), path)])


def _describe_avif(path: Path) -> ReadContent:
    samples = _decode_avif(path)
    known = {"size": samples.shape[:2], "n_samples": samples.shape[2], "dtype": str(samples.dtype), "profile": "", "exif": ""}
    return ReadContent(known, [])


def _decode_avif(path: Path) -> NDArray[Any]:
    height, width = _check_size(path)
    head = _read_head(path)
    # brand of animations, and properties that turn or mirror, which imagecodecs leaves to its caller
    if b"avis" in head[:64] or b"irot" in head or b"imir" in head:
        raise refuse_content(
            path, given="an animation, or an image that has to be turned", needed="one upright image", remedy="save it as PNG or TIFF"
        )
    samples = _shaped(imagecodecs.avif_decode(path.read_bytes()))
    if samples.shape[:2] != (height, width):
        raise refuse_damaged(path, f"its header claims {width} x {height} pixels, and {samples.shape[1]} x {samples.shape[0]} are there")
    return samples


def _describe_heic(path: Path) -> ReadContent:
    image = _open_heic(path)
    n_samples = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}.get(image.mode.partition(";")[0], 0)
    # a lower-case a marks alpha that is multiplied into the colors
    if not n_samples or "a" in image.mode:
        raise refuse_content(path, given=f"{image.mode} colors", needed="gray or RGB", remedy="save it as PNG or TIFF")
    blocks = {"profile": image.info.get("icc_profile"), "exif": image.info.get("exif")}
    texts = {name: base64.b64encode((content or b"")[:LARGEST_PROFILE_BYTES]).decode() for name, content in blocks.items()}
    known = {"size": image.size[::-1], "n_samples": n_samples, "dtype": "uint16" if image.mode.endswith(";16") else "uint8"}
    return ReadContent(known | texts, [])


def _open_heic(path: Path) -> Any:  # noqa: ANN401 - of the library
    """Return the primary image of a HEIC file, not decoded yet."""
    file = import_module("pi_heif").open_heif(path, convert_hdr_to_8bit=False)
    return file[file.primary_index]


def _check_size(path: Path) -> tuple[int, int]:
    """Return height and width of the largest image that the header claims, once memory may be taken for it."""
    head = _read_head(path)
    sizes = [(int.from_bytes(height, "big"), int.from_bytes(width, "big")) for width, height in _SIZE.findall(head)]
    if not sizes:
        raise refuse_damaged(path, "its header claims no size")
    # thumbnails and tiles claim sizes too: the largest bounds what decoding takes
    height, width = max(sizes, key=lambda size: size[0] * size[1])
    decoded_bytes, stored_bytes = _LARGEST_PIXEL_BYTES * height * width, path.stat().st_size
    is_smooth = decoded_bytes <= LARGEST_SMOOTH_BYTES
    check_claimed_size(
        path,
        height=height,
        width=width,
        decoded_bytes=decoded_bytes,
        stored_bytes=None if is_smooth else stored_bytes,
        max_pixels=MAX_PIXELS,
        max_expansion=MAX_PHONE_EXPANSION,
    )
    if stored_bytes > 2 * decoded_bytes + LARGEST_IMAGE_OVERHEAD_BYTES:
        raise refuse_damaged(path, f"{stored_bytes} bytes for {width} x {height} pixels")
    return height, width


def _read_head(path: Path) -> bytes:
    check_regular_file(path)
    with path.open("rb") as stream:
        return stream.read(_HEAD_BYTES)


def _shaped(samples: NDArray[Any]) -> NDArray[Any]:
    return samples[:, :, np.newaxis] if samples.ndim == 2 else samples


def _check_library(path: Path) -> None:
    if recognize_heif(path) == "HEIC" and not is_installed("pi_heif"):
        msg = (
            f"{str(path)!r} is a HEIC file; pi-heif is needed to read it; install it with: pip install 'napari-qmcif[heic]', "
            "or save the image as JPEG or TIFF"
        )
        raise MissingExtraError(msg)
