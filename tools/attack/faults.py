"""Faults at file calls: a process counts its calls that change files below a folder, and dies or meets a disk error at one of them.

Python tells of nearly every such call by an audit event, of whatever library it comes from; waiting for the disk is added here.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
PLACES = {"os.rename": 2, "os.link": 2, "os.remove": 1, "os.mkdir": 1, "os.rmdir": 1, "os.utime": 1, "os.symlink": 2}
"""Events that change names, and how many paths each begins with."""


class Fault(StrEnum):
    """What happens at the call."""

    COUNT = "count"
    KILL = "kill"
    TEAR = "tear"
    ERROR = "error"
    LASTING_ERROR = "lasting error"


class Faults:
    """File calls below some folders, numbered from 0, with a fault at one of them.

    Parameters
    ----------
    folders : list of Path
    fault : Fault
        A torn file is cut to half before the process dies while waiting for the disk; at other calls that is a kill.
    at_call : int
    number : int
        Of the system's error.
    """

    def __init__(self, folders: list[Path], fault: Fault, *, at_call: int = -1, number: int = 0) -> None:
        self._folders = [str(folder) for folder in folders]
        self._fault, self._at_call, self._number = fault, at_call, number
        self._is_waiting = False
        self.n_calls = 0

    def install(self) -> None:
        """Begin to count, in this process and for good."""
        sys.addaudithook(self._hear)
        for name in ("fsync", "fdatasync"):
            setattr(os, name, self._waiting(getattr(os, name)))

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & WRITING and self._is_ours(path):
                self._strike(None)
        elif event in PLACES:
            is_in_open_folder = event in ("os.remove", "os.rmdir") and arguments[1] >= 0  # as while a tree is removed
            if is_in_open_folder or any(self._is_ours(path) for path in arguments[: PLACES[event]]):
                self._strike(None)

    def _waiting(self, ordinary: Callable[[int], None]) -> Callable[[int], None]:
        def wait(descriptor: int) -> None:
            self._strike(descriptor)
            ordinary(descriptor)

        return wait

    def _is_ours(self, path: object) -> bool:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return False
        place = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - paths would be opened and heard of again
        return any(place.startswith(folder) for folder in self._folders)

    def _strike(self, descriptor: int | None) -> None:
        call, self.n_calls = self.n_calls, self.n_calls + 1
        is_due = call >= self._at_call if self._fault is Fault.LASTING_ERROR else call == self._at_call
        if not is_due or self._fault is Fault.COUNT:
            return
        if self._fault in (Fault.ERROR, Fault.LASTING_ERROR):
            raise OSError(self._number, os.strerror(self._number))
        if self._fault is Fault.TEAR and descriptor is not None:
            self._fault = Fault.COUNT  # cutting is no call of the program
            n_bytes = os.fstat(descriptor).st_size
            with suppress(OSError):  # a folder, or a file that is only read
                os.ftruncate(descriptor, n_bytes // 2)
        os.kill(os.getpid(), signal.SIGKILL)
