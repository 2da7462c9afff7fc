"""Offer the engine as the command ``qmcif``: parse, call, render.

Each command has a module; the heavy imports happen inside its ``run``, so that ``qmcif --help`` answers at once.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from typing import TYPE_CHECKING

from qmcif_engine.cli.parser import build_parser
from qmcif_engine.errors import OutputError, QmcifError

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed while running, 2 refused, 130 interrupted."""
    options = build_parser().parse_args(arguments)
    try:
        options.run(options)
    except KeyboardInterrupt as stop:
        print(f"qmcif: interrupted; {str(stop) or 'nothing was left behind'}", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # the reader, such as head, has seen enough; without this Python would complain once more when it closes the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except (QmcifError, MemoryError, OSError) as error:
        if options.debug:
            traceback.print_exc()
        print(f"qmcif: {_one_line(error)}", file=sys.stderr)
        return _exit_code(error)
    return EXIT_DONE


def _one_line(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "the images do not fit into memory; more memory or smaller images are needed: crop or reduce them first"
    return " ".join(str(error).split())


def _exit_code(error: Exception) -> int:
    """Tell a fault of the request from a failure while running: a full disk is nobody's wrong argument."""
    is_full = isinstance(error, OutputError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO)
    return EXIT_REFUSED if isinstance(error, QmcifError) and not is_full else EXIT_FAILED
