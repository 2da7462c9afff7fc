"""What killed processes left in a folder, removed by the next one that writes there."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from qmcif_engine.io.output.leftovers import Kind, Leftover, find_leftovers, remove
from qmcif_engine.io.output.moves import clear_away, roll_back

if TYPE_CHECKING:
    from pathlib import Path

JOURNAL_NAME = "placing.moves"
"""The journal of a job, in its folder."""

# with the process number, since a forked child inherits the set
_swept: set[tuple[int, Path]] = set()


def sweep(folder: Path) -> None:
    """Settle what killed processes left in a folder; looks once in each, since folders may be long."""
    place = (os.getpid(), folder.absolute())
    if place in _swept:
        return
    _swept.add(place)
    for leftover in find_leftovers(folder):
        if leftover.is_abandoned:
            with suppress(OSError):  # somebody else removes it, or nobody may
                settle(leftover)


def forget_sweeps() -> None:
    """Look into every folder again, as a new process does."""
    _swept.clear()


def settle(leftover: Leftover) -> None:
    """Take back or clear away what a killed process had begun, and remove what it left.

    What was put aside for an output goes with the journal that tells of it: without that, nobody knows whether it is needed.
    """
    if leftover.kind is Kind.JOURNAL:
        roll_back(leftover.path)
    elif leftover.kind is Kind.SETTLED_JOURNAL:
        clear_away(leftover.path)
        leftover.path.unlink(missing_ok=True)
    elif leftover.kind is not Kind.REPLACED:
        # a job folder under this name is one whose outputs have all arrived: what they replaced goes too
        clear_away(leftover.path / JOURNAL_NAME)
        remove(leftover.path)
