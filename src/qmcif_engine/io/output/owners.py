"""Which process made a file or a lock, so that another one can tell whether that process is still at work."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import socket
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PROCESSES = Path("/proc")
_STATE_FIELD, _START_FIELD = 0, 19
"""Of the fields behind the name of the program in /proc/PID/stat: state, and when the process began, in ticks since the system did."""

# a zombie has ended, only its parent has not asked yet
_ENDED_STATES = ("Z", "X")
_LARGEST_STATUS_BYTES = 4096
# where there is no /proc, as on macOS and Windows
_UNKNOWN_START = "0"
_TAG = re.compile(r"(?P<host>[0-9a-f]{8})-(?P<pid>[0-9]{1,10})-(?P<start>[0-9]{1,20})")


class Owner(NamedTuple):
    """A process: the machine it runs on since that was started, its number, and when it began.

    Numbers are given out again, and containers count for themselves; with the two others a number means one process.
    """

    host: str
    pid: int
    start: str

    @property
    def tag(self) -> str:
        """What names of files say of their owner."""
        return f"{self.host}-{self.pid}-{self.start}"


def this_process() -> Owner:
    """Return who we are."""
    return _identify(os.getpid())  # asked every time: a forked child is somebody else


@functools.cache
def _identify(pid: int) -> Owner:
    fields = _read_fields(pid)
    return Owner(_identify_host(), pid, fields[_START_FIELD] if fields else _UNKNOWN_START)


def parse_tag(text: str) -> Owner | None:
    """Return the owner that a tag names; None where it is no tag."""
    found = _TAG.fullmatch(text)
    return None if found is None else Owner(found["host"], int(found["pid"]), found["start"])


def is_gone(owner: Owner) -> bool | None:
    """Return whether a process has ended; None where that cannot be known from here, as of one on another machine."""
    if owner.host != _identify_host():
        return None
    if _PROCESSES.joinpath("self", "stat").exists():
        # the start tells our process from a later one that got its number
        fields = _read_fields(owner.pid)
        return not fields or fields[_START_FIELD] != owner.start or fields[_STATE_FIELD] in _ENDED_STATES
    if os.name != "posix":  # asking by a signal would end the process
        return None
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return None
    return None  # its number may have been given out again


@functools.cache
def _identify_host() -> str:
    """Return a short name of this machine since it was started, and of the space in which process numbers mean something."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        # after a restart of the machine all processes of before are gone
        parts.append((_PROCESSES / "sys" / "kernel" / "random" / "boot_id").read_text())
    with suppress(OSError):
        # containers may share a name and a kernel, and still number their processes each for itself
        parts.append(str((_PROCESSES / "self" / "ns" / "pid").readlink()))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def _read_fields(pid: int) -> list[str]:
    """Return what the system says of a process behind the name of its program, which may hold anything; nothing where there is none."""
    with suppress(OSError):
        descriptor = os.open(_PROCESSES / str(pid) / "stat", os.O_RDONLY)
        try:
            # the name of the program is in parentheses and may hold spaces and parentheses itself
            fields = os.read(descriptor, _LARGEST_STATUS_BYTES).decode(errors="replace").rpartition(")")[2].split()
        finally:
            os.close(descriptor)
        if len(fields) > _START_FIELD:
            return fields
    return []
