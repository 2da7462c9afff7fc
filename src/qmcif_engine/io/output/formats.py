"""Images, maps and stacks written in any format: what each can hold, all of them or none, and never over a file that nobody offered."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from qmcif_engine.errors import InvalidImageError, OutputError
from qmcif_engine.io.limits import LARGEST_JPEG_SIDE_PX, LARGEST_PNG_SIDE_PX
from qmcif_engine.io.output.moves import Journal
from qmcif_engine.io.output.placement import check_place, place_files, ready_folder
from qmcif_engine.io.output.windowed_image import (
    ArrayImage,
    ImageContent,
    WindowedImage,
    WriteRun,
    assemble_content,
    count_blocks,
    join_contents,
)
from qmcif_engine.io.pictures import encode_jpeg, encode_png
from qmcif_engine.io.remote_path import Location, RemotePath
from qmcif_engine.io.tiff.tiff_writer import count_ome_tiff_blocks, count_tiff_blocks, write_ome_tiff, write_tiff
from qmcif_engine.io.zarr.zarr_writer import count_chunks, write_ome_zarr
from qmcif_engine.stack.image_metadata import ImageMetadata, name_planes
from qmcif_engine.stack.samples import SUPPORTED_DTYPES

_Location = TypeVar("_Location", bound="Location")

LARGEST_WHOLE_PIXELS = 2**28
"""Pixels of the largest image that is written in a format which needs it whole in memory."""

_LONGEST_SIDE_PX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFormat:
    """One format: what it can hold and how it is written.

    Attributes
    ----------
    name : str
    suffixes : tuple of str
    dtypes : tuple of str
        Names of the sample types.
    holds_alpha : bool
    largest_side_px : int
    is_store : bool
        Whether it is a folder rather than a file.
    holds_stacks : bool
        Whether images can lie along an axis in it. The others hold one image, gray or RGB, which must be in memory as a whole.
    write : callable
        Writes a content into an open file or, for a store, as a folder.
    count_blocks : callable
        Returns how many blocks that takes.
    """

    name: str
    suffixes: tuple[str, ...]
    dtypes: tuple[str, ...] = SUPPORTED_DTYPES
    holds_alpha: bool = True
    largest_side_px: int = _LONGEST_SIDE_PX
    is_store: bool = False
    holds_stacks: bool = True
    write: Callable[..., None]
    count_blocks: Callable[[ImageContent], int] = lambda content: count_blocks(content.image.shape)


_PLAIN_FORMATS = (
    OutputFormat(
        name="PNG",
        suffixes=(".png",),
        dtypes=("uint8", "uint16"),
        holds_stacks=False,
        largest_side_px=LARGEST_PNG_SIDE_PX,
        write=encode_png,
    ),
    OutputFormat(
        name="JPEG",
        suffixes=(".jpg", ".jpeg"),
        dtypes=("uint8",),
        holds_alpha=False,
        holds_stacks=False,
        largest_side_px=LARGEST_JPEG_SIDE_PX,
        write=encode_jpeg,
    ),
    OutputFormat(name="TIFF", suffixes=(".tif", ".tiff"), write=write_tiff, count_blocks=count_tiff_blocks),
)
_PYRAMID_FORMATS = (
    OutputFormat(name="OME-TIFF", suffixes=(".ome.tif", ".ome.tiff"), write=write_ome_tiff, count_blocks=count_ome_tiff_blocks),
    OutputFormat(name="OME-Zarr", suffixes=(".ome.zarr", ".zarr"), is_store=True, write=write_ome_zarr, count_blocks=count_chunks),
)


def choose_format(target: Location) -> OutputFormat:
    """Return the format that the target's suffix names; ``.ome.tif`` is another one than ``.tif``.

    Raises
    ------
    OutputError
        When it names none.
    """
    # the longer suffixes first: .ome.tif ends in .tif too
    for candidate in (*_PYRAMID_FORMATS, *_PLAIN_FORMATS):
        if target.name.lower().endswith(candidate.suffixes):
            return candidate
    known = ", ".join(suffix for candidate in (*_PLAIN_FORMATS, *_PYRAMID_FORMATS) for suffix in candidate.suffixes)
    msg = f"{str(target)!r} has the suffix {target.suffix!r}; one of {known} is needed; rename the target"
    raise OutputError(msg)


def _find_fault(chosen: OutputFormat, dtype: np.dtype[Any] | None, *, has_alpha: bool, shape: tuple[int, ...]) -> str | None:
    """Return what a format cannot hold of an image, None where it can hold all of it."""
    (height, width), channels = shape[:2], shape[2:]
    if dtype is not None and dtype.name not in chosen.dtypes:
        return f"to hold {dtype.name} samples; {chosen.name} holds {', '.join(chosen.dtypes)}"
    if has_alpha and not chosen.holds_alpha:
        return f"to hold alpha; {chosen.name} has none"
    if not chosen.holds_stacks and channels not in ((), (3,)):
        return f"to hold {channels[0]} channels; {chosen.name} holds gray or RGB"
    if max(height, width) > chosen.largest_side_px:
        return f"a side of {max(height, width)} pixels; {chosen.name} holds at most {chosen.largest_side_px}"
    if not chosen.holds_stacks and height * width > LARGEST_WHOLE_PIXELS:
        return f"{width} x {height} pixels; as {chosen.name} at most {LARGEST_WHOLE_PIXELS} are written, which must be held in memory"
    return None


def _find_remedy(dtype: np.dtype[Any] | None, *, has_alpha: bool, shape: tuple[int, ...]) -> str:
    """Return the formats that can hold the content: those everybody knows, unless the image is for a pyramid."""
    is_large = shape[0] * shape[1] > LARGEST_WHOLE_PIXELS or shape[2:] not in ((), (3,))
    candidates = _PYRAMID_FORMATS if is_large else _PLAIN_FORMATS
    able = [candidate.suffixes[0] for candidate in candidates if _find_fault(candidate, dtype, has_alpha=has_alpha, shape=shape) is None]
    return f"use {' or '.join(able)}" if able else "convert the samples to one of these"


def name_beside(target: _Location, addition: str) -> _Location:
    """Return the name of an output of the same format in the same place: ``a.ome.tif`` with ``_t2`` is ``a_t2.ome.tif``.

    Raises
    ------
    OutputError
        When the suffix of the target names no format.
    """
    name = target.name
    # .ome.zarr ends in .zarr, which is a suffix of the same format
    length = max(len(suffix) for suffix in choose_format(target).suffixes if name.lower().endswith(suffix))
    return cast("_Location", target.with_name(f"{name[:-length]}{addition}{name[-length:]}"))


def write_image(
    path: str | os.PathLike[str],
    samples: NDArray[Any],
    *,
    alpha: NDArray[Any] | None = None,
    pixel_size: tuple[float, float] | None = None,
    unit: str | None = None,
    metadata: ImageMetadata | None = None,
    provenance: Mapping[str, object] | None = None,
    has_time: bool = False,
    overwrite: bool = False,
) -> None:
    """Write one image in the format its suffix names; the file appears complete or not at all.

    The same samples always give the same bytes: neither time nor place is stored.

    Parameters
    ----------
    path : path-like
        Ends in ``.png``, ``.jpg``, ``.jpeg``, ``.tif``, ``.tiff``, ``.ome.tif``, ``.ome.tiff``, ``.ome.zarr`` or ``.zarr``.
    samples : ndarray of uint8, uint16, float32 or float64, shape (H, W) or (H, W, 3)
        PNG holds integers, JPEG only uint8, the others everything.
    alpha : ndarray of the same dtype, shape (H, W), optional
        Unassociated opacity; JPEG cannot hold it.
    pixel_size : tuple of float, optional
        Height and width of a pixel, kept as far as the format has a place for it.
    unit : str, optional
        Its unit as OME-NGFF writes it, for example ``micrometer``.
    metadata : ImageMetadata, optional
        What else the image says about itself, such as channel names or the EXIF block of a camera; channels that were recorded one by one
        may be of any number.
    provenance : mapping of str to JSON values, optional
        How the image came about, kept as far as the format has a place for it.
    has_time : bool, optional
        Whether the first axis of samples and alpha is time, for which TIFF, OME-TIFF and OME-Zarr have a place.
    overwrite : bool, optional
        Whether an existing file may be replaced.

    Raises
    ------
    InvalidImageError
        When the arrays are not an image.
    OutputError
        When the format cannot hold them or the place cannot be written.
    """
    found, target = ImageMetadata() if metadata is None else metadata, Path(path)
    found = replace(found, pixel_size=pixel_size or found.pixel_size, unit=unit or found.unit)
    if has_time and not choose_format(target).holds_stacks:
        msg = f"{str(target)!r} is to hold {len(samples)} images; {choose_format(target).name} holds one: use .tif, .ome.tif or .ome.zarr"
        raise OutputError(msg)
    points = zip(samples, samples if alpha is None else alpha, strict=True) if has_time else [(samples, alpha)]
    held = [_hold(image, None if alpha is None else opacity, has_any=found.has_separate_channels) for image, opacity in points]
    contents = [replace(content, metadata=found, provenance=provenance or {}) for content in held]
    place_contents({target: join_contents(contents, "T") if has_time else contents[0]}, overwrite=overwrite)


def write_images(images: Mapping[Path, NDArray[Any]], *, overwrite: bool = False) -> None:
    """Write each image as `write_image` does, but all of them appear or none.

    Parameters
    ----------
    images : mapping of Path to ndarray
        The samples for each file; its folder must exist.
    overwrite : bool, optional
        Whether existing files may be replaced.
    """
    place_contents({target: _hold(samples) for target, samples in images.items()}, overwrite=overwrite)


def _hold(samples: NDArray[Any], alpha: NDArray[Any] | None = None, *, has_any: bool = False) -> ImageContent:
    """Return arrays in memory as the content of a file, once they are known to be gray or RGB, or to have any number of channels."""
    is_image = samples.ndim == 2 or (samples.ndim == 3 and (has_any or samples.shape[2] == 3))
    if not is_image or samples.size == 0:
        msg = f"an array of shape {samples.shape} was to be written; (H, W) or (H, W, 3) without empty sides is needed; reshape it"
        raise InvalidImageError(msg)
    opacity = None if alpha is None else ArrayImage(alpha)
    return assemble_content(ArrayImage(samples), opacity, metadata=ImageMetadata(), provenance={})


def check_target(
    path: str | os.PathLike[str] | RemotePath,
    *,
    overwrite: bool,
    samples_dtype: DTypeLike | None = None,
    has_alpha: bool = False,
    shape: tuple[int, ...] = (1, 1),
    makes_folder: bool = False,
) -> None:
    """Refuse a target that ``write_image`` or ``place_contents`` would refuse, before any work is spent on what goes there.

    Parameters
    ----------
    path : path-like
        The file to be written.
    overwrite : bool
        Whether an existing file may be replaced.
    samples_dtype : dtype, optional
        What will be written, where already known.
    has_alpha : bool, optional
        Whether alpha will be written with it.
    shape : tuple of int, optional
        Height, width and, where there is more than one, channels without alpha, where already known.
    makes_folder : bool, optional
        See `qmcif_engine.io.output.placement.check_place`.

    Raises
    ------
    OutputError
        With a format or place that can.
    """
    target = path if isinstance(path, RemotePath) else Path(path)
    dtype, chosen = None if samples_dtype is None else np.dtype(samples_dtype), choose_format(target)
    reason = _find_fault(chosen, dtype, has_alpha=has_alpha, shape=shape)
    if reason is not None:
        msg = f"{str(target)!r} would have {reason}; {_find_remedy(dtype, has_alpha=has_alpha, shape=shape)}"
        raise OutputError(msg)
    check_place(target, overwrite=overwrite, is_store=chosen.is_store, makes_folder=makes_folder)


def place_contents(
    contents: Mapping[Path, ImageContent],
    *,
    overwrite: bool,
    scratch_folder: Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    check_cancelled: Callable[[], None] | None = None,
    n_workers: int = 0,
    folders: Iterable[Path] = (),
    built: Mapping[Path, Path] | None = None,
    journal: Journal | None = None,
) -> None:
    """Write each content to its target once all are known to fit; all of them appear complete or none.

    The same contents always give the same bytes: neither time nor place is stored. OME-TIFF, OME-Zarr and large TIFF need memory for a
    few blocks, whatever the size of the image; PNG and JPEG are held whole and refused above a limit.

    Parameters
    ----------
    contents : mapping of Path to ImageContent
    overwrite : bool
        Whether an existing file, or an existing Zarr folder, may be replaced.
    scratch_folder : Path, optional
        Where the levels of an OME-TIFF wait, up to a third of the image's bytes; the target's folder where it is left out.
    on_progress : callable, optional
        Called with the number of blocks written and the number of all, over all targets.
    check_cancelled : callable, optional
        Called before each block; ends the writing by raising, after which nothing is left behind.
    n_workers : int, optional
        Threads that read and compress; 0 does so in the calling one.
    folders : iterable of Path, optional
        Folders of targets that are made where they are missing.
    built : mapping of Path to Path, optional
        Further targets, Zarr folders, and where they lie complete already.
    journal : Journal, optional
        See `qmcif_engine.io.output.placement.place_files`.

    Raises
    ------
    OutputError
        When a format cannot hold the images or the place cannot be written (then with the system's error number).
    """
    with ExitStack() as made:
        for folder in folders:
            made.enter_context(ready_folder(folder))
        # all are checked before the first byte is written
        for target, content in contents.items():
            shape = (*content.image.shape[:2], *([content.n_colors] if content.n_colors > 1 else []))
            check_target(target, overwrite=overwrite, samples_dtype=content.image.dtype, has_alpha=content.has_alpha, shape=shape)
        for target in built or {}:
            check_place(target, overwrite=overwrite, is_store=True)
        formats = {target: choose_format(target) for target in contents}
        run = WriteRun(
            n_blocks=sum(formats[target].count_blocks(content) for target, content in contents.items()),
            # beside the first target, on a disk that is written to anyway
            scratch_folder=scratch_folder or next(iter([*contents, *(built or {})])).parent,
            on_progress=on_progress,
            check_cancelled=check_cancelled or (lambda: None),
            n_workers=n_workers,
        )
        files, stores = (
            {path: partial(formats[path].write, content=contents[path], run=run) for path in contents if formats[path].is_store == is_store}
            for is_store in (False, True)
        )
        place_files(files, overwrite=overwrite, stores=stores, built=built, journal=journal)


def describe_map(plane: WindowedImage, metadata: ImageMetadata) -> ImageMetadata:
    """Return what of the metadata of an image holds for its maps: the scale, and the channels where each has a map of its own."""
    names = name_planes(metadata.channel_names, plane.shape[2]) if len(plane.shape) == 3 else ()
    return ImageMetadata(pixel_size=metadata.pixel_size, unit=metadata.unit, dpi=metadata.dpi, channel_names=names)
