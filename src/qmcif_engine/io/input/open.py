"""Inputs opened lazily: image files by their first bytes, folders, patterns, Zarr folders and arrays, as one focus stack.

A further format that is decoded as a whole is one row of `_PICTURES`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.errors import ImageFileError, InvalidConfigError, InvalidImageError
from qmcif_engine.io.camera_files import decode_heif, develop_raw, inspect_heif, inspect_raw, recognize_heif
from qmcif_engine.io.input.file_order import RAW_SUFFIXES, choose_frames, choose_image, is_zarr_folder, list_files
from qmcif_engine.io.input.file_stack import FileStack, Selection, check_time, choose_channels, select_frames
from qmcif_engine.io.input.frame_source import Copying, FramePosition, FrameSequence, FrameSource, SourceDescription
from qmcif_engine.io.input.image_file import (
    ImageFile,
    assemble_image,
    check_regular_file,
    refuse_content,
    refuse_damaged,
    translate_failures,
)
from qmcif_engine.io.input.segments import DEFAULT_CACHE_BYTES, DEFAULT_MEMORY_BYTES, OpenFile, SegmentCache
from qmcif_engine.io.metadata.exif import turn_upright
from qmcif_engine.io.microscopes.microscope_source import MicroscopeSource, recognize_microscope
from qmcif_engine.io.pictures import JPEG_SIGNATURE, PNG_SIGNATURE, decode_jpeg, decode_png, inspect_jpeg, inspect_png
from qmcif_engine.io.remote_path import Location, RemotePath
from qmcif_engine.io.tiff.tiff_source import TiffSource
from qmcif_engine.stack.deciding import EACH
from qmcif_engine.stack.samples import SUPPORTED_DTYPES
from qmcif_engine.stack.window import Window

StackInput: TypeAlias = "str | os.PathLike[str] | Any"
"""A path, a pattern or an address, or an array of NumPy or dask."""

TIFF_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_HEAD_BYTES = 64


def open_stack(
    inputs: StackInput | Sequence[StackInput],
    *,
    exclude: Sequence[int | str] = (),
    order: Sequence[int] | str | None = None,
    image: int | str | None = None,
    axes: str | None = None,
    time: int = 0,
    channels: Sequence[int | str] | None = None,
    scratch_folder: str | os.PathLike[str] | None = None,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    cache_bytes: int = DEFAULT_CACHE_BYTES,
    strict_chunks: bool = False,
) -> FileStack:
    """Open a focus stack without loading any of its samples.

    Files are taken as hostile: what their headers claim is checked before memory is taken on their word, and a file whose end is
    missing is refused here, not in the middle of a run.

    Parameters
    ----------
    inputs : path-like, array, or sequence of these
        One TIFF, OME-TIFF or ImageJ file with several images, one OME-Zarr group (version 0.4 to 0.6) or Zarr array, a folder, a
        pattern such as ``shots/*.jpg``, one array of NumPy or dask; or several inputs of one image each. Folders and patterns are
        taken in natural order: image 2 before image 10. TIFF files and Zarr folders may lie on a server: ``https://``, ``http://`` or
        ``s3://``, with the extra ``remote``.
    exclude : sequence of int or str
        Frames to leave out, by number counted from 1 or by a pattern of file names.
    order : "reversed" or sequence of int, optional
        The remaining frames in the order wanted, by the number (from 1) that each had before anything was left out.
    image : int or str, optional
        Which image of an input that holds several, such as a folder of bioformats2raw: its number counted from 1, or its name.
    axes : str, optional
        One letter an axis, where the input does not say them or says them wrongly: T, C, Z, Y, X, S (samples of a pixel). Without
        it, Z is the stack; where there is no Z, the only other axis beside channels that has more than one image is.
    time : int
        Which time point, counted from 0, of an acquisition with T and Z.
    channels : sequence of int or str, optional
        Up to three channels that decide about focus, by number counted from 1 or by name; needed where there are more than three.
        One is a gray image, three are a color image; two are a color image whose third plane is zero. The stack's `companions`
        are all channels. ``"each"`` takes all channels, to be decided on one by one.
    scratch_folder : path-like, optional
        Where decoded copies go of images that cannot be read by window (PNG, JPEG, camera raw, turned or one-strip TIFF); the
        system's folder for such files where left out.
    memory_bytes : int
        Decoded copies that take no more than this together stay in memory.
    cache_bytes : int
        Decoded strips, tiles and chunks that are kept for neighboring windows take no more than this.
    strict_chunks : bool
        Refuse Zarr chunks that are not stored. Otherwise the fill value stands for them, as Zarr defines it, with a note in the log: many
        programs leave out empty chunks, but so does an interrupted copy.

    Returns
    -------
    FileStack

    Raises
    ------
    ImageFileError
        For files that cannot be read completely and faithfully.
    InvalidImageError
        For images that cannot be fused with each other.
    InvalidConfigError
        For frames, channels or axes that there are none of.
    """
    cache = SegmentCache(cache_bytes, scratch_folder=Path(scratch_folder).absolute() if scratch_folder is not None else None)
    open_one = partial(_open_one, cache=cache, image=image, axes=axes, strict_chunks=strict_chunks)
    items = _list_items(inputs)
    if len(items) == 1:
        source = open_one(items[0])
        frames = choose_frames(source.description.names, exclude=exclude, order=order)
    else:
        names = [item.name if isinstance(item, (Path, RemotePath)) else f"image {number}" for number, item in enumerate(items, 1)]
        chosen = choose_frames(names, exclude=exclude, order=order)
        # before the files are opened, which may take long
        _check_number(len(chosen))
        source = FrameSequence([open_one(items[number], number=number + 1) for number in chosen])
        frames = list(range(len(chosen)))
    _check_source(source)
    _check_number(len(frames))
    check_time(time, source.description.n_times)
    chosen_channels = choose_channels(source.description, channels)
    selection = Selection(
        frames=tuple(frames), channels=chosen_channels, time=time, memory_bytes=memory_bytes, decides_each=channels == EACH
    )
    return select_frames(source, cache, selection)


def _open_one(
    item: object,
    *,
    cache: SegmentCache,
    image: int | str | None,
    axes: str | None,
    strict_chunks: bool = False,
    number: int | None = None,
) -> FrameSource:
    """Open a path or an array; the latter has a number where it is one of several images. Zarr and Dask are loaded only where needed."""
    if not isinstance(item, (Path, RemotePath)):
        from qmcif_engine.io.input.array_source import open_array

        return open_array(item, name="the array" if number is None else f"image {number}", axes=axes, is_image=number is not None)

    def open_path(path: Location) -> FrameSource:
        if not is_zarr_folder(path):
            return _open_file(path, cache, image, axes)
        from qmcif_engine.io.zarr.zarr_source import open_zarr

        return open_zarr(path, image=image, axes=axes, cache=cache, strict_chunks=strict_chunks)

    source = translate_failures(open_path, item)
    # on a server every window would be a request
    if isinstance(item, RemotePath) and source.copying is Copying.NEVER:
        source.copying = Copying.WORTHWHILE
    return source


def _list_items(inputs: StackInput | Sequence[StackInput]) -> list[Any]:
    """Return files in the order given, folders and patterns replaced by what they stand for; arrays stay what they are."""
    items: list[Any] = []
    for item in inputs if isinstance(inputs, (list, tuple)) else [inputs]:
        items += list_files(os.fspath(item)) if isinstance(item, (str, os.PathLike)) else [item]
    return items


def _check_number(n_images: int) -> None:
    if n_images < 2:
        given = "1 image was" if n_images else "0 images were"
        msg = f"{given} given; at least 2 of one scene are needed: add the other focus positions"
        raise InvalidImageError(msg)


def _check_source(source: FrameSource) -> None:
    found = source.description
    if found.dtype.name not in SUPPORTED_DTYPES:
        msg = f"{found.names[0]} has samples of type {found.dtype}; {', '.join(SUPPORTED_DTYPES)} are supported: convert it first"
        raise InvalidImageError(msg)
    if found.n_frames == 1 and found.has_separate_channels:
        msg = (
            f"{found.names[0]} has the axes {found.axes}; at least 2 images along one axis other than C are needed: "
            "name the axes with axes='ZYX' or such, on the command line --axes ZYX"
        )
        raise InvalidImageError(msg)


class PictureFormat(NamedTuple):
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


def open_file(path: Location, *, cache: SegmentCache) -> FrameSource:
    """Open the images of one file, by its first bytes; it is opened once, and stays open with the cache.

    Raises
    ------
    ImageFileError
        For what cannot be read completely and faithfully; the message gives the remedy.
    """
    return translate_failures(lambda _: _open_file(path, cache, None, None), path)


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
