"""Files that are read by libraries which cannot be bounded beforehand: in a process of their own, which can be ended.

A file can make such a library compute for hours, take all memory, or crash. Then the process ends, and the file is refused. It is started
when the first such file is read, stays for the next, and ends with the process that started it; there is one for each.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine import errors
from qmcif_engine.errors import QmcifError
from qmcif_engine.io.input.image_file import refuse_damaged
from qmcif_engine.io.input.reading_process import ReadContent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from qmcif_engine.io.input import reading_process; reading_process.serve()"
)
# profiles and EXIF travel as text in it
_LONGEST_ANSWER_BYTES = 2**26
_LAST_SECONDS = 10.0
"""How long a process may take to end that has closed its pipe."""

if sys.platform == "win32":
    _FLAGS, _LIMIT_SIGNAL = subprocess.CREATE_NO_WINDOW, None
else:
    _FLAGS, _LIMIT_SIGNAL = 0, signal.SIGPROF


def read_apart(function: Callable[..., ReadContent], path: Path, *, n_bytes: int, **arguments: object) -> ReadContent:
    """Return what a function returns that reads a file, called in the process that can be ended.

    Parameters
    ----------
    function : callable
        Of one of our modules. Takes the path and the arguments; calls `qmcif_engine.io.input.reading_process.allow` once it knows how much
        there is to decode.
    path : Path
    n_bytes : int
        How large the file is, and what else is known to be read: it bounds time and memory.
    **arguments : JSON values

    Raises
    ------
    ImageFileError
        When the process was ended by the limits, or crashed, and as the function does.
    """
    return _readers().ask(function, path, n_bytes=n_bytes, arguments=arguments)


def is_installed(library: str) -> bool:
    """Return whether a library could be loaded, without loading it: that is for the other process."""
    try:
        return find_spec(library) is not None
    except ValueError:  # loaded by hand
        return True


class _Reader:
    """The process, and the one request at a time that it answers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, function: Callable[..., ReadContent], path: Path, *, n_bytes: int, arguments: dict[str, object]) -> ReadContent:
        request = {
            "function": f"{function.__module__}:{function.__qualname__}",
            "folder": os.getcwd(),  # noqa: PTH109 - as text
            "path": str(path),
            "n_bytes": n_bytes,
            "arguments": arguments,
        }
        with self._lock:
            process = self._started()
            try:
                # one line a request: JSON escapes line breaks
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
                told = process.stdout.readline(_LONGEST_ANSWER_BYTES)
                # without its end the line was cut off by the end of the process
                answer = _receive_answer(process, json.loads(told)) if told.endswith(b"\n") else None
            # a library that a file took over can answer anything
            except (BrokenPipeError, EOFError, ValueError, TypeError, AttributeError, KeyError, MemoryError):
                answer = None
            except BaseException:
                self.end()  # its answer would be taken for that to the next request
                raise
            if answer is None:
                raise _refuse_ended(path, self.end(patience_seconds=_LAST_SECONDS))
        if isinstance(answer, QmcifError):
            raise answer
        return answer

    def _started(self) -> Any:  # noqa: ANN401 - with its pipes, which the type of the library leaves open
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # libraries complain there about files that are refused with one line of ours
                stderr=subprocess.DEVNULL,
                creationflags=_FLAGS,
            )
        return self._process

    def end(self, *, patience_seconds: float = 0.0) -> int:
        """End the process, if it has not ended itself, and return how it ended."""
        process, self._process = self._process, None
        if process is None:
            return 0
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience_seconds)
        process.kill()
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
        return int(process.wait())


def _receive_answer(process: Any, found: dict[str, Any]) -> ReadContent | QmcifError:  # noqa: ANN401 - as above
    if "error" not in found:
        return ReadContent(found["values"], [_receive(process, *kind) for kind in found.get("arrays", [])])
    # one of our errors, by its name: the process cannot send an object
    kind = getattr(errors, found["error"])
    if not (isinstance(kind, type) and issubclass(kind, QmcifError)):
        raise TypeError
    return kind(str(found["message"]))


def _receive(process: Any, dtype: str, shape: list[int]) -> NDArray[Any]:  # noqa: ANN401 - as above
    # objects would be pointers
    if np.dtype(dtype).kind not in "uif":
        raise EOFError
    # memory is taken page by page as samples arrive, so a shape alone takes none
    samples = np.empty(shape, dtype)
    n_bytes = math.prod(shape) * samples.itemsize
    if n_bytes and process.stdout.readinto(samples.reshape(-1).view(np.uint8).data) != n_bytes:
        raise EOFError
    return samples


def _refuse_ended(path: Path, code: int) -> errors.ImageFileError:
    # killed by the signal of its own timer
    if -code == _LIMIT_SIGNAL:
        return refuse_damaged(path, "reading it took far longer than its size allows")
    return refuse_damaged(path, f"the library that reads it crashed with {code}")


_of_process: dict[int, _Reader] = {}


def _readers() -> _Reader:
    """Return the reader of this process: a forked one must not write into the pipes of another."""
    reader = _of_process.get(os.getpid())
    if reader is None:
        reader = _of_process[os.getpid()] = _Reader()
        atexit.register(reader.end)
    return reader
