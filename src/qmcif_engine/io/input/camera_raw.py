"""Camera raw files through rawpy, which is an extra: ``pip install "napari-qmcif[raw]"``.

The image is developed the same way for every file, so that the frames of a stack stay comparable: white balance of the camera, no
automatic brightening, gamma 1 (samples proportional to light), 16 bits, sRGB primaries, upright.
"""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.io.input.frame_source import SourceDescription
from qmcif_engine.io.input.image_file import check_claimed_size, describe_single_image, load_extra
from qmcif_engine.io.input.segments import OpenFile
from qmcif_engine.io.limits import MAX_RAW_EXPANSION
from qmcif_engine.io.metadata.exif import collect_exif, fit_exif

_QUARTER_TURNS = (5, 6)
"""Codes of rawpy for images that stand on their side."""


def inspect_raw(file: OpenFile, path: Path) -> SourceDescription:
    """Return the size of the developed image, without developing it, and what the camera says of the exposure."""
    content = file.read(0, file.stamp()[0])
    with _open(content, path) as raw:
        height, width = int(raw.sizes.height), int(raw.sizes.width)
        if raw.sizes.flip in _QUARTER_TURNS:
            height, width = width, height
    # three samples of 16 bits
    check_claimed_size(
        path, height=height, width=width, decoded_bytes=height * width * 6, stored_bytes=len(content), max_expansion=MAX_RAW_EXPANSION
    )
    found = describe_single_image(path, size=(height, width), n_samples=3, dtype=np.dtype(np.uint16))
    # most raw files are a TIFF inside; the developed image is upright, whatever the camera says of its orientation
    exif = collect_exif(io.BytesIO(content))
    kept = None if exif is None else fit_exif(exif, height=height, width=width)
    return replace(found, metadata=replace(found.metadata, exif=kept))


def develop_raw(file: OpenFile, path: Path) -> NDArray[Any]:
    """Return the developed image, shape (H, W, 3)."""
    with _open(file.read(0, file.stamp()[0]), path) as raw:
        return np.asarray(raw.postprocess(use_camera_wb=True, no_auto_bright=True, gamma=(1, 1), output_bps=16))


def _open(content: bytes, path: Path) -> Any:  # noqa: ANN401 - of the library
    rawpy = load_extra("rawpy", path, kind="a camera raw file", extra="raw", otherwise="convert the file to 16-bit TIFF")
    return rawpy.imread(io.BytesIO(content))
