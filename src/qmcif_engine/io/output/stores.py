"""Bytes and Zarr folders brought into place once they are on the disk; a folder that is none of ours is never removed."""

from __future__ import annotations

import json
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from qmcif_engine.errors import OutputError
from qmcif_engine.io.remote.remote_path import RemotePath

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qmcif_engine.io.remote.remote_path import Location

_NODE_FILES = ("zarr.json", ".zgroup", ".zarray")
_LARGEST_NODE_BYTES = 2**26


def check_replaceable(target: Path) -> None:
    """Refuse to put a Zarr folder where something lies that is not one.

    Raises
    ------
    OutputError
        With the reason and the remedy.
    """
    # lstat: replacing it would put the link aside, and not the folder it leads to
    mode = target.lstat().st_mode
    if stat.S_ISLNK(mode):
        msg = f"{str(target)!r} is a link; a Zarr folder or a new name is needed; name the folder itself or choose another one"
        raise OutputError(msg)
    if not stat.S_ISDIR(mode):
        msg = f"{str(target)!r} is a file; a Zarr folder or a new name is needed; choose another one"
        raise OutputError(msg)
    if not is_zarr_store(target):
        msg = f"{str(target)!r} is a folder without a Zarr group; what it holds would be lost; remove it yourself or choose another name"
        raise OutputError(msg)


def is_zarr_store(folder: Path) -> bool:
    """Return whether a folder is the root of a Zarr group or array, of either format."""
    for name in _NODE_FILES:
        with suppress(OSError, ValueError):
            if (folder / name).stat().st_size <= _LARGEST_NODE_BYTES:
                node = json.loads((folder / name).read_bytes())
                if isinstance(node, dict) and node.get("zarr_format") in (2, 3):
                    return True
    return False


def build_store(folder: Path, write: Callable[[Path], None]) -> None:
    """Make a folder, have it filled, and wait until all of it has reached the disk."""
    folder.mkdir()
    write(folder)
    # bottom up: a folder is waited for when the names in it are final
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            with (Path(place) / name).open("r+b") as stream:
                os.fsync(stream.fileno())
        sync_folder(Path(place))


def write_durably(contents: Mapping[Path, bytes] | Mapping[Location, bytes], *, scratch_folder: Location) -> None:
    """Write files that get their names when their bytes are on the disk, and wait until the names are there too.

    What has its name is whole, after a crash, a full disk or a loss of power too. No folder is made.

    Parameters
    ----------
    contents : mapping of Path or RemotePath to bytes
        Files that exist are replaced; objects of a bucket are whole by themselves.
    scratch_folder : Path or RemotePath
        Where they lie before, on the same file system: what a killed process leaves there is never taken for a file.
    """
    for path, content in contents.items():
        if isinstance(path, RemotePath):
            from qmcif_engine.io.remote.object_requests import write_object

            write_object(path, content)
            continue
        if not isinstance(scratch_folder, Path):
            msg = f"{str(path)!r} needs a scratch folder on its disk"
            raise TypeError(msg)
        unfinished = scratch_folder / f"{path.name}-{secrets.token_hex(8)}.unfinished"  # two workers may write one tile at a time
        try:
            with unfinished.open("xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            # in one step: readers see the old file or the new one
            unfinished.replace(path)
        except BaseException:
            with suppress(OSError):
                unfinished.unlink()
            raise
    # once for all files of a folder: each wait costs a turn of the disk
    for folder in {path.parent for path in contents if isinstance(path, Path)}:
        sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder have reached the disk, where the system can."""
    with suppress(OSError):  # some systems cannot open folders, and some file systems cannot wait
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
