"""Write images and maps completely or not at all, and never over a file that nobody offered."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from qmcif_engine.errors import OutputError
from qmcif_engine.io.output_formats import check_content, choose_format, join_channels
from qmcif_engine.io.placement import check_folder, check_place, place_files, ready_folder

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import DTypeLike, NDArray

__all__ = ["check_maps_target", "check_target", "write_image", "write_maps", "write_outputs"]


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
    target = Path(path)
    channels = join_channels(samples, alpha)
    check_content(target, dtype=channels.dtype, has_alpha=alpha is not None, longest_side_px=max(channels.shape[:2]))
    check_place(target, overwrite=overwrite)
    place_files({target: _writing(target, channels)}, overwrite=overwrite)


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
        place_files(_map_writes(place, maps), overwrite=overwrite)


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
    if maps_folder is None:
        write_image(path, samples, alpha=alpha, overwrite=overwrite)
        return
    target, folder = Path(path), Path(maps_folder)
    channels = join_channels(samples, alpha)
    check_content(target, dtype=channels.dtype, has_alpha=alpha is not None, longest_side_px=max(channels.shape[:2]))
    check_place(target, overwrite=overwrite)
    check_maps_target(folder, maps, overwrite=overwrite)
    writes = _map_writes(folder, maps)
    _check_no_clash(target, writes)
    with ready_folder(folder):
        place_files({**writes, target: _writing(target, channels)}, overwrite=overwrite)


def _check_no_clash(target: Path, others: Iterable[Path]) -> None:
    if any(target.resolve() == other.resolve() for other in others):
        msg = f"{str(target)!r} is the name of a map too; a name of its own is needed for the picture; choose another one"
        raise OutputError(msg)


def _map_writes(folder: Path, maps: Mapping[str, NDArray[Any]]) -> dict[Path, Callable[[BinaryIO], None]]:
    writes = {}
    for name, samples in maps.items():
        target = _map_path(folder, name)
        channels = join_channels(samples, None)
        check_content(target, dtype=channels.dtype, has_alpha=False, longest_side_px=max(channels.shape[:2]))
        writes[target] = _writing(target, channels)
    return writes


def check_maps_target(folder: str | os.PathLike[str], names: Iterable[str], *, overwrite: bool) -> None:
    """Refuse a folder that ``write_maps`` would refuse, before any work is spent on the maps.

    Parameters
    ----------
    folder : path-like
        Where the maps shall go; it need not exist, its parent must.
    names : iterable of str
        Names of the maps, without suffix.
    overwrite : bool
        Whether existing maps may be replaced.

    Raises
    ------
    OutputError
        With the reason and the remedy.
    """
    place = Path(folder)
    targets = [_map_path(place, name) for name in names]
    if place.exists() or place.is_symlink():
        check_folder(place)
        for target in targets:
            check_place(target, overwrite=overwrite)
    else:
        check_place(place, overwrite=False)


def _map_path(folder: Path, name: str) -> Path:
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
