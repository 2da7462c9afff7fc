"""Images, maps and stacks written in any format: all of them or none, and never over a file that nobody offered."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from qmcif_engine.errors import InvalidImageError, OutputError
from qmcif_engine.io.output.moves import Journal
from qmcif_engine.io.output.output_formats import check_content, choose_format
from qmcif_engine.io.output.placement import check_folder, check_place, place_files, ready_folder
from qmcif_engine.io.output.windowed_image import ArrayImage, ImageContent, WindowedImage, WriteRun, assemble_content, join_contents
from qmcif_engine.io.remote_path import RemotePath
from qmcif_engine.stack.image_metadata import ImageMetadata, name_planes


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
    """
    target = path if isinstance(path, RemotePath) else Path(path)
    check_content(target, dtype=None if samples_dtype is None else np.dtype(samples_dtype), has_alpha=has_alpha, shape=shape)
    check_place(target, overwrite=overwrite, is_store=choose_format(target).is_store)


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
            sum(formats[target].count_blocks(content) for target, content in contents.items()),
            # beside the first target, on a disk that is written to anyway
            scratch_folder=scratch_folder or next(iter([*contents, *(built or {})])).parent,
            on_progress=on_progress,
            check_cancelled=check_cancelled,
            n_workers=n_workers,
        )
        files, stores = (
            {
                target: partial(formats[target].write, content=contents[target], run=run)
                for target in contents
                if formats[target].is_store == is_store
            }
            for is_store in (False, True)
        )
        place_files(files, overwrite=overwrite, stores=stores, built=built, journal=journal)


def describe_map(plane: WindowedImage, metadata: ImageMetadata) -> ImageMetadata:
    """Return what of the metadata of an image holds for its maps: the scale, and the channels where each has a map of its own."""
    names = name_planes(metadata.channel_names, plane.shape[2]) if len(plane.shape) == 3 else ()
    return ImageMetadata(pixel_size=metadata.pixel_size, unit=metadata.unit, dpi=metadata.dpi, channel_names=names)


def check_maps_target(
    folder: str | os.PathLike[str], names: Iterable[str], *, overwrite: bool, image: str | os.PathLike[str] | None = None
) -> None:
    """Refuse a folder that maps cannot be written to, before any work is spent on them.

    Parameters
    ----------
    folder : path-like
        Where the maps shall go; it need not exist, its parent must.
    names : iterable of str
        Names of the maps, without suffix.
    overwrite : bool
        Whether existing maps may be replaced.
    image : path-like, optional
        Target of the image written with the maps, which may not be one of them.
    """
    place = Path(folder)
    targets = [map_path(place, name) for name in names]
    if image is not None:
        _check_no_clash(Path(image), targets)
    if place.exists() or place.is_symlink():
        check_folder(place)
        for target in targets:
            check_place(target, overwrite=overwrite)
    else:
        check_place(place, overwrite=False)


def _check_no_clash(target: Path, others: Iterable[Path]) -> None:
    """Refuse an image that is also a map, or a Zarr folder with maps inside: replacing it would take them away."""
    # realpath: two names of one place clash too
    place = Path(os.path.realpath(target))
    for other in (Path(os.path.realpath(other)) for other in others):
        if place in (other, *other.parents):
            clash = "is the name of a map too" if place == other else "would have the maps inside"
            msg = f"{str(target)!r} {clash}; a name of its own is needed for the image; choose another one"
            raise OutputError(msg)


def map_path(folder: Path, name: str) -> Path:
    """Return the file of a map, whose name must not lead out of the folder."""
    if not name.isidentifier():
        msg = f"a map was named {name!r}; letters, digits and underscores are needed; rename it"
        raise OutputError(msg)
    return folder / f"{name}.tif"
