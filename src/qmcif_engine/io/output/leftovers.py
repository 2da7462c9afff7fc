"""Temporary files and folders with the process that made them in their names, so that those of killed runs are found and removed."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import secrets
import shutil
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import psutil

ABANDONED_AFTER_SECONDS = 24 * 3600.0
"""What another machine made counts as left behind when nothing in it has changed for this long."""

_NAME = re.compile(r"\.?qmcif-(?P<tag>[0-9a-f]{8}-\d+-\d+)-[0-9a-z_]{8}(?:\.(?P<kind>tmp|old|moves|done))?")
"""Scratch folders have no kind and end in what `tempfile.mkdtemp` adds."""

_PROCESSES = Path("/proc")
_STATE_FIELD, _START_FIELD = 0, 19
"""Of the fields behind the name of the program in /proc/PID/stat: state, and when the process began, in ticks since the system did."""

# a zombie has ended, only its parent has not asked yet
_ENDED_STATES = ("Z", "X")
# where there is no /proc, as on macOS and Windows
_UNKNOWN_START = "0"
_TAG = re.compile(r"(?P<host>[0-9a-f]{8})-(?P<pid>[0-9]{1,10})-(?P<start>[0-9]{1,20})")


class Owner(NamedTuple):
    """A process, as names of what it makes identify it: the machine it runs on since that was started, its number, and when it began.

    Numbers are given out again, and containers count for themselves; with the two others a number means one process.
    """

    host: str
    pid: int
    start: str

    @property
    def tag(self) -> str:
        """What stands for the owner in names of files."""
        return f"{self.host}-{self.pid}-{self.start}"


def this_process() -> Owner:
    """Return who we are."""
    return _identify(os.getpid())  # asked every time: a forked child is somebody else


@functools.cache
def _identify(pid: int) -> Owner:
    fields = _read_fields(pid)
    return Owner(_identify_host(), pid, fields[_START_FIELD] if fields else _UNKNOWN_START)


def parse_tag(text: str) -> Owner | None:
    """Return the owner that a tag stands for; None where it is no tag."""
    found = _TAG.fullmatch(text)
    return None if found is None else Owner(found["host"], int(found["pid"]), found["start"])


def is_gone(owner: Owner) -> bool | None:
    """Return whether a process has ended; None where that cannot be known from here, as of one on another machine."""
    if owner.host != _identify_host():
        return None
    if not psutil.pid_exists(owner.pid):
        return True
    fields = _read_fields(owner.pid)
    # the start distinguishes our process from a later one that got its number; where it is unknown, so is the answer
    return (fields[_START_FIELD] != owner.start or fields[_STATE_FIELD] in _ENDED_STATES) if fields else None


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
    """Return what the system notes of a process behind the name of its program; nothing where it notes none."""
    try:
        # the name of the program is in parentheses and may hold spaces and parentheses itself
        fields = (_PROCESSES / str(pid) / "stat").read_bytes().decode(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
    return fields if len(fields) > _START_FIELD else []


class Kind(StrEnum):
    """What a temporary file or folder is: the end of its name."""

    UNFINISHED = "tmp"
    BACKUP = "old"
    JOURNAL = "moves"
    CLOSED_JOURNAL = "done"
    SCRATCH = "scratch"


class Leftover(NamedTuple):
    """A temporary file or folder of ours; it is abandoned where nobody is at work on it any more."""

    path: Path
    kind: Kind
    is_abandoned: bool


def name_temporary(kind: Kind = Kind.UNFINISHED) -> str:
    """Return an unused name for what becomes an output, for a backup, or for a journal of moves."""
    return f".qmcif-{this_process().tag}-{secrets.token_hex(4)}.{kind}"


def name_scratch() -> str:
    """Return how the name of a scratch folder begins."""
    return f"qmcif-{this_process().tag}-"


def is_temporary_name(name: str, kind: Kind) -> bool:
    """Return whether a name is one that `name_temporary` gives."""
    named = _NAME.fullmatch(name)
    return named is not None and named["kind"] == kind


@contextmanager
def temporary_in(folder: Path, kind: Kind = Kind.UNFINISHED) -> Iterator[Path]:
    """Offer an unused name, and remove whatever is left under it afterwards, however the block ends."""
    temporary = folder / name_temporary(kind)
    try:
        yield temporary
    finally:
        with suppress(OSError):  # never made, or already moved, or the failure to report is the one that led here
            remove(temporary)


def remove(path: Path) -> None:
    """Remove a file, a link, or a folder with all that is in it."""
    # a link to a folder is removed itself, never what it leads to
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def find_leftovers(folder: Path) -> list[Leftover]:
    """Return the temporary files and folders of ours in a folder; none where it cannot be listed."""
    found = []
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            named = _NAME.fullmatch(path.name)
            if named is not None and _is_own(path):
                found.append(Leftover(path, Kind(named["kind"] or Kind.SCRATCH), _is_abandoned(path, parse_tag(named["tag"]))))
    return found


def _is_own(path: Path) -> bool:
    """Return whether a file or folder, no link, belongs to this user: folders for such files are shared."""
    with suppress(OSError):
        status = path.lstat()
        # never follows a link that somebody put into a shared folder, and never touches what is another user's
        is_plain = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
        return is_plain and (os.name != "posix" or status.st_uid == os.getuid())
    return False


def _is_abandoned(path: Path, owner: Owner | None) -> bool:
    is_over = None if owner is None else is_gone(owner)
    # of a process on another machine only the age is known
    return is_over if is_over is not None else time.time() - _newest_change(path) > ABANDONED_AFTER_SECONDS


def _newest_change(path: Path) -> float:
    """Return when something was last written to a file, or in a folder."""
    newest = path.lstat().st_mtime
    for place, _, names in os.walk(path):
        for name in (".", *names):
            with suppress(OSError):
                newest = max(newest, (Path(place) / name).lstat().st_mtime)
    return newest
