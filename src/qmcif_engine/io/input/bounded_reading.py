"""Small files that describe images, read as hostile: no pipe or device is waited for, and no more is read or parsed than was agreed on."""

from __future__ import annotations

import json
import os
import stat
import sys
from typing import TYPE_CHECKING, Any

from qmcif_engine.io.limits import MOST_JSON_ITEMS
from qmcif_engine.io.remote.remote_path import RemotePath

if TYPE_CHECKING:
    from collections.abc import Callable

    from qmcif_engine.io.remote.remote_path import Location

_ITEM_MARKS = (b",", b"[", b"{")


def read_bounded(path: Location, *, largest_bytes: int) -> bytes:
    """Return the bytes of a regular file, or of one on a server.

    The kind of the file is asked of what was opened, and opening does not wait: behind a name may be a pipe that nobody writes to, or a
    link to a device that never ends.

    Raises
    ------
    OSError
        When it cannot be opened.
    ValueError
        When it is no regular file, or larger than agreed on.
    """
    if isinstance(path, RemotePath):
        from qmcif_engine.io.remote.object_requests import read_object

        return read_object(path, largest_bytes=largest_bytes).content
    msg = "it is a folder, pipe or device and no file"
    try:
        with open(path, "rb", opener=_open_without_waiting) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise ValueError(msg)
            # one more than agreed on shows that there is more
            content = stream.read(largest_bytes + 1) or b""  # nothing where a file of the system would wait
    except IsADirectoryError as error:
        raise ValueError(msg) from error
    if len(content) > largest_bytes:
        msg = f"it is larger than {largest_bytes} bytes"
        raise ValueError(msg)
    return content


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags if sys.platform == "win32" else flags | os.O_NONBLOCK)


def parse_json(text: bytes, *, parse_constant: Callable[[str], Any] | None = None) -> Any:  # noqa: ANN401 - whatever the text says
    """Return what a JSON text says, once its items are known to be few: an empty list takes two bytes here and sixty in memory.

    Raises
    ------
    ValueError
        For what is no JSON, is nested too deeply, or has too many items.
    """
    if sum(text.count(mark) for mark in _ITEM_MARKS) > MOST_JSON_ITEMS:
        msg = f"it has more than {MOST_JSON_ITEMS} items"
        raise ValueError(msg)
    try:
        return json.loads(text, parse_constant=parse_constant)
    except RecursionError as error:
        msg = "it is nested too deeply"
        raise ValueError(msg) from error
