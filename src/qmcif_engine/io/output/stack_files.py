"""Stacks written to files of any format, completely or not at all."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from qmcif_engine.errors import OutputError
from qmcif_engine.io.output.output_formats import check_content, choose_format
from qmcif_engine.io.output.placement import check_folder, check_place, place_files, ready_folder, refusing
from qmcif_engine.io.output.streamed_output import place_contents
from qmcif_engine.io.output.windowed_image import WriteRun
from qmcif_engine.io.tiff.tiled_tiff import count_tiff_stack_blocks, write_tiff_stack
from qmcif_engine.io.zarr.ome_zarr import count_chunks, write_ome_zarr

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import numpy as np

    from qmcif_engine.io.output.windowed_image import ImageContent

FRAME_MARK = "{frame}"
"""Stands in the name of a target for the number of each image, which then gets a file of its own."""

_SMALLEST_N_DIGITS = 3
STACK_FORMATS = ("TIFF", "OME-TIFF", "OME-Zarr")


def list_stack_files(target: Path, n_images: int) -> tuple[Path, ...]:
    """Return the files that a stack is written to: the target, or one for each image where its name has the mark for one."""
    if FRAME_MARK not in target.name:
        return (target,)
    # of one length, so that names sort as the images do
    n_digits = max(_SMALLEST_N_DIGITS, len(str(n_images)))
    return tuple(target.with_name(target.name.replace(FRAME_MARK, f"{number:0{n_digits}d}")) for number in range(1, n_images + 1))


def check_stack_target(
    target: Path, n_images: int, *, dtype: np.dtype[Any], has_alpha: bool, shape: tuple[int, ...], overwrite: bool
) -> tuple[Path, ...]:
    """Return the files that will be written, once their format can hold the images and their places can be written.

    Parameters
    ----------
    target : Path
    n_images : int
    dtype : dtype
    has_alpha : bool
    shape : tuple of int
        Of an image, without alpha.
    overwrite : bool
    """
    chosen = choose_format(target)
    if FRAME_MARK not in target.name and chosen.name not in STACK_FORMATS:
        msg = (
            f"{str(target)!r} is to hold {n_images} images; {chosen.name} holds one: use .tif, .ome.tif or .ome.zarr, or give each image a "
            f"file with a name such as {target.stem}_{FRAME_MARK}{target.suffix}"
        )
        raise OutputError(msg)
    check_content(target, dtype=dtype, has_alpha=has_alpha, shape=shape)
    files = list_stack_files(target, n_images)
    with refusing(target):
        is_made_later = FRAME_MARK in target.name and not target.parent.exists()
        if is_made_later:
            # what can be known of a folder that is made later: that the one around it can be written
            check_folder(next(place for place in target.absolute().parents if place.exists()))
    for path in () if is_made_later else files:
        check_place(path, overwrite=overwrite, is_store=chosen.is_store)
    return files


def place_stack(
    target: Path,
    contents: Sequence[ImageContent],
    *,
    n_workers: int,
    overwrite: bool,
    on_progress: Callable[[int, int], None] | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> tuple[Path, ...]:
    """Write the images of a stack to the files that the target names; all of them appear or none.

    The same contents give the same bytes, whatever the number of threads.

    Parameters
    ----------
    target : Path
    contents : sequence of ImageContent
        The images, all of one kind.
    n_workers : int
        Threads that read.
    overwrite : bool
    on_progress : callable, optional
        Called with the number of blocks written and the number of all.
    check_cancelled : callable, optional
        Called before each block; ends the writing by raising, after which nothing is left behind.
    """
    files = list_stack_files(target, len(contents))
    if FRAME_MARK in target.name:
        placed = dict(zip(files, contents, strict=True))
        with ready_folder(target.parent):
            place_contents(placed, overwrite=overwrite, on_progress=on_progress, check_cancelled=check_cancelled, n_workers=n_workers)
        return files
    is_store = choose_format(target).is_store
    n_blocks = count_chunks(contents[0], n_images=len(contents)) if is_store else count_tiff_stack_blocks(contents)
    options: dict[str, Any] = {"on_progress": on_progress, "check_cancelled": check_cancelled, "n_workers": n_workers}
    run = WriteRun(n_blocks, scratch_folder=target.parent, **options)
    check_place(target, overwrite=overwrite, is_store=is_store)
    if is_store:
        images = [content.image for content in contents]
        place_files({}, stores={target: partial(write_ome_zarr, content=contents[0], images=images, run=run)}, overwrite=overwrite)
    else:
        write = partial(write_tiff_stack, contents=contents, run=run, is_ome=choose_format(target).name == "OME-TIFF")
        place_files({target: write}, overwrite=overwrite)
    return files


def place_series(
    contents: Mapping[Path, Sequence[ImageContent]], *, overwrite: bool, check_cancelled: Callable[[], None] | None = None
) -> None:
    """Write images at several time points, all of one kind, to one file for each target; all targets appear or none.

    Parameters
    ----------
    contents : mapping of Path to sequence of ImageContent
        Targets are TIFF, OME-TIFF or OME-Zarr.
    overwrite : bool
        Whether existing outputs may be replaced.
    check_cancelled : callable, optional
        As for `place_stack`.
    """
    files: dict[Path, Any] = {}
    stores: dict[Path, Any] = {}
    for target, parts in contents.items():
        chosen = choose_format(target)
        check_place(target, overwrite=overwrite, is_store=chosen.is_store)
        # blocks of a series are not counted: nobody listens
        run = WriteRun(0, scratch_folder=target.parent, check_cancelled=check_cancelled)
        if chosen.is_store:
            images = [content.image for content in parts]
            stores[target] = partial(write_ome_zarr, content=parts[0], images=images, run=run, axis="T")
        else:
            files[target] = partial(write_tiff_stack, contents=parts, run=run, is_ome=chosen.name == "OME-TIFF", axis="T")
    place_files(files, stores=stores, overwrite=overwrite)
