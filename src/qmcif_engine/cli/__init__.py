"""The command ``qmcif``: options in, calls of the engine, text out.

Each command has a module; the heavy imports happen inside its ``run``, so that ``qmcif --help`` answers at once.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from qmcif_engine.cli.parser import parse_command_line
from qmcif_engine.cli.terminal import interruptible, one_line
from qmcif_engine.errors import ExecutionError, OutputError, QmcifError

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_INTERRUPTED = 130
_LAST_STREAM = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed while running, 2 refused, 130 interrupted."""
    _open_closed_streams()
    _escape_unprintable()
    try:
        with interruptible():
            return _run(arguments)
    finally:
        _drop_unread()


def _run(arguments: Sequence[str] | None) -> int:
    is_debug = False
    try:
        options = parse_command_line(arguments)
        is_debug = options.debug
        options.run(options)
        # here and not at exit: a full disk or closed pipe behind standard output is an error of this run
        print(end="", flush=True)
    except KeyboardInterrupt as stop:
        _print_error(f"interrupted; {str(stop) or 'nothing was left behind'}")
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader, such as head, has seen enough
        return EXIT_FAILED
    except (QmcifError, MemoryError, OSError) as error:
        if is_debug:
            traceback.print_exc()
        _print_error(one_line(error))
        return _exit_code(error)
    return EXIT_DONE


def _print_error(message: str) -> None:
    with suppress(OSError):  # a closed stream: the exit code remains
        print(f"qmcif: {message}", file=sys.stderr)


def _open_closed_streams() -> None:
    """Put nothing in the place of streams that the caller closed: no file may get their numbers, to which libraries print."""
    # the system gives out the lowest free number: as long as it is 0 to 2, a stream was closed
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _LAST_STREAM:
        pass
    os.close(descriptor)
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115 - as above


def _escape_unprintable() -> None:
    """Allow file names to be printed that the terminal's encoding lacks: a finished run must not fail at its last line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_unread() -> None:
    """Discard output that cannot be written; otherwise Python prints an error when it closes the streams."""
    for stream in (sys.stdout, sys.stderr):
        try:
            print(end="", file=stream, flush=True)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _exit_code(error: Exception) -> int:
    """Return the code of a refused request, or of a failure while running, such as a full disk or a lost worker."""
    is_full = isinstance(error, OutputError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO)
    is_request = isinstance(error, QmcifError) and not isinstance(error, ExecutionError)
    return EXIT_REFUSED if is_request and not is_full else EXIT_FAILED
