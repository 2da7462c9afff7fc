"""Folders of unfinished runs: told from others by what is in them, taken up by the next run, or thrown away."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from qmcif_engine.errors import OutputError
from qmcif_engine.io.output.leftovers import Kind, Leftover, name_temporary
from qmcif_engine.io.output.moves import roll_back
from qmcif_engine.io.output.placement import refusing
from qmcif_engine.io.output.sweeping import JOURNAL_NAME, settle
from qmcif_engine.run.lock import RunLock, check_ended, read_holder

if TYPE_CHECKING:
    from pathlib import Path

JOB_SUFFIX = ".qmcif-job"
DESCRIPTION_NAME = "job.json"
LOCK_NAME = "lock"
_LARGEST_DESCRIPTION_BYTES = 2**20
_OWN_NAMES = re.compile(r"job\.json|lock|placing\.moves|tile-[0-9a-z]+-\d+|image-[0-9a-z]+\.zarr|.*\.(unfinished|probe|ended)")


def recover(folder: Path) -> bool:
    """Take back what a killed run had begun to place, and return whether the unfinished run, if any, may replace outputs.

    Raises
    ------
    OutputError
        When a run is going on there.
    """
    lock = RunLock(folder / LOCK_NAME)
    # the lock is taken only where something is to be undone: looking alone must not disturb a run
    if (folder / JOURNAL_NAME).exists():
        with refusing(folder):
            lock.take()
            try:
                roll_back(folder / JOURNAL_NAME)
            finally:
                lock.release()
    holder = read_holder(lock.path)
    if holder is not None:
        check_ended(lock.path, holder)
    try:
        # what the killed run was allowed, the one that goes on with it is
        return read_description(folder).get("overwrite") is True
    except (OSError, ValueError, AttributeError):
        return False


def is_in_use(folder: Path) -> bool:
    """Return whether a run is going on in a folder."""
    holder = read_holder(folder / LOCK_NAME)
    with suppress(OutputError):
        if holder is not None:
            check_ended(folder / LOCK_NAME, holder)
        return False
    return True


def throw_away(folder: Path) -> None:
    """Remove an unfinished run, once what it had begun to place was taken back.

    Raises
    ------
    OutputError
        When it is no unfinished run, or one is going on there.
    """
    lock = RunLock(folder / LOCK_NAME)
    with refusing(folder):
        lock.take()
        try:
            if not holds_job(folder):
                msg = f"{str(folder)!r} is not an unfinished run of this program; it holds other files: check and remove it yourself"
                raise OutputError(msg)
            roll_back(folder / JOURNAL_NAME)
            # renamed first: a kill in the middle of removing leaves a leftover, not half a job
            ended = folder.with_name(name_temporary())
            folder.rename(ended)
        finally:
            lock.release()
        settle(Leftover(ended, Kind.UNFINISHED, is_abandoned=True))


def holds_job(folder: Path) -> bool:
    """Return whether everything in a folder has a name that runs give: nothing else is ever removed."""
    return all(_OWN_NAMES.fullmatch(path.name) for path in folder.iterdir())


def read_description(folder: Path) -> Any:  # noqa: ANN401 - whatever the file says
    """Return what a run wrote of itself when it began."""
    with (folder / DESCRIPTION_NAME).open("rb") as stream:
        return json.loads(stream.read(_LARGEST_DESCRIPTION_BYTES))


def checked_token(token: object) -> str:
    """Return the name of a run, which must not lead out of the folder."""
    if isinstance(token, str) and token.isalnum():
        return token
    msg = f"its run is called {token!r}"
    raise ValueError(msg)
