"""Image files that are read as a whole, refusing by name whatever would be read wrongly, partly or dangerously."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np

from qmcif_engine.errors import ImageFileError
from qmcif_engine.io.input.frame_source import Copying, FrameSource
from qmcif_engine.io.input.image_file import ImageFile, assemble_image, check_regular_file, refuse_damaged, translate_failures
from qmcif_engine.io.limits import MAX_PIXELS
from qmcif_engine.io.metadata.exif import turn_upright
from qmcif_engine.io.png_jpeg.jpeg import JPEG_SIGNATURE, decode_jpeg, inspect_jpeg
from qmcif_engine.io.png_jpeg.png import PNG_SIGNATURE, decode_png, inspect_png
from qmcif_engine.io.png_jpeg.png_rows import PngRows, is_read_by_rows
from qmcif_engine.io.tiff.tiff_source import TIFF_SIGNATURES, read_tiff

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qmcif_engine.io.input.frame_source import FramePosition, SourceDescription
    from qmcif_engine.stack.window import Window

__all__ = ["MAX_PIXELS", "ImageFile", "WholeFileSource", "inspect_image", "read_channels", "read_image"]


def read_image(path: str | os.PathLike[str]) -> ImageFile:
    """Read a PNG, JPEG or TIFF file at its full depth, upright, with alpha set apart.

    The kind of file is told by its content, never by its name. Files are taken as hostile: header claims are checked before memory
    is taken on their word, and a file whose end is missing is an error, not an image with a gray rest.

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
    return assemble_image(*translate_failures(_decode, Path(path)))


def read_channels(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Return the image of a file as `read_image` does, upright, but with alpha left among the channels: (H, W, 1 to 4), a view."""
    return translate_failures(_decode, Path(path))[0]


def inspect_image(path: str | os.PathLike[str]) -> SourceDescription | None:
    """Return what a PNG or JPEG file says about its image, without decoding it; None for a TIFF file, which has pages.

    The same files are refused as by `read_image`, as far as that can be told from the header.
    """
    return translate_failures(_inspect, Path(path))


def _decode(path: Path) -> tuple[NDArray[Any], int | None]:
    """Return the channels of an image, upright, shape (H, W, C), and how many bits of them are significant where the file says so."""
    check_regular_file(path)
    with path.open("rb") as stream:
        header = _inspect_stream(stream, path)
        if header is None:
            return read_tiff(stream, path)
        decoded = (decode_png if _recognize(stream, path) == "PNG" else decode_jpeg)(stream, path)
    upright = turn_upright(decoded[:, :, np.newaxis] if decoded.ndim == 2 else decoded, header.orientation)
    # what was announced before decoding must be what came out: callers have taken memory for it
    if upright.shape != header.stored_shape or upright.dtype != header.dtype:
        raise refuse_damaged(path, f"header claims {header.stored_shape} {header.dtype}, samples are {upright.shape} {upright.dtype}")
    return upright, None


def _inspect(path: Path) -> SourceDescription | None:
    check_regular_file(path)
    with path.open("rb") as stream:
        return _inspect_stream(stream, path)


def _inspect_stream(stream: BinaryIO, path: Path) -> SourceDescription | None:
    kind = _recognize(stream, path)
    return None if kind == "TIFF" else {"PNG": inspect_png, "JPEG": inspect_jpeg}[kind](stream, path)


def _recognize(stream: BinaryIO, path: Path) -> str:
    stream.seek(0)
    start = stream.read(8)
    for kind, signatures in (("PNG", PNG_SIGNATURE), ("JPEG", JPEG_SIGNATURE), ("TIFF", TIFF_SIGNATURES)):
        if start.startswith(signatures):
            return kind
    content = f"begins with {start!r}" if start else "is empty"
    msg = f"{str(path)!r} {content}; a PNG, JPEG or TIFF file is needed; convert the image to one of these"
    raise ImageFileError(msg)


class WholeFileSource(FrameSource):
    """One frame of a file that can only be decoded as a whole: PNG, JPEG, camera raw.

    Parameters
    ----------
    found : SourceDescription
        From the header of the file, which is not decoded before a window is asked for.
    decode : callable
        A module's function that takes a path and returns the image upright, shape (H, W, C).
    """

    copying = Copying.NEEDED

    def __init__(self, found: SourceDescription, decode: Callable[[Path], NDArray[Any]]) -> None:
        self._path = cast("Path", found.paths[0])  # nothing on a server is decoded as a whole
        self.description, self._decode, self._location = found, decode, self._path.absolute()
        self._is_by_rows = translate_failures(lambda path: is_read_by_rows(found, path), self._location)

    @property
    def whole_bytes(self) -> int:
        """What must be in memory at once while the image is decoded: all of it, unless it is decoded by rows."""
        return 0 if self._is_by_rows else self.description.frame_bytes

    def read(self, position: FramePosition, window: Window, channels: Sequence[int]) -> NDArray[Any]:
        """Return one window of some channels."""
        del position
        return np.ascontiguousarray(self._decode_whole()[window.slices][:, :, list(channels)])

    def decode(self, position: FramePosition) -> Any:  # noqa: ANN401 - an array, or rows as slices of them are decoded
        """Return the image, whole or to be decoded while its rows are asked for."""
        del position
        found = self.description
        return PngRows(self._path, self._location, found) if self._is_by_rows else self._decode_whole()

    def _decode_whole(self) -> NDArray[Any]:
        channels, found = self._decode(self._location), self.description
        if channels.shape != found.stored_shape or channels.dtype != found.dtype:
            raise refuse_damaged(found.paths[0], "it was changed after it was opened")
        return channels
