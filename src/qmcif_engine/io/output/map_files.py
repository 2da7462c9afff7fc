"""Where maps go, and what cannot go there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from qmcif_engine.errors import OutputError
from qmcif_engine.io.output.placement import check_folder, check_place

if TYPE_CHECKING:
    from collections.abc import Iterable


def check_maps_target(
    folder: str | os.PathLike[str], names: Iterable[str], *, overwrite: bool, image: str | os.PathLike[str] | None = None
) -> None:
    """Refuse a folder that ``stream_outputs`` would refuse, before any work is spent on the maps.

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
