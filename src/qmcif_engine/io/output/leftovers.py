"""Temporary files and folders whose names tell which process made them, so that those of killed runs are found and removed."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import time
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from qmcif_engine.io.output.owners import is_gone, parse_tag, this_process

if TYPE_CHECKING:
    from collections.abc import Iterator

ABANDONED_AFTER_SECONDS = 24 * 3600.0
"""What another machine made counts as left behind when nothing in it has changed for this long."""

SCRATCH_PREFIX = "qmcif-"
# without the tag: names that tell no owner, whose age decides
_TEMPORARY = re.compile(r"\.qmcif-(?:(?P<tag>[0-9a-f]{8}-\d+-\d+)-)?[0-9a-f]{8,16}\.(?P<kind>tmp|old|moves|done)")
# the last part is what `tempfile.mkdtemp` adds
_SCRATCH = re.compile(r"qmcif-(?P<tag>[0-9a-f]{8}-\d+-\d+)-[0-9a-z_]{8}")


class Kind(StrEnum):
    """What a temporary file or folder is, as the end of its name says."""

    UNFINISHED = "tmp"
    REPLACED = "old"
    JOURNAL = "moves"
    SETTLED_JOURNAL = "done"
    SCRATCH = "scratch"


class Leftover(NamedTuple):
    """A temporary file or folder of ours; it is abandoned where nobody is at work on it any more."""

    path: Path
    kind: Kind
    is_abandoned: bool


def name_temporary(kind: Kind = Kind.UNFINISHED) -> str:
    """Return an unused name for what becomes an output, is put aside for one, or tells of such moves."""
    return f".qmcif-{this_process().tag}-{secrets.token_hex(4)}.{kind}"


def name_scratch() -> str:
    """Return how the name of a scratch folder begins."""
    return f"{SCRATCH_PREFIX}{this_process().tag}-"


def is_temporary_name(name: str, kind: Kind) -> bool:
    """Return whether a name is one that `name_temporary` gives."""
    named = _TEMPORARY.fullmatch(name)
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
            named = _TEMPORARY.fullmatch(path.name) or _SCRATCH.fullmatch(path.name)
            if named is not None and _is_own(path):
                kind = Kind(named.groupdict().get("kind", Kind.SCRATCH))
                found.append(Leftover(path, kind, _is_abandoned(path, named["tag"])))
    return found


def _is_own(path: Path) -> bool:
    """Return whether a file or folder, no link, belongs to this user: folders for such files are shared."""
    try:
        status = path.lstat()
    except OSError:
        return False
    is_plain = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    # never follows a link that somebody put into a shared folder, and never touches what is another user's
    return is_plain and (os.name != "posix" or status.st_uid == os.getuid())


def _is_abandoned(path: Path, tag: str | None) -> bool:
    owner = None if tag is None else parse_tag(tag)
    is_over = None if owner is None else is_gone(owner)
    if is_over is not None:
        return is_over
    # made on another machine, or under a name that tells no owner
    return time.time() - _newest_change(path) > ABANDONED_AFTER_SECONDS


def _newest_change(path: Path) -> float:
    """Return when something was last written to a file, or in a folder."""
    newest = path.lstat().st_mtime
    for place, _, names in os.walk(path):
        for name in (".", *names):
            with suppress(OSError):
                newest = max(newest, (Path(place) / name).lstat().st_mtime)
    return newest
