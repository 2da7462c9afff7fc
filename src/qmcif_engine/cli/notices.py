"""Notices on standard error of what is allowed but hardly meant."""

from __future__ import annotations

import os
import sys
from collections import Counter
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING

from qmcif_engine.compiled import CompilationListener
from qmcif_engine.errors import ImageFileError
from qmcif_engine.io.input.file_order import list_files
from qmcif_engine.io.remote.remote_path import RemotePath

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from qmcif_engine.io.remote.remote_path import Location


def tell_repeated(inputs: Iterable[Location]) -> None:
    """Report that an image was given twice: it counts as two, and takes the time of two."""
    given = _list_images(inputs)
    counts = Counter(os.path.realpath(path) for path in given)
    repeated = next((path for path in given if counts[os.path.realpath(path)] > 1), None)
    if repeated is not None:
        print(f"qmcif: {str(repeated)!r} was given more than once; each image is needed once: leave the others out", file=sys.stderr)


def tell_taken_next(inputs: Iterable[Location], outputs: Iterable[Location]) -> None:
    """Report that a result lies where the same command would take it for an image of the stack, and fuse it with the others."""
    listed = {os.path.realpath(path) for path in _list_images(inputs)}
    found = next((path for path in outputs if not isinstance(path, RemotePath) and os.path.realpath(path) in listed), None)
    if found is not None:
        print(
            f"qmcif: {str(found)!r} lies among the images, and the next run would take it for one of them: "
            f"move it, or leave it out with --exclude {found.name!r}",
            file=sys.stderr,
        )


@contextmanager
def telling_of_compilation() -> Iterator[None]:
    """Explain at a terminal, once, why the first run after an installation takes longer."""
    if not sys.stderr.isatty():
        yield
        return
    message = "qmcif: compiling, which takes up to a minute once after an installation or an update"
    # cached: said once, though many functions are compiled
    with CompilationListener(cache(lambda: print(message, file=sys.stderr))):
        yield


def _list_images(inputs: Iterable[Location]) -> list[Path]:
    """Return every file that the inputs stand for; none where some are gone by now, which is no reason to fail."""
    with suppress(ImageFileError):
        return [path for item in inputs for path in list_files(item) if not isinstance(path, RemotePath)]
    return []
