"""Bring finished Zarr folders into place at once, and never remove a folder that is none."""

from __future__ import annotations

import errno
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from qmcif_engine.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Callable

_NODE_FILES = ("zarr.json", ".zgroup", ".zarray")
_LARGEST_NODE_BYTES = 2**26
_TAKEN = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})


def check_replaceable(target: Path) -> None:
    """Refuse to put a Zarr folder where something lies that is not one.

    Raises
    ------
    OutputError
        With the reason and the remedy.
    """
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
    """Tell whether a folder is the root of a Zarr group or array, of either format."""
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
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            with (Path(place) / name).open("r+b") as stream:
                os.fsync(stream.fileno())
        sync_folder(Path(place))


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder have reached the disk, where the system can."""
    with suppress(OSError):  # some systems cannot open folders, and some file systems cannot wait
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def move_store(temporary: Path, target: Path, *, retired: Path, overwrite: bool) -> None:
    """Give a finished folder its name; a Zarr folder that has it is put aside as `retired` if that is allowed.

    Raises
    ------
    FileExistsError
        When the name is taken and may not be.
    """
    if overwrite and os.path.lexists(target):
        check_replaceable(target)
        target.rename(retired)
    try:
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        temporary.rename(target)
    except OSError as error:
        if error.errno in _TAKEN:
            raise FileExistsError(*error.args) from error
        raise


def restore_store(target: Path, *, retired: Path) -> None:
    """Give the folder that was put aside its name back, if the name is free again."""
    if os.path.lexists(retired) and not os.path.lexists(target):
        retired.rename(target)
