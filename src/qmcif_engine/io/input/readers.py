"""Kinds of image files by their first bytes, and the reading of those that are decoded as a whole.

A further format that is decoded as a whole is one row of `_PICTURES`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.errors import ImageFileError, InvalidConfigError
from qmcif_engine.io.camera_files import decode_heif, develop_raw, inspect_heif, inspect_raw, recognize_heif
from qmcif_engine.io.input.file_order import RAW_SUFFIXES, choose_image
from qmcif_engine.io.input.frame_source import Copying, FramePosition, FrameSource, SourceDescription
from qmcif_engine.io.input.image_file import (
    ImageFile,
    assemble_image,
    check_regular_file,
    refuse_content,
    refuse_damaged,
    translate_failures,
)
from qmcif_engine.io.input.open_files import OpenFile
from qmcif_engine.io.input.segment_cache import SegmentCache
from qmcif_engine.io.metadata.exif import turn_upright
from qmcif_engine.io.microscopes.microscope_source import MicroscopeSource, recognize_microscope
from qmcif_engine.io.pictures import JPEG_SIGNATURE, PNG_SIGNATURE, decode_jpeg, decode_png, inspect_jpeg, inspect_png
from qmcif_engine.io.remote.remote_path import Location, RemotePath
from qmcif_engine.io.tiff.tiff_source import TiffSource
from qmcif_engine.stack.window import Window

TIFF_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_HEAD_BYTES = 64


@dataclass(frozen=True, slots=True)
class PictureFormat:
    """A kind of file that holds one image.

    Attributes
    ----------
    name : str
    is_kind : callable
        Returns whether a file is of this kind, from its first bytes and its suffix.
    inspect : callable
        Returns what an open file says about its image, from its header alone where that is possible.
    decode : callable
        Returns the samples of an open file as they are stored, shape (H, W) or (H, W, C).
    """

    name: str
    is_kind: Callable[[bytes, str], bool]
    inspect: Callable[[OpenFile, Path], SourceDescription]
    decode: Callable[[OpenFile, Path], NDArray[Any]]


_PICTURES = (
    # by name, before the content: most raw files begin as TIFF does
    PictureFormat("camera raw", lambda _, suffix: suffix in RAW_SUFFIXES, inspect_raw, develop_raw),
    PictureFormat("PNG or JPEG", lambda head, _: head.startswith(PNG_SIGNATURE), inspect_png, decode_png),
    PictureFormat("PNG or JPEG", lambda head, _: head.startswith(JPEG_SIGNATURE), inspect_jpeg, decode_jpeg),
    PictureFormat("AVIF or HEIC", lambda head, _: recognize_heif(head) is not None, inspect_heif, decode_heif),
)


class WholeFileSource(FrameSource):
    """One frame of a file that can only be decoded as a whole.

    Parameters
    ----------
    path : Path
    kind : PictureFormat
    cache : SegmentCache
        Keeps the file open, among the files used last.
    """

    copying = Copying.NEEDED

    def __init__(self, path: Path, kind: PictureFormat, cache: SegmentCache) -> None:
        self._path, self._location, self._cache = path, path.absolute(), cache
        self._inspect, self._decode = kind.inspect, kind.decode
        self._stamp = self._file.stamp()
        self.description = self._inspect(self._file, path)

    @property
    def _file(self) -> OpenFile:
        # no file on a server is decoded as a whole
        return cast("OpenFile", self._cache.files.open(self._location))

    def read(self, position: FramePosition, window: Window, channels: Sequence[int]) -> NDArray[Any]:
        """Return one window of some channels."""
        return np.ascontiguousarray(self.decode(position)[window.slices][:, :, list(channels)])

    def decode(self, position: FramePosition) -> NDArray[Any]:
        """Return the image, upright, shape (H, W, C)."""
        del position
        return translate_failures(self._decode_upright, self._path)

    def _decode_upright(self, path: Path) -> NDArray[Any]:
        file, found = self._file, self.description
        if file.stamp() != self._stamp:
            raise refuse_damaged(path, "it was changed after it was opened")
        stored = self._decode(file, path)
        upright = turn_upright(stored[:, :, np.newaxis] if stored.ndim == 2 else stored, found.orientation)
        # callers have taken memory for what was announced
        if upright.shape != found.stored_shape or upright.dtype != found.dtype:
            raise refuse_damaged(path, f"header claims {found.stored_shape} {found.dtype}, samples are {upright.shape} {upright.dtype}")
        return upright


def open_file(path: Location, *, cache: SegmentCache, image: int | str | None = None, axes: str | None = None) -> FrameSource:
    """Open the images of one file, by its first bytes; it is opened once, and stays open with the cache.

    Parameters
    ----------
    path : Path or RemotePath
    cache : SegmentCache
        Where decoded parts and open files are kept.
    image : int or str, optional
        Which image of a file that holds several.
    axes : str, optional
        Names of the axes where the file does not say them, or says them wrongly.

    Raises
    ------
    ImageFileError
        For what cannot be read completely and faithfully; the message says what to do.
    """
    return translate_failures(lambda _: _open_file(path, cache, image, axes), path)


def _open_file(path: Location, cache: SegmentCache, image: int | str | None, axes: str | None) -> FrameSource:
    if isinstance(path, Path):
        check_regular_file(path)
    head = cache.files.open(path.absolute()).read(0, _HEAD_BYTES)
    suffix = path.suffix.lower()
    microscope = recognize_microscope(head, path) if isinstance(path, Path) else None
    if isinstance(path, Path) and microscope is not None:
        return MicroscopeSource(path, microscope, image=image, axes=axes)
    if image is not None:
        choose_image([path.name], image, path=path)
    kind = next((kind for kind in _PICTURES if kind.is_kind(head, suffix)), None)
    if isinstance(path, Path) and kind is not None:
        if axes is not None:
            msg = f"the axes {axes!r} were named and {str(path)!r} is one {kind.name} image, of Y, X and colors: leave them out"
            raise InvalidConfigError(msg)
        return WholeFileSource(path, kind, cache)
    if not head.startswith(TIFF_SIGNATURES):
        raise _refuse_unknown(path, head)
    return TiffSource(path, cache=cache, axes=axes)


def _refuse_unknown(path: Location, head: bytes) -> ImageFileError:
    if isinstance(path, RemotePath):
        return refuse_content(
            path,
            given=f"a file that begins with {head[:8]!r}",
            needed="a TIFF file, or the folder of an OME-Zarr, where it lies on a server",
            remedy="download it and pass its name",
        )
    return ImageFileError(f"{str(path)!r} begins with {head[:8]!r}; a PNG, JPEG or TIFF file is needed; convert the image to one of these")


def read_image(path: str | os.PathLike[str]) -> ImageFile:
    """Read the image of a PNG, JPEG or TIFF file at its full depth, upright, with alpha set apart.

    The content decides of what kind a file is, not its name. What a header claims is checked before memory is taken for it, and a
    file whose end is missing is an error, not an image with a gray rest. Smaller copies of the image in the file are left out.

    Parameters
    ----------
    path : path-like
        A regular file.

    Returns
    -------
    ImageFile
        Samples, alpha or None, significant bits or None.

    Raises
    ------
    ImageFileError, InvalidImageError
        For whatever cannot be read completely and faithfully; the message says what to do.
    """
    location = Path(path)
    source = open_file(location, cache=SegmentCache())
    found = source.description
    if found.n_frames * found.n_times > 1:
        raise refuse_content(location, given="more than one image", needed="one image a file", remedy="open it as a stack with open_stack")
    if found.n_channels not in (1, 3) or found.has_separate_channels:
        raise refuse_content(
            location,
            given=f"{found.n_channels} channels",
            needed="gray or RGB, with at most one alpha channel",
            remedy="save the channels as separate gray files or mark three of them as RGB",
        )
    whole = Window(0, 0, found.height, found.width)
    samples = source.read(FramePosition(0, 0), whole, range(found.stored_shape[2]))
    return assemble_image(samples, found.metadata.significant_bits)
