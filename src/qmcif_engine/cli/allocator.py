"""Freed memory that stays with the process, where the process is for one command."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MOST_ARENAS = -1, -3, -8  # names of options in glibc's malloc.h
_KEPT_BYTES = 64 * 2**20
_LARGEST_KEPT_ARRAY_BYTES = 32 * 2**20  # more is refused by glibc


def keep_freed_memory() -> None:
    """Ask glibc to keep freed memory for the next array; elsewhere, do nothing.

    Arrays of several megabytes come and go with every stage of every tile. Given back and taken again, each of their pages has to be
    filled with zeros by the system, which took a tenth of the time of a run. Only for a process of our own: in a viewer the memory
    belongs to others, too.
    """
    if sys.platform != "linux":
        return
    with suppress(AttributeError, OSError):  # another C library
        set_option = ctypes.CDLL(None).mallopt
        # set by hand, neither follows the sizes that are freed any more, so both are needed
        set_option(_MMAP_THRESHOLD, _LARGEST_KEPT_ARRAY_BYTES)
        set_option(_TRIM_THRESHOLD, _KEPT_BYTES)
        # what one thread frees, another can take; few and large arrays do not wait for each other
        set_option(_MOST_ARENAS, 1)
