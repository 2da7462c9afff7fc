"""Write images and maps completely or not at all, and never over a file that nobody offered."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from qmcif_engine.errors import OutputError
from qmcif_engine.io.output_formats import check_content, choose_format, join_channels
from qmcif_engine.io.placement import check_folder, check_place, place_files, ready_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import DTypeLike, NDArray

__all__ = ["check_maps_target", "check_target", "map_path", "write_image", "write_images", "write_maps", "write_outputs"]


def write_image(path: str | os.PathLike[str], samples: NDArray[Any], *, alpha: NDArray[Any] | None = None, overwrite: bool = False) -> None:
    """Write one image in the format its suffix names; the file appears complete or not at all.

    The same samples always give the same bytes: neither time nor place is stored.

    Parameters
    ----------
    path : path-like
        Ends in ``.png``, ``.jpg``, ``.jpeg``, ``.tif`` or ``.tiff``.
    samples : ndarray of uint8, uint16, float32 or float64, shape (H, W) or (H, W, 3)
        PNG holds integers, JPEG only uint8, TIFF everything.
    alpha : ndarray of the same dtype, shape (H, W), optional
        Unassociated opacity; JPEG cannot hold it.
    overwrite : bool, optional
        Whether an existing file may be replaced.

    Raises
    ------
    InvalidImageError
        When the arrays are not an image.
    OutputError
        When the format cannot hold them or the place cannot be written.
    """
    _place({Path(path): join_channels(samples, alpha)}, overwrite=overwrite)


def write_images(images: Mapping[Path, NDArray[Any]], *, overwrite: bool = False) -> None:
    """Write each image as `write_image` does, but all of them appear or none.

    Parameters
    ----------
    images : mapping of Path to ndarray
        The samples for each file; its folder must exist.
    overwrite : bool, optional
        Whether existing files may be replaced.
    """
    _place({target: join_channels(samples, None) for target, samples in images.items()}, overwrite=overwrite)


def _place(images: Mapping[Path, NDArray[Any]], *, overwrite: bool) -> None:
    """Write joined channels once each is known to fit its format and its place."""
    for target, channels in images.items():
        has_alpha = channels.ndim == 3 and channels.shape[2] in (2, 4)
        check_content(target, dtype=channels.dtype, has_alpha=has_alpha, longest_side_px=max(channels.shape[:2]))
        check_place(target, overwrite=overwrite)
    place_files({target: _writing(target, channels) for target, channels in images.items()}, overwrite=overwrite)


def check_target(path: str | os.PathLike[str], *, overwrite: bool, samples_dtype: DTypeLike | None = None, has_alpha: bool = False) -> None:
    """Refuse a target that ``write_image`` would refuse, before any work is spent on what goes there.

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

    Raises
    ------
    OutputError
        With the reason and the remedy.
    """
    target = Path(path)
    check_content(target, dtype=None if samples_dtype is None else np.dtype(samples_dtype), has_alpha=has_alpha)
    check_place(target, overwrite=overwrite)


def write_maps(folder: str | os.PathLike[str], maps: Mapping[str, NDArray[Any]], *, overwrite: bool = False) -> None:
    """Write each map to ``<folder>/<name>.tif``; all of them appear or none.

    Parameters
    ----------
    folder : path-like
        Made if it is missing; its parent must exist.
    maps : mapping of str to ndarray, shape (H, W) or (H, W, 3)
        Any type TIFF holds.
    overwrite : bool, optional
        Whether existing maps may be replaced.

    Raises
    ------
    InvalidImageError
        When an array is not an image.
    OutputError
        When TIFF cannot hold one or the place cannot be written.
    """
    place = Path(folder)
    check_maps_target(place, maps, overwrite=overwrite)
    with ready_folder(place):
        write_images({map_path(place, name): samples for name, samples in maps.items()}, overwrite=overwrite)


def write_outputs(
    path: str | os.PathLike[str],
    samples: NDArray[Any],
    *,
    alpha: NDArray[Any] | None,
    maps_folder: str | os.PathLike[str] | None,
    maps: Mapping[str, NDArray[Any]],
    overwrite: bool,
) -> None:
    """Write an image as `write_image` and its maps as `write_maps` does, but all of them appear or none.

    Parameters
    ----------
    path : path-like
        Target of the image.
    samples, alpha : ndarray
        As for `write_image`.
    maps_folder : path-like or None
        Folder of the maps; None writes none.
    maps : mapping of str to ndarray
        As for `write_maps`.
    overwrite : bool
        Whether existing files may be replaced.
    """
    picture = {Path(path): join_channels(samples, alpha)}
    if maps_folder is None:
        _place(picture, overwrite=overwrite)
        return
    folder = Path(maps_folder)
    check_maps_target(folder, maps, overwrite=overwrite, picture=path)
    planes = {map_path(folder, name): join_channels(plane, None) for name, plane in maps.items()}
    with ready_folder(folder):
        _place(planes | picture, overwrite=overwrite)


def check_maps_target(
    folder: str | os.PathLike[str], names: Iterable[str], *, overwrite: bool, picture: str | os.PathLike[str] | None = None
) -> None:
    """Refuse a folder that ``write_maps`` would refuse, before any work is spent on the maps.

    Parameters
    ----------
    folder : path-like
        Where the maps shall go; it need not exist, its parent must.
    names : iterable of str
        Names of the maps, without suffix.
    overwrite : bool
        Whether existing maps may be replaced.
    picture : path-like, optional
        Target of the picture written with the maps, which may not be one of them.

    Raises
    ------
    OutputError
        With the reason and the remedy.
    """
    place = Path(folder)
    targets = [map_path(place, name) for name in names]
    if picture is not None:
        _check_no_clash(Path(picture), targets)
    if place.exists() or place.is_symlink():
        check_folder(place)
        for target in targets:
            check_place(target, overwrite=overwrite)
    else:
        check_place(place, overwrite=False)


def _check_no_clash(target: Path, others: Iterable[Path]) -> None:
    if any(os.path.realpath(target) == os.path.realpath(other) for other in others):
        msg = f"{str(target)!r} is the name of a map too; a name of its own is needed for the picture; choose another one"
        raise OutputError(msg)


def map_path(folder: Path, name: str) -> Path:
    """Return the file of a map, whose name must not lead out of the folder."""
    if not name.isidentifier():
        msg = f"a map was named {name!r}; letters, digits and underscores are needed; rename it"
        raise OutputError(msg)
    return folder / f"{name}.tif"


def _writing(target: Path, channels: NDArray[Any]) -> Callable[[BinaryIO], None]:
    write = choose_format(target).write

    def write_channels(stream: BinaryIO) -> None:
        write(stream, channels)

    return write_channels
