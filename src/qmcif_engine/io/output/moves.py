"""Outputs on the way to their names: all of them arrive or none, even where the process is killed between two of them.

A backup of what an output replaces is kept until all have arrived. A journal of the moves, written before the first, lets the next process
take back what a killed one had begun.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from qmcif_engine.errors import OutputError
from qmcif_engine.io.limits import LARGEST_NODE_BYTES, parse_json, read_bounded
from qmcif_engine.io.output.leftovers import Kind, Leftover, find_leftovers, is_temporary_name, remove
from qmcif_engine.io.remote_path import Location, RemotePath


def check_replaceable(target: Path) -> None:
    """Refuse to put a Zarr folder where something lies that is not one.

    Raises
    ------
    OutputError
        With the reason and the remedy.
    """
    # lstat: replacing it would put the link aside, and not the folder it leads to
    mode = target.lstat().st_mode
    if stat.S_ISLNK(mode):
        msg = f"{str(target)!r} is a link; a Zarr folder or a new name is needed; name the folder itself or choose another one"
        raise OutputError(msg)
    if not stat.S_ISDIR(mode):
        msg = f"{str(target)!r} is a file; a Zarr folder or a new name is needed; choose another one"
        raise OutputError(msg)
    if not _is_zarr_store(target):
        msg = f"{str(target)!r} is a folder without a Zarr group; what it holds would be lost; remove it yourself or choose another name"
        raise OutputError(msg)


def _is_zarr_store(folder: Path) -> bool:
    """Return whether a folder is the root of a Zarr group or array, of either format."""
    for name in ("zarr.json", ".zgroup", ".zarray"):
        with suppress(OSError, ValueError):
            node = parse_json(read_bounded(folder / name, largest_bytes=LARGEST_NODE_BYTES))
            if isinstance(node, dict) and node.get("zarr_format") in (2, 3):
                return True
    return False


def write_durably(contents: Mapping[Path, bytes] | Mapping[Location, bytes], *, scratch_folder: Location) -> None:
    """Write files that get their names when their bytes are on the disk, and wait until the names are there too.

    What has its name is whole, after a crash, a full disk or a loss of power too. No folder is made.

    Parameters
    ----------
    contents : mapping of Path or RemotePath to bytes
        Files that exist are replaced; objects of a bucket are whole by themselves.
    scratch_folder : Path or RemotePath
        Where they lie before, on the same file system: what a killed process leaves there is never taken for a file.
    """
    for path, content in contents.items():
        if isinstance(path, RemotePath):
            from qmcif_engine.io.remote import write_object

            write_object(path, content)
            continue
        # two workers may write one tile at a time
        unfinished = cast("Path", scratch_folder) / f"{path.name}-{secrets.token_hex(8)}.unfinished"
        try:
            with unfinished.open("xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            # in one step: readers see the old file or the new one
            unfinished.replace(path)
        except BaseException:
            with suppress(OSError):
                unfinished.unlink()
            raise
    # once for all files of a folder: each wait costs a turn of the disk
    for folder in {path.parent for path in contents if isinstance(path, Path)}:
        sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder have reached the disk, where the system can."""
    with suppress(OSError):  # some systems cannot open folders, and some file systems cannot wait
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


_WITHOUT_HARD_LINKS = frozenset({errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK})
"""How file systems that know no hard links (FAT, some network drives) refuse one."""

# some hundred bytes for each output: enough for more files than a stack can have
_LARGEST_JOURNAL_BYTES = 2**26
JOURNAL_NAME = "placing.moves"
"""The journal of a job, in its folder."""


class Move(NamedTuple):
    """One output on its way.

    Attributes
    ----------
    source : Path
        Where it lies finished.
    target : Path
    backup : Path
        Where what it replaces is kept meanwhile, beside the target.
    mark : tuple of int
        What distinguishes it from any other file or folder that may lie at the target.
    is_store : bool
        Whether it is a Zarr folder rather than a file.
    goes_back : bool
        Whether it returns to its source when the move is taken back; otherwise it is removed.
    """

    source: Path
    target: Path
    backup: Path
    mark: tuple[int, ...]
    is_store: bool
    goes_back: bool

    def carry_out(self, *, overwrite: bool, keeps_replaced: bool = True) -> None:
        """Give the output its name; without ``overwrite`` what appeared there meanwhile wins.

        A file that is replaced need not be kept where it is the only output: it is there until the new one is.

        Raises
        ------
        FileExistsError
            When the name is taken and may not be.
        """
        if self.is_store:
            if overwrite and os.path.lexists(self.target):
                check_replaceable(self.target)
                # a folder cannot be replaced by renaming, as a file can: for a moment the name is free
                self.target.rename(self.backup)
            if os.path.lexists(self.target):
                # an empty folder would be replaced by renaming
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            self.source.rename(self.target)
        elif overwrite:
            if keeps_replaced and os.path.lexists(self.target):
                self._back_up()
            self.source.replace(self.target)
        else:
            self._link()

    def _back_up(self) -> None:
        """Give what is to be replaced a second name, so that the first is never without a file; where that cannot be, move it."""
        try:
            # the link itself is kept, not the file it leads to
            os.link(self.target, self.backup, follow_symlinks=False)
        except (OSError, NotImplementedError):
            self.target.rename(self.backup)

    def _link(self) -> None:
        try:
            # a hard link fails where the name is taken, in one step; renaming would replace
            self.target.hardlink_to(self.source)
        except OSError as error:
            if error.errno not in _WITHOUT_HARD_LINKS:
                raise
            # an empty file, which only one process can make, is replaced by the finished one
            self.target.open("xb").close()
            try:
                self.source.replace(self.target)
            except BaseException:
                self.target.unlink()
                raise

    def take_back(self) -> None:
        """Bring back what was there before, whether the move was carried out, half or not at all; twice does no harm."""
        # the mark shows that our output lies there, and not what somebody else put there since
        if mark_of(self.target) == self.mark:
            if self.is_store:
                self.target.rename(self.source)  # at once, not file by file before the eyes of readers
            elif os.path.lexists(self.backup):
                self.backup.replace(self.target)
            else:
                self.target.unlink()
        if os.path.lexists(self.backup):
            if os.path.lexists(self.target):
                remove(self.backup)
            else:
                self.backup.rename(self.target)


def mark_of(path: Path) -> tuple[int, ...] | None:
    """Return what distinguishes a file or folder from others at the same place, also after it was moved; None where there is none."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    # size and time of a folder change with what is in it; the inode moves along with a renamed file
    return (status.st_ino,) if stat.S_ISDIR(status.st_mode) else (status.st_ino, status.st_size, status.st_mtime_ns)


class Journal:
    """What a killed process was about to move.

    Parameters
    ----------
    path : Path
    commit : callable, optional
        Ends the journal once all outputs have arrived, in one step: before it all moves are taken back, after it none. Where it is left
        out, the journal is renamed.
    """

    def __init__(self, path: Path, commit: Callable[[], None] | None = None) -> None:
        self._path, self._commit = path, commit

    def note(self, moves: Sequence[Move]) -> None:
        """Write the moves down, before the first of them."""
        content = json.dumps([move._asdict() for move in moves], default=str)
        write_durably({self._path: content.encode()}, scratch_folder=self._path.parent)

    def is_open(self) -> bool:
        """Return whether moves were noted that are neither carried out nor taken back."""
        return self._path.exists()

    def commit(self) -> None:
        """Close the journal: all moves were carried out."""
        if self._commit is not None:
            self._commit()
        else:
            # from this moment on the outputs count as placed
            self._path.rename(self._path.with_suffix(f".{Kind.CLOSED_JOURNAL}"))

    def drop(self) -> None:
        """Forget the moves, which were all taken back, or after which nothing is left to clear away."""
        with suppress(OSError):  # taking them back, or clearing away, once more does no harm
            for suffix in (Kind.JOURNAL, Kind.CLOSED_JOURNAL):
                self._path.with_suffix(f".{suffix}").unlink(missing_ok=True)


def roll_back(journal: Path) -> None:
    """Take back the moves of a killed process; nothing is done where it had begun none."""
    moves = _read_moves(journal)
    # backwards, as moves are undone
    for move in reversed(moves):
        move.take_back()
        if not move.goes_back:
            with suppress(FileNotFoundError):
                remove(move.source)
    for folder in {move.target.parent for move in moves}:
        # what was taken back has to be on the disk before the journal goes
        sync_folder(folder)
    journal.unlink(missing_ok=True)


def clear_away(journal: Path) -> None:
    """Remove what the finished moves of a killed process replaced, and the files that its outputs have as second names."""
    for move in _read_moves(journal):
        for path in (move.backup, *(() if move.goes_back else (move.source,))):
            with suppress(FileNotFoundError):
                remove(path)


def _read_moves(journal: Path) -> list[Move]:
    """Return the moves of a journal; none where it is not one of ours, which a name that leads elsewhere shows."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        with journal.open("rb") as stream:
            content = json.loads(stream.read(_LARGEST_JOURNAL_BYTES))
        moves = [_parse_move(described) for described in content]
        # a forged journal could otherwise make us remove or rename any file of the user
        if all(_is_plausible(move) for move in moves):
            return moves
    return []


def _parse_move(described: dict[str, Any]) -> Move:
    source, target, backup = (Path(described[name]) for name in ("source", "target", "backup"))
    return Move(source, target, backup, tuple(described["mark"]), described["is_store"] is True, described["goes_back"] is True)


def _is_plausible(move: Move) -> bool:
    """Return whether a move leads from one of our names to one beside it, and backs up what it replaces under another of ours."""
    is_backup_ours = move.backup.parent == move.target.parent and is_temporary_name(move.backup.name, Kind.BACKUP)
    is_source_ours = move.source.parent == move.target.parent and is_temporary_name(move.source.name, Kind.UNFINISHED)
    return is_backup_ours and (move.is_store if move.goes_back else is_source_ours)


def sweep(folder: Path) -> None:
    """Clean up what killed processes left in a folder; looks once in each, since folders may be long."""
    # a forked child inherits what its parent noted
    _sweep_once(os.getpid(), folder.absolute())


@cache
def _sweep_once(pid: int, folder: Path) -> None:
    del pid
    for leftover in find_leftovers(folder):
        if leftover.is_abandoned:
            with suppress(OSError):  # somebody else removes it, or nobody may
                clean_up(leftover)


def clean_up(leftover: Leftover) -> None:
    """Take back or clear away what a killed process had begun, and remove what it left.

    A backup goes with the journal that lists it: without that, nobody knows whether it is needed.
    """
    if leftover.kind is Kind.JOURNAL:
        roll_back(leftover.path)
    elif leftover.kind is Kind.CLOSED_JOURNAL:
        clear_away(leftover.path)
        leftover.path.unlink(missing_ok=True)
    elif leftover.kind is not Kind.BACKUP:
        # a job folder under this name is one whose outputs have all arrived: what they replaced goes too
        clear_away(leftover.path / JOURNAL_NAME)
        remove(leftover.path)
