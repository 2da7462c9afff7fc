"""The process that reads files by libraries which cannot be bounded beforehand, under limits of its own.

It takes a request a line, calls the function that the request names, and answers with a line and the samples behind it. Nothing but texts,
numbers and samples comes back, so that a file that takes the process over has nothing else to send.
`qmcif_engine.io.input.guarded_reading` starts it, asks it and ends it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qmcif_engine.errors import QmcifError
from qmcif_engine.io.limits import READING_BASE_BYTES, READING_BASE_SECONDS, READING_BYTES_A_SECOND, READING_BYTES_FOR_EACH

if sys.platform != "win32":  # there the process can still be ended
    import resource

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STATUS = Path("/proc/self/statm")
_is_limited = False


class ReadContent(NamedTuple):
    """What a function that reads returns: values that JSON can hold, and samples."""

    values: dict[str, Any]
    arrays: list[NDArray[Any]]


def allow(n_bytes: int) -> None:
    """Limit what may be used from now on by what is to be read: stored or decoded bytes whose number was checked. Only in this process."""
    if not _is_limited or sys.platform == "win32":
        return
    # CPU time of the process and the system's for it: a slow disk does not count
    signal.setitimer(signal.ITIMER_PROF, READING_BASE_SECONDS + n_bytes / READING_BYTES_A_SECOND)
    if _STATUS.exists():  # elsewhere the system does not say how much is taken, and hardly keeps to the limit
        # address space, which the limit counts, with what was loaded already
        taken_bytes = int(_STATUS.read_text().split()[0]) * resource.getpagesize()
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        wanted = taken_bytes + READING_BASE_BYTES + READING_BYTES_FOR_EACH * n_bytes
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (wanted if most == resource.RLIM_INFINITY else min(wanted, most), most))


def serve() -> None:
    """Answer requests until there are no more."""
    global _is_limited  # this process has no other purpose
    _is_limited = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asked decides
    if sys.platform != "win32":
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
    # the pipe moves to another number before libraries can print into it
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a library prints is no answer
    for line in sys.stdin.buffer:
        _answer(json.loads(line), answers)


def _answer(request: dict[str, Any], answers: IO[bytes]) -> None:
    with suppress(OSError):  # a folder that is gone: then paths tell
        os.chdir(request["folder"])
    module, _, name = request["function"].partition(":")
    function = getattr(import_module(module), name)  # loading a library does not count
    path = Path(request["path"])
    allow(request["n_bytes"])
    arrays: list[NDArray[Any]] = []
    try:
        values, arrays = function(path, **request["arguments"])
        told: dict[str, Any] = {"values": values, "arrays": [(str(array.dtype), array.shape) for array in arrays]}
    except QmcifError as error:
        told = {"error": type(error).__name__, "message": str(error)}
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, 0)
    answers.write(json.dumps(told).encode() + b"\n")
    for array in arrays:
        answers.write(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
    answers.flush()


if __name__ == "__main__":
    serve()
