"""Small files that describe images, of which no more is read or parsed than is sensible."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from typing import Any

from qmcif_engine.io.limits import MOST_JSON_ITEMS
from qmcif_engine.io.remote_path import Location, RemotePath

_ITEM_MARKS = (b",", b"[", b"{")


def read_bounded(path: Location, *, largest_bytes: int) -> bytes:
    """Return the bytes of a regular file, or of one on a server.

    Raises
    ------
    OSError
        When it cannot be opened.
    ValueError
        When it is a folder, pipe or device, or too large.
    """
    if isinstance(path, RemotePath):
        from qmcif_engine.io.remote import read_object

        content = read_object(path)
    else:
        # asked before it is opened: a pipe would be waited for, and so would a file that the system makes up, which claims to be empty
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            msg = "it is a folder, pipe or device and no file"
            raise ValueError(msg)
        with path.open("rb") as stream:
            content = stream.read(min(status.st_size, largest_bytes + 1))
    if len(content) > largest_bytes:
        msg = f"it is larger than {largest_bytes} bytes"
        raise ValueError(msg)
    return content


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
