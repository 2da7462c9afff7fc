"""Output of images of any size, in any format, completely or not at all."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qmcif_engine.io.output.map_files import check_maps_target, map_path
from qmcif_engine.io.output.output_formats import check_content, choose_format
from qmcif_engine.io.output.placement import check_place, place_files, ready_folder
from qmcif_engine.io.output.windowed_image import WriteRun, assemble_content
from qmcif_engine.stack.image_metadata import ImageMetadata, name_planes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qmcif_engine.io.output.moves import Journal
    from qmcif_engine.io.output.windowed_image import ImageContent, WindowedImage
    from qmcif_engine.io.remote.remote_path import Location


def stream_outputs(
    target: Location,
    image: WindowedImage | None,
    *,
    alpha: WindowedImage | None,
    metadata: ImageMetadata,
    provenance: Mapping[str, object],
    maps_folder: Path | None,
    maps: Mapping[str, WindowedImage],
    overwrite: bool,
    scratch_folder: Path | None,
    further: Mapping[Path, ImageContent] | None = None,
    built: Path | None = None,
    journal: Journal | None = None,
    n_workers: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> None:
    """Write an image from windows, in the format its suffix names, and its maps as TIFF; all of them appear complete or none at all.

    The same image, metadata and provenance always give the same bytes: neither time nor place is stored. OME-TIFF, OME-Zarr and
    large TIFF need memory for a few blocks, whatever the size of the image; PNG and JPEG are held whole and refused above a limit.

    Parameters
    ----------
    target : Path
        Ends in ``.ome.tif``, ``.ome.tiff``, ``.ome.zarr``, ``.zarr``, ``.tif``, ``.tiff``, ``.png``, ``.jpg`` or ``.jpeg``.
    image : WindowedImage or None
        Gray (H, W), RGB (H, W, 3) or, for all but PNG and JPEG, other channels (H, W, C); None where it is built already.
    alpha : WindowedImage or None
        Unassociated opacity, shape (H, W).
    metadata : ImageMetadata
        As far as the format has a place for it.
    provenance : mapping of str to JSON values
        What the image was made of and how: version, settings, names of inputs, ``identity``. No times and no paths.
    maps_folder : Path or None
        Folder of the maps, made if it is missing; None writes none.
    maps : mapping of str to WindowedImage
        Written to ``<maps_folder>/<name>.tif`` with the image's size of a pixel and its provenance; a map of several channels has a
        page for each of those that the image names.
    overwrite : bool
        Whether an existing file, or an existing Zarr folder, may be replaced.
    scratch_folder : Path or None
        Where the levels of an OME-TIFF wait, up to a third of the image's bytes; None takes the target's folder.
    further : mapping of Path to ImageContent, optional
        What else is written with them, such as heights.
    built : Path, optional
        Where the target, a Zarr folder, lies complete already: it is moved.
    journal : Journal, optional
        See `qmcif_engine.io.output.placement.place_files`.
    n_workers : int, optional
        Threads that read and compress; 0 does so in the calling one.
    on_progress : callable, optional
        Called with the number of blocks written and the number of all, over all files.
    check_cancelled : callable, optional
        Called before each block; ends the writing by raising, after which nothing is left behind.

    Raises
    ------
    InvalidImageError
        When the images are none.
    OutputError
        When the format cannot hold them or the place cannot be written (then with the system's error number).
    """
    contents = dict(further or {})
    if image is not None and isinstance(target, Path):  # on a server it is built already
        contents[target] = assemble_content(image, alpha, metadata=metadata, provenance=provenance)
    options: dict[str, Any] = {"scratch_folder": scratch_folder, "on_progress": on_progress, "check_cancelled": check_cancelled}
    options |= {"overwrite": overwrite, "journal": journal, "built": {} if built is None else {target: built}}
    options["n_workers"] = n_workers
    if maps_folder is None:
        place_contents(contents, **options)
        return
    check_maps_target(maps_folder, maps, overwrite=overwrite, image=target if isinstance(target, Path) else None)
    planes = {
        map_path(maps_folder, name): assemble_content(plane, None, metadata=describe_map(plane, metadata), provenance=provenance)
        for name, plane in maps.items()
    }
    with ready_folder(maps_folder):
        place_contents(planes | contents, **options)


def describe_map(plane: WindowedImage, metadata: ImageMetadata) -> ImageMetadata:
    """Return what of the metadata of an image holds for its maps: the scale, and the channels where each has a map of its own."""
    names = name_planes(metadata.channel_names, plane.shape[2]) if len(plane.shape) == 3 else ()
    return ImageMetadata(pixel_size=metadata.pixel_size, unit=metadata.unit, dpi=metadata.dpi, channel_names=names)


def place_contents(
    contents: Mapping[Path, ImageContent],
    *,
    overwrite: bool,
    scratch_folder: Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    check_cancelled: Callable[[], None] | None = None,
    n_workers: int = 0,
    built: Mapping[Path, Path] | None = None,
    journal: Journal | None = None,
) -> None:
    """Write each content to its target once all are known to fit; all of them appear or none.

    Parameters
    ----------
    contents : mapping of Path to ImageContent
    overwrite, scratch_folder, on_progress, check_cancelled
        As for `stream_outputs`; progress is counted over all targets.
    n_workers : int, optional
        Threads that read and compress; 0 does so in the calling one.
    built : mapping of Path to Path, optional
        Further targets, Zarr folders, and where they lie complete already.
    journal : Journal, optional
        See `qmcif_engine.io.output.placement.place_files`.
    """
    # all are checked before the first byte is written
    for target, content in contents.items():
        shape = (*content.image.shape[:2], *([content.n_colors] if content.n_colors > 1 else []))
        check_content(target, dtype=content.image.dtype, has_alpha=content.has_alpha, shape=shape)
        check_place(target, overwrite=overwrite, is_store=choose_format(target).is_store)
    for target in built or {}:
        check_place(target, overwrite=overwrite, is_store=True)
    n_blocks = sum(choose_format(target).count_blocks(content) for target, content in contents.items())
    run = WriteRun(
        n_blocks,
        # beside the first target, on a disk that is written to anyway
        scratch_folder=scratch_folder or next(iter([*contents, *(built or {})])).parent,
        on_progress=on_progress,
        check_cancelled=check_cancelled,
        n_workers=n_workers,
    )
    files, stores = (
        {
            target: partial(choose_format(target).write, content=content, run=run)
            for target, content in contents.items()
            if choose_format(target).is_store == is_store
        }
        for is_store in (False, True)
    )
    place_files(files, overwrite=overwrite, stores=stores, built=built, journal=journal)
