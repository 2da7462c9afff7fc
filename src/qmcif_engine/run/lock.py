"""A lock on a folder that several machines may see, held by one run at a time.

The lock is a file that names its holder. A run on this machine that was killed is known by its process number. One elsewhere is known by
its signs of life: the holder touches the file while it computes, and one that has not done so for long counts as ended. Ages are measured
by the clock of the storage, so that clocks of machines need not agree.
"""

from __future__ import annotations

import json
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from qmcif_engine.errors import ExecutionError, OutputError
from qmcif_engine.io.output.leftovers import Owner, is_gone, parse_tag, this_process

BEAT_SECONDS = 10.0
"""How often a run gives a sign of life."""

ENDED_AFTER_SECONDS = 600.0
"""A run of another machine counts as ended when its last sign of life is older than this."""

_LARGEST_LOCK_BYTES = 2**12
_held: set[str] = set()
"""Sessions of this process: what it released is free, even where the file could not be removed."""


class Holder(NamedTuple):
    """Who holds a lock: the session of a run, its process, the name of its machine, and since when."""

    session: str
    owner: Owner | None
    machine: str
    since: str


class RunLock:
    """A lock that one run holds while it uses a folder.

    Parameters
    ----------
    path : Path
        The file.
    clock : callable
        Tells seconds; decides when the next sign of life is due.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.path, self._clock = path, clock
        self.session = secrets.token_hex(8)
        self._next_beat = 0.0

    def describe(self) -> bytes:
        """Return what the file says, and count the lock as held."""
        since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        holder = Holder(self.session, this_process(), socket.gethostname(), since)
        _held.add(self.session)
        self._next_beat = self._clock() + BEAT_SECONDS
        # the machine's name is for people, the tag of the owner for other runs
        return json.dumps({**holder._asdict(), "owner": this_process().tag}).encode()

    def acquire(self) -> None:
        """Take the lock, also after a run that ended without letting go.

        Raises
        ------
        OutputError
            When another run is going on, saying which and since when.
        """
        known = read_holder(self.path)
        if known is not None:
            check_ended(self.path, known)
            self._put_aside(known)
        try:
            # exclusive: of two runs that get here at once, one makes the file and the other is refused
            with self.path.open("xb") as stream:
                stream.write(self.describe())
        except FileExistsError:
            raise _running(self.path, read_holder(self.path), 0.0) from None

    def _put_aside(self, known: Holder) -> None:
        """Take a dead run's file away; where another run did so first and holds the lock, that one gets its file back."""
        aside = self.path.with_name(f"{self.path.name}-{self.session}.ended")
        with suppress(FileNotFoundError):
            # renamed, not deleted: what it says is read again where nobody else can exchange it
            self.path.rename(aside)
            found = read_holder(aside)
            if found != known:
                aside.rename(self.path)
                raise _running(self.path, found, 0.0)
            aside.unlink()

    def heartbeat(self) -> None:
        """Give a sign of life, if one is due.

        Raises
        ------
        ExecutionError
            When the folder is gone, or another run holds the lock by now.
        """
        if self._clock() >= self._next_beat:
            self.check()
            self._next_beat = self._clock() + BEAT_SECONDS

    def check(self) -> None:
        """Give a sign of life, once it is known that the lock is still held; raises as `heartbeat` does."""
        holder = read_holder(self.path)
        # a run that slept for longer than ENDED_AFTER_SECONDS, as in a suspended machine, may have been taken for dead
        if holder is None or not self.is_held():
            state = "was removed" if holder is None else f"was taken over by process {_name(holder)}, since {holder.since}"
            msg = (
                f"the folder {str(self.path.parent)!r} {state} while this run was using it; it is needed until the run has ended: "
                "start the run again with --resume"
            )
            raise ExecutionError(msg)
        with suppress(OSError):  # a disk may be full for a moment; the run will meet it where it matters
            self.path.touch()

    def is_held(self) -> bool:
        """Return whether the file is there and names this session."""
        holder = read_holder(self.path)
        return holder is not None and holder.session == self.session

    def release(self) -> None:
        """Release the lock."""
        _held.discard(self.session)
        with suppress(OSError):  # it is known to be free all the same
            if self.is_held():
                self.path.unlink()

    def forget(self) -> None:
        """Give up a lock whose file went with its folder."""
        _held.discard(self.session)


def read_holder(path: Path) -> Holder | None:
    """Return who holds a lock; None where nobody does. What cannot be read is held by an unknown run."""
    try:
        with path.open("rb") as stream:
            # bounded: anything may lie under this name
            content = json.loads(stream.read(_LARGEST_LOCK_BYTES))
        return Holder(str(content["session"]), parse_tag(str(content["owner"])), str(content["machine"]), str(content["since"]))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError):
        # a file that is just being written, or damaged: it holds until its age shows that nobody is at work
        return Holder("", None, "", "")


def check_ended(path: Path, holder: Holder) -> None:
    """Refuse to go on while the holder of a lock is at work.

    Raises
    ------
    OutputError
        Saying which run it is and since when.
    """
    is_over = None if holder.owner is None else is_gone(holder.owner)
    if holder.owner == this_process():
        # this very process is alive, which says nothing: one of its earlier runs may have left the file
        is_over = holder.session not in _held
    # None means another machine, or one that cannot be asked: only the age decides then
    age_seconds = _measure_age(path)
    if is_over is False or (is_over is None and age_seconds <= ENDED_AFTER_SECONDS):
        raise _running(path, holder, age_seconds)


def _measure_age(path: Path) -> float:
    """Return how long ago the file was touched, by the clock of its storage; nothing where it is gone by now."""
    probe = path.with_name(f"{secrets.token_hex(8)}.probe")
    try:
        probe.touch()
        # both times were set by the storage, so that the clock of this machine does not matter
        return probe.stat().st_mtime - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
    finally:
        probe.unlink(missing_ok=True)


def _running(path: Path, holder: Holder | None, age_seconds: float) -> OutputError:
    who = "" if holder is None or not holder.machine else f": process {_name(holder)}, since {holder.since}"
    return OutputError(
        f"a run is going on in {str(path.parent)!r}{who}, with a sign of life {max(age_seconds, 0.0):.0f} s ago; one run at a time can use "
        f"it: wait for it to end, end it, or choose another name (one that was killed on another machine counts as ended after "
        f"{ENDED_AFTER_SECONDS:.0f} s)"
    )


def _name(holder: Holder) -> str:
    return f"{'unknown' if holder.owner is None else holder.owner.pid} on {holder.machine!r}"
