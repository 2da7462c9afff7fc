"""Read one image file into arrays, refusing by name whatever would be read wrongly, partly or dangerously."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from qmcif_engine.errors import ImageFileError
from qmcif_engine.io.input.file_failures import check_regular_file, translate_failures
from qmcif_engine.io.input.image_file import MAX_PIXELS, ImageFile, assemble_image
from qmcif_engine.io.png_jpeg.jpeg import JPEG_SIGNATURE, inspect_jpeg, read_jpeg
from qmcif_engine.io.png_jpeg.png import PNG_SIGNATURE, inspect_png, read_png
from qmcif_engine.io.tiff.tiff_image import TIFF_SIGNATURES, read_tiff

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from qmcif_engine.io.input.image_file import PictureHeader, StoredPicture

__all__ = ["MAX_PIXELS", "ImageFile", "inspect_image", "read_channels", "read_image"]


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
    return assemble_image(translate_failures(_decode, Path(path)))


def read_channels(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Return the picture of a file as `read_image` does, upright, but with alpha left among the channels: (H, W, 1 to 4), a view."""
    return translate_failures(_decode, Path(path)).upright


def inspect_image(path: str | os.PathLike[str]) -> PictureHeader | None:
    """Return what a PNG or JPEG file says about its picture, without decoding it; None for a TIFF file, which has pages.

    The same files are refused as by `read_image`, as far as that can be told from the header.
    """
    return translate_failures(_inspect, Path(path))


def _decode(path: Path) -> StoredPicture:
    check_regular_file(path)
    with path.open("rb") as stream:
        decode = {"PNG": read_png, "JPEG": read_jpeg, "TIFF": read_tiff}[_recognize(stream.read(8), path)]
        return decode(stream, path)


def _inspect(path: Path) -> PictureHeader | None:
    check_regular_file(path)
    with path.open("rb") as stream:
        kind = _recognize(stream.read(8), path)
        return None if kind == "TIFF" else {"PNG": inspect_png, "JPEG": inspect_jpeg}[kind](stream, path)


def _recognize(start: bytes, path: Path) -> str:
    for kind, signatures in (("PNG", PNG_SIGNATURE), ("JPEG", JPEG_SIGNATURE), ("TIFF", TIFF_SIGNATURES)):
        if start.startswith(signatures):
            return kind
    content = f"begins with {start!r}" if start else "is empty"
    msg = f"{str(path)!r} {content}; a PNG, JPEG or TIFF file is needed; convert the image to one of these"
    raise ImageFileError(msg)
