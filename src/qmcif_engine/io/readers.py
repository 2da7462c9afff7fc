"""Read one image file into arrays, refusing by name whatever would be read wrongly, partly or dangerously."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from qmcif_engine.errors import ImageFileError, QmcifError
from qmcif_engine.io.image_file import MAX_PIXELS, ImageFile, refuse_damaged
from qmcif_engine.io.jpeg import JPEG_SIGNATURE, read_jpeg
from qmcif_engine.io.png import PNG_SIGNATURE, read_png
from qmcif_engine.io.tiff import TIFF_SIGNATURES, read_tiff

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

__all__ = ["MAX_PIXELS", "ImageFile", "read_image"]


def read_image(path: str | os.PathLike[str]) -> ImageFile:
    """Read a PNG, JPEG or TIFF file at its full depth, upright, with alpha set apart.

    The kind of file is told by its content, never by its name. Files are taken as hostile: header claims are checked before memory
    is taken on their word, and a file whose end is missing is an error, not a picture with a gray rest.

    Parameters
    ----------
    path : path-like
        A regular file.

    Returns
    -------
    ImageFile
        Samples, alpha or None, significant bits or None.

    Raises
    ------
    ImageFileError
        For whatever cannot be read completely and faithfully; the message says what to do.
    """
    location = Path(path)
    try:
        _check_regular_file(location)
        with location.open("rb") as stream:
            return _choose_decoder(stream.read(8), location)(stream, location)
    except QmcifError:
        raise
    except MemoryError as error:
        msg = f"{str(location)!r} does not fit into memory; more memory or a smaller image is needed; crop or reduce it first"
        raise ImageFileError(msg) from error
    except OSError as error:
        msg = (
            f"{str(location)!r} cannot be read ({error.strerror or error}); a readable image file is needed; check its name and permissions"
        )
        raise ImageFileError(msg) from error
    except Exception as error:  # codecs fail on hostile bytes with any class there is; all of them mean the same to the reader
        raise refuse_damaged(location, f"{type(error).__name__}: {error}") from error


def _check_regular_file(path: Path) -> None:
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


def _choose_decoder(start: bytes, path: Path) -> Callable[[BinaryIO, Path], ImageFile]:
    if start.startswith(PNG_SIGNATURE):
        return read_png
    if start.startswith(JPEG_SIGNATURE):
        return read_jpeg
    if start.startswith(TIFF_SIGNATURES):
        return read_tiff
    content = f"begins with {start!r}" if start else "is empty"
    msg = f"{str(path)!r} {content}; a PNG, JPEG or TIFF file is needed; convert the image to one of these"
    raise ImageFileError(msg)
