"""Failures to read a file, each told as one error of ours, in one wording."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, TypeVar

from qmcif_engine.errors import ImageFileError, QmcifError
from qmcif_engine.io.input.image_file import refuse_damaged

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_Result = TypeVar("_Result")


def translate_failures(read: Callable[[Path], _Result], path: Path) -> _Result:
    """Return what reading a file returns, with every failure told as one of ours."""
    try:
        return read(path)
    except QmcifError:
        raise
    except MemoryError as error:
        msg = f"{str(path)!r} does not fit into memory; more memory or a smaller image is needed; crop or reduce it first"
        raise ImageFileError(msg) from error
    except OSError as error:
        msg = f"{str(path)!r} cannot be read ({error.strerror or error}); a readable image file is needed; check its name and permissions"
        raise ImageFileError(msg) from error
    except Exception as error:  # codecs fail on hostile bytes with any class there is; all of them mean the same to the reader
        raise refuse_damaged(path, f"{type(error).__name__}: {error}") from error


def check_regular_file(path: Path) -> None:
    """Refuse folders, and pipes and devices too: those may never end."""
    try:
        mode = path.stat().st_mode
    except ValueError as error:
        msg = f"{str(path)!r} is not a possible file name ({error}); the name of an image file is needed; correct it"
        raise ImageFileError(msg) from error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe, socket or device"
        msg = f"{str(path)!r} is {kind}; an image file is needed; pass a PNG, JPEG or TIFF file"
        raise ImageFileError(msg)
