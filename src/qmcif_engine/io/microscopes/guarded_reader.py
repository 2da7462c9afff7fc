"""The library of a kind of microscope files, asked in a process that can be ended: none of them can be bounded beforehand."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from qmcif_engine.io.input.frame_source import Copying
from qmcif_engine.io.input.guarded_reading import read_apart
from qmcif_engine.io.input.image_file import translate_failures
from qmcif_engine.io.input.reading_process import ReadContent, allow
from qmcif_engine.io.microscopes.microscope_image import MicroscopeImage
from qmcif_engine.stack.image_metadata import ImageMetadata
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from qmcif_engine.io.microscopes.microscope_image import MicroscopeReader

_IN_FRAME = "CYXS"


@dataclass(frozen=True, slots=True)
class GuardedReader:
    """A `MicroscopeReader` whose library runs elsewhere.

    Attributes
    ----------
    module, reader : str
        Our module and class that ask the library.
    """

    module: str
    reader: str

    def list_images(self, location: Path) -> list[str]:
        """Return a name for each image of a file."""
        names: list[str] = self._ask(location, "list_images").values["names"]
        return names

    def describe(self, location: Path, number: int) -> MicroscopeImage:
        """Return what the file says of an image."""
        known = self._ask(location, "describe", number=number).values
        metadata = ImageMetadata(**{name: _as_tuples(value) for name, value in known.pop("metadata").items()})
        dtype, copying = np.dtype(known.pop("dtype")), Copying[known.pop("copying")]
        return MicroscopeImage(shape=tuple(known.pop("shape")), dtype=dtype, metadata=metadata, copying=copying, **known)

    def read(self, location: Path, number: int, *, places: Sequence[Mapping[str, int]], rows: str, window: Window) -> list[NDArray[Any]]:
        """Return a window of several planes."""
        corners = (window.top, window.left, window.bottom, window.right)
        return self._ask(location, "read", number=number, places=[dict(place) for place in places], rows=rows, corners=corners).arrays

    def _ask(self, location: Path, question: str, **arguments: object) -> ReadContent:
        n_bytes = location.stat().st_size
        return read_apart(answer, location, n_bytes=n_bytes, module=self.module, reader=self.reader, question=question, **arguments)


def answer(location: Path, *, module: str, reader: str, question: str, **arguments: Any) -> ReadContent:  # noqa: ANN401 - what JSON holds
    """Ask the library; called in the process that reads."""
    questions: dict[str, Callable[..., ReadContent]] = {"list_images": _list_images, "describe": _describe, "read": _read}
    loaded = cast("MicroscopeReader", getattr(import_module(f"qmcif_engine.io.microscopes.{module}"), reader)())
    return translate_failures(lambda path: questions[question](loaded, path, **arguments), location)


def _list_images(reader: MicroscopeReader, location: Path) -> ReadContent:
    return ReadContent({"names": reader.list_images(location)}, [])


def _describe(reader: MicroscopeReader, location: Path, *, number: int) -> ReadContent:
    found = reader.describe(location, number)
    return ReadContent(asdict(found) | {"dtype": str(found.dtype), "copying": found.copying.name}, [])


def _read(
    reader: MicroscopeReader, location: Path, *, number: int, places: list[dict[str, int]], rows: str, corners: tuple[int, int, int, int]
) -> ReadContent:
    status = location.stat()
    # most libraries read whole frames, also for a small window
    allow(status.st_size + len(places) * _count_frame_bytes(type(reader), location, number, status.st_mtime_ns))
    return ReadContent({}, reader.read(location, number, places=places, rows=rows, window=Window(*corners)))


@lru_cache(maxsize=64)
def _count_frame_bytes(kind: type[MicroscopeReader], location: Path, number: int, changed_ns: int) -> int:
    """Return what a frame with all its channels takes; asked for every window, of which a file has many."""
    del changed_ns  # with which the file would be another one
    found = kind().describe(location, number)
    return math.prod(length for axis, length in zip(found.axes, found.shape, strict=True) if axis in _IN_FRAME) * found.dtype.itemsize


def _as_tuples(value: object) -> Any:  # noqa: ANN401 - what JSON holds
    return tuple(_as_tuples(item) for item in value) if isinstance(value, list) else value
