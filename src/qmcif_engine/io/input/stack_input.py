"""Inputs that hold a focus stack, opened lazily: files, folders, patterns, multi-page TIFF, Zarr, arrays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from qmcif_engine.errors import InvalidImageError
from qmcif_engine.io.input.file_order import choose_frames, is_zarr_folder, list_files
from qmcif_engine.io.input.file_stack import FileStack, Selection, check_time, choose_channels, select_frames
from qmcif_engine.io.input.frame_source import Copying, FrameSequence, FrameSource
from qmcif_engine.io.input.image_file import translate_failures
from qmcif_engine.io.input.readers import open_file
from qmcif_engine.io.input.segment_cache import DEFAULT_CACHE_BYTES, DEFAULT_MEMORY_BYTES, SegmentCache
from qmcif_engine.io.remote.remote_path import RemotePath
from qmcif_engine.stack.deciding import EACH
from qmcif_engine.stack.samples import SUPPORTED_DTYPES

StackInput: TypeAlias = "str | os.PathLike[str] | Any"
"""A path, a pattern or an address, or an array of NumPy or dask."""


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
    items = _expand(inputs)
    if len(items) == 1:
        source = open_one(items[0])
        frames = choose_frames(source.description.names, exclude=exclude, order=order)
    else:
        chosen = choose_frames([_short_name(item, number) for number, item in enumerate(items, 1)], exclude=exclude, order=order)
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
    strict_chunks: bool,
    number: int | None = None,
) -> FrameSource:
    """Open a path or an array; the latter has a number where it is one of several images. Zarr and Dask are loaded only where needed."""
    if not isinstance(item, (Path, RemotePath)):
        from qmcif_engine.io.input.array_source import open_array

        return open_array(item, name="the array" if number is None else f"image {number}", axes=axes, is_image=number is not None)
    if translate_failures(is_zarr_folder, item):
        from qmcif_engine.io.zarr.zarr_input import open_zarr

        source: FrameSource = open_zarr(item, image=image, axes=axes, cache=cache, strict_chunks=strict_chunks)
    else:
        source = open_file(item, cache=cache, image=image, axes=axes)
    # on a server every window would be a request
    if isinstance(item, RemotePath) and source.copying is Copying.NEVER:
        source.copying = Copying.WORTHWHILE
    return source


def _expand(inputs: StackInput | Sequence[StackInput]) -> list[Any]:
    """Return files in the order given, folders and patterns replaced by what they stand for; arrays stay what they are."""
    given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    items: list[Any] = []
    for item in given:
        if isinstance(item, RemotePath):
            items.append(item)
        elif isinstance(item, (str, os.PathLike)):
            items += list_files(os.fspath(item))
        else:
            items.append(item)
    if not items:
        _check_number(0)
    return items


def _short_name(item: object, number: int) -> str:
    return item.name if isinstance(item, (Path, RemotePath)) else f"image {number}"


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
