"""Camera raw files through rawpy, which is an extra: ``pip install "napari-qmcif[raw]"``.

The image is developed the same way for every file, so that the frames of a stack stay comparable: white balance of the camera, no
automatic brightening, gamma 1 (samples proportional to light), 16 bits, sRGB primaries, upright. LibRaw, the library below, runs in a
process that can be ended: nothing of a raw file can be checked before it has opened it.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from tifffile import TiffFile, TiffFileError

from qmcif_engine.errors import ImageFileError, MissingExtraError
from qmcif_engine.io.input.guarded_reading import is_installed, read_apart
from qmcif_engine.io.input.image_file import check_claimed_size, check_regular_file, describe_single_image, translate_failures
from qmcif_engine.io.input.reading_process import ReadContent, allow
from qmcif_engine.io.limits import MAX_RAW_EXPANSION
from qmcif_engine.io.metadata.exif import collect_exif, fit_exif
from qmcif_engine.io.tiff.tag_limits import check_tags
from qmcif_engine.io.tiff.tiff_source import TIFF_SIGNATURES

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from qmcif_engine.io.input.frame_source import SourceDescription

_QUARTER_TURNS = (5, 6)
"""Codes of rawpy for images that stand on their side."""

# three samples of 16 bits
_PIXEL_BYTES = 6


def inspect_raw(path: Path) -> SourceDescription:
    """Return the size of the developed image, without developing it.

    Raises
    ------
    MissingExtraError
        Where rawpy is not installed.
    ImageFileError
        For what is no camera raw file, or a damaged one.
    """
    _check_library(path)
    return translate_failures(_inspect, path)


def read_raw(path: Path) -> NDArray[np.uint16]:
    """Return the developed image, shape (H, W, 3)."""
    _check_library(path)
    return translate_failures(_develop, path)


def _check_library(path: Path) -> None:
    if not is_installed("rawpy"):
        msg = (
            f"{str(path)!r} is a camera raw file; rawpy is needed to read it; install it with: pip install 'napari-qmcif[raw]', "
            "or convert the file to 16-bit TIFF"
        )
        raise MissingExtraError(msg)


def _inspect(path: Path) -> SourceDescription:
    check_regular_file(path)
    n_bytes = path.stat().st_size
    height, width = read_apart(measure_raw, path, n_bytes=n_bytes).values["size"]
    found = describe_single_image(path, size=(height, width), n_samples=3, dtype=np.dtype(np.uint16))
    exif = _collect_camera(path)
    # the developed image is upright, whatever the camera says of its orientation
    kept = None if exif is None else fit_exif(exif, height=height, width=width)
    return replace(found, metadata=replace(found.metadata, exif=kept))


def _develop(path: Path) -> NDArray[Any]:
    check_regular_file(path)
    return read_apart(develop_raw, path, n_bytes=path.stat().st_size).arrays[0]


def measure_raw(path: Path) -> ReadContent:
    """Return height and width of the developed image; called in the process that reads."""
    return translate_failures(lambda file: ReadContent({"size": _open(file)[1]}, []), path)


def develop_raw(path: Path) -> ReadContent:
    """Return the developed image; called in the process that reads."""
    return translate_failures(_develop_here, path)


def _develop_here(path: Path) -> ReadContent:
    raw, (height, width) = _open(path)
    with raw:
        # now that the size is known and checked, more may be used than the file alone allows
        allow(height * width * _PIXEL_BYTES + path.stat().st_size)
        return ReadContent({}, [np.asarray(raw.postprocess(use_camera_wb=True, no_auto_bright=True, gamma=(1, 1), output_bps=16))])


def _open(path: Path) -> tuple[Any, tuple[int, int]]:
    """Return a file as its library opens it, and height and width of its image, which it may have."""
    raw = import_module("rawpy").imread(str(path))
    height, width = int(raw.sizes.height), int(raw.sizes.width)
    if raw.sizes.flip in _QUARTER_TURNS:
        height, width = width, height
    stored_bytes = path.stat().st_size
    check_claimed_size(
        path,
        height=height,
        width=width,
        decoded_bytes=height * width * _PIXEL_BYTES,
        stored_bytes=stored_bytes,
        max_expansion=MAX_RAW_EXPANSION,
    )
    return raw, (height, width)


def _collect_camera(path: Path) -> bytes | None:
    """Return what the camera says of the exposure where the raw file is a TIFF inside, as most are; None for others."""
    with path.open("rb") as stream:
        start = stream.read(4)
        stream.seek(0)
        if start not in TIFF_SIGNATURES:
            return None
        try:
            check_tags(stream, path)
            stream.seek(0)
            with TiffFile(stream) as tiff:
                return collect_exif(tiff)
        except (ImageFileError, TiffFileError, ValueError, KeyError, IndexError, struct.error):
            return None  # metadata never decide whether an image can be read
