"""Camera raw files through rawpy, which is an extra: ``pip install "napari-qmcif[raw]"``.

The image is developed the same way for every file, so that the frames of a stack stay comparable: white balance of the camera, no
automatic brightening, gamma 1 (samples proportional to light), 16 bits, sRGB primaries, upright.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from tifffile import TiffFile, TiffFileError

from qmcif_engine.errors import ImageFileError, MissingExtraError
from qmcif_engine.io.input.image_file import check_claimed_size, check_regular_file, describe_picture, translate_failures
from qmcif_engine.io.metadata.exif import collect_exif, fit_exif
from qmcif_engine.io.tiff.tag_limits import check_tags
from qmcif_engine.io.tiff.tiff_source import TIFF_SIGNATURES

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from numpy.typing import NDArray

    from qmcif_engine.io.input.frame_source import SourceDescription

_QUARTER_TURNS = (5, 6)
"""Codes of rawpy for images that stand on their side."""


def inspect_raw(path: Path) -> SourceDescription:
    """Return the size of the developed image, without developing it.

    Raises
    ------
    MissingExtraError
        Where rawpy is not installed.
    ImageFileError
        For what is no camera raw file, or a damaged one.
    """
    rawpy = _import_rawpy(path)
    return translate_failures(lambda file: _inspect(rawpy, file), path)


def read_raw(path: Path) -> NDArray[np.uint16]:
    """Return the developed image, shape (H, W, 3)."""
    rawpy = _import_rawpy(path)
    return translate_failures(lambda file: _develop(rawpy, file), path)


def _import_rawpy(path: Path) -> ModuleType:
    try:
        return import_module("rawpy")
    except ImportError as error:
        msg = (
            f"{str(path)!r} is a camera raw file; rawpy is needed to read it; install it with: pip install 'napari-qmcif[raw]', "
            "or convert the file to 16-bit TIFF"
        )
        raise MissingExtraError(msg) from error


def _inspect(rawpy: ModuleType, path: Path) -> SourceDescription:
    check_regular_file(path)
    with rawpy.imread(str(path)) as raw:
        height, width = int(raw.sizes.height), int(raw.sizes.width)
        if raw.sizes.flip in _QUARTER_TURNS:
            height, width = width, height
    check_claimed_size(path, height=height, width=width, decoded_bytes=height * width * 6, stored_bytes=path.stat().st_size)
    found = describe_picture(path, size=(height, width), n_samples=3, dtype=np.dtype(np.uint16))
    exif = _collect_camera(path)
    # the developed image is upright, whatever the camera says of its orientation
    kept = None if exif is None else fit_exif(exif, height=height, width=width)
    return replace(found, metadata=replace(found.metadata, exif=kept))


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


def _develop(rawpy: ModuleType, path: Path) -> NDArray[Any]:
    check_regular_file(path)
    with rawpy.imread(str(path)) as raw:
        return np.asarray(raw.postprocess(use_camera_wb=True, no_auto_bright=True, gamma=(1, 1), output_bps=16))
