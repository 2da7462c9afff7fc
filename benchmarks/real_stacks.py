"""Real focus stacks of the folder of shared data, and where what is made of them is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import tifffile

if TYPE_CHECKING:
    from pathlib import Path


class StackPlace(NamedTuple):
    """One stack to report: its name, the folder or file it comes from, and which channel of it, if it has several."""

    name: str
    path: Path
    channel: int | None
    is_microscopy: bool


def find_stacks(data: Path) -> list[StackPlace]:
    """Return the stacks below a folder: the folders of ``stacks``, and the files of ``microscopy``, one for each channel."""
    folders = sorted(path for path in (data / "stacks").glob("*") if path.is_dir())
    places = [StackPlace(path.name, path, None, False) for path in folders]
    for path in sorted((data / "microscopy").glob("*.tif")):
        n_channels = count_channels(path)
        names = [path.stem] if n_channels == 1 else [f"{path.stem}, channel {number + 1}" for number in range(n_channels)]
        places += [StackPlace(name, path, None if n_channels == 1 else number, True) for number, name in enumerate(names)]
    return places


def count_channels(path: Path) -> int:
    with tifffile.TiffFile(path) as file:
        return file.series[0].shape[1] if len(file.series[0].shape) == 4 else 1


def find_folder(place: StackPlace, cache: Path) -> Path:
    return cache / place.name.replace(", ", "_").replace(" ", "_")
