"""Placement of finished files at once, so that nobody ever sees, or is left with, half a file."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from qmcif_engine.errors import OutputError, QmcifError
from qmcif_engine.io.output.leftovers import Kind, name_temporary, remove, temporary_in
from qmcif_engine.io.output.moves import Journal, Move, check_replaceable, mark_of, sweep, sync_folder
from qmcif_engine.io.remote_path import Location, RemotePath


def check_place(target: Location, *, overwrite: bool, is_store: bool = False, makes_folder: bool = False) -> None:
    """Refuse a target that is taken or lies where nothing can be written, by really creating a file beside it.

    Permission bits would tell less: they do not bind the administrator, and a read-only file system has them all.

    Parameters
    ----------
    target : Path or RemotePath
    overwrite : bool
        Whether an existing file, or Zarr folder, may be replaced.
    is_store : bool, optional
        Whether the target is to be a Zarr folder rather than a file.
    makes_folder : bool, optional
        Whether the folder around it is made later where it is missing.

    Raises
    ------
    OutputError
        With the reason and the remedy.
    """
    with refusing(target):
        if isinstance(target, RemotePath):
            from qmcif_engine.io.remote import check_remote_target

            check_remote_target(target, is_store=is_store, is_allowed=overwrite)
            return
        try:
            if makes_folder and not target.parent.exists():
                # what can be known of such a folder: that the one around it can be written
                check_folder(next(place for place in target.absolute().parents if place.exists()))
                return
            check_folder(target.parent)
            _check_vacant(target, overwrite=overwrite, is_store=is_store)
        except ValueError as error:
            msg = f"{str(target)!r} is not a possible file name ({error}); the name of a file is needed; correct it"
            raise OutputError(msg) from error


def _check_vacant(target: Path, *, overwrite: bool, is_store: bool) -> None:
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return
    if target.is_dir() and not is_store:
        msg = f"{str(target)!r} is a folder; the name of a file is needed; add one to it"
        raise OutputError(msg)
    if not overwrite:
        raise existing(target)
    if is_store:
        check_replaceable(target)
    elif not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        msg = f"{str(target)!r} is a pipe, socket or device; the name of a file is needed; choose another one"
        raise OutputError(msg)


def check_folder(folder: Path) -> None:
    """Refuse a folder that is missing, none, or not writable; what killed runs left in it is removed.

    Raises
    ------
    OutputError
        With the reason and the remedy.
    """
    if not folder.is_dir():
        state = "is not a folder" if folder.exists() else "does not exist"
        msg = f"the folder {str(folder)!r} {state}; an existing folder is needed; make it or choose another one"
        raise OutputError(msg)
    sweep(folder)
    try:
        with temporary_in(folder) as probe:
            probe.open("xb").close()
    except OSError as error:
        raise _unwritable(folder, error) from error


def check_maps_target(
    folder: str | os.PathLike[str], names: Iterable[str], *, overwrite: bool, image: str | os.PathLike[str] | None = None
) -> None:
    """Refuse a folder that maps cannot be written to, before any work is spent on them.

    Parameters
    ----------
    folder : path-like
        Where the maps shall go; it need not exist, its parent must.
    names : iterable of str
        Names of the maps, without suffix.
    overwrite : bool
        Whether existing maps may be replaced.
    image : path-like, optional
        Target of the image written with the maps, which may not be one of them.
    """
    place = Path(folder)
    targets = [map_path(place, name) for name in names]
    if image is not None:
        _check_no_clash(Path(image), targets)
    if place.exists() or place.is_symlink():
        check_folder(place)
        for target in targets:
            check_place(target, overwrite=overwrite)
    else:
        check_place(place, overwrite=False)


def _check_no_clash(target: Path, others: Iterable[Path]) -> None:
    """Refuse an image that is also a map, or a Zarr folder with maps inside: replacing it would take them away."""
    # realpath: two names of one place clash too
    place = Path(os.path.realpath(target))
    for other in (Path(os.path.realpath(other)) for other in others):
        if place in (other, *other.parents):
            clash = "is the name of a map too" if place == other else "would have the maps inside"
            msg = f"{str(target)!r} {clash}; a name of its own is needed for the image; choose another one"
            raise OutputError(msg)


def map_path(folder: Path, name: str) -> Path:
    """Return the file of a map, whose name must not lead out of the folder."""
    if not name.isidentifier():
        msg = f"a map was named {name!r}; letters, digits and underscores are needed; rename it"
        raise OutputError(msg)
    return folder / f"{name}.tif"


def check_sources_kept(targets: Iterable[Location], sources: Iterable[Location]) -> None:
    """Refuse a target that is one of the sources, under whatever name, or lies in one: that would destroy what the result was made of.

    Raises
    ------
    OutputError
        Naming both.
    """
    for target, source in itertools.product(targets, list(sources)):
        if _holds(target, source):
            msg = f"{str(target)!r} is the input {str(source)!r}, which would be lost; another name is needed; choose one"
            raise OutputError(msg)
        if _holds(source, target):
            msg = f"{str(target)!r} lies in the input {str(source)!r}, which must not change; a place outside is needed; choose one"
            raise OutputError(msg)


def _holds(outer: Location, inner: Location) -> bool:
    """Return whether one file or folder is the other, under whatever name, or has it inside, as a Zarr folder may."""
    if isinstance(outer, RemotePath) or isinstance(inner, RemotePath):
        return f"{inner}/".startswith(f"{outer}/")
    try:
        # samefile sees through links, other spellings and file systems that ignore case
        return outer.exists() and any(place.exists() and outer.samefile(place) for place in (inner, *Path(os.path.realpath(inner)).parents))
    except (OSError, ValueError):  # one of them cannot be: reading or writing it will say so
        return False


@contextmanager
def ready_folder(folder: Path) -> Iterator[None]:
    """Make the folder and its parents where they are missing, and take those away again if the block fails."""
    with refusing(folder):
        # innermost first, the order in which they can be removed
        missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        with refusing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for place in missing:
            with suppress(OSError):  # never made, or somebody else put something into it meanwhile: then it stays
                place.rmdir()
        raise


def place_files(
    writes: Mapping[Path, Callable[[BinaryIO], object]],
    *,
    overwrite: bool,
    stores: Mapping[Path, Callable[[Path], object]] | None = None,
    built: Mapping[Path, Path] | None = None,
    journal: Journal | None = None,
) -> None:
    """Write all files beside their targets, then move all into place; where that fails, all is as it was.

    Parameters
    ----------
    writes : mapping of Path to callable
        For each target, what writes its bytes into an open file.
    overwrite : bool
        Whether existing files and Zarr folders may be replaced.
    stores : mapping of Path to callable, optional
        For each Zarr folder, what makes it, on the disk when it returns.
    built : mapping of Path to Path, optional
        For each further Zarr folder, where it lies complete, on the same file system. Where placing fails it is there again.
    journal : Journal, optional
        Where the moves are noted, so that they can be taken back should the process be killed.

    Raises
    ------
    OutputError
        When a target exists or the system refuses it (then with the system's error number).
    """
    stores, built = stores or {}, built or {}
    for folder in {target.parent for target in (*writes, *stores, *built)}:
        sweep(folder)
    with ExitStack() as cleanup:
        # beside the target, hence on its file system, where renaming is one step
        finished = {target: cleanup.enter_context(temporary_in(target.parent)) for target in (*writes, *stores)}
        for target, write in writes.items():
            with refusing(target):
                _fill(finished[target], write)
        for target, fill in stores.items():
            with refusing(target):
                fill(finished[target])
        moves = []
        for target, source in [*finished.items(), *built.items()]:
            with refusing(target):
                place, mark = target.absolute(), mark_of(source) or ()
            backup = place.parent / name_temporary(Kind.BACKUP)
            moves.append(Move(source.absolute(), place, backup, mark, target not in writes, target in built))
        # a single file needs none: replacing it is one step
        if journal is None and (len(moves) > 1 or moves[0].is_store):
            journal = Journal(moves[-1].target.parent / name_temporary(Kind.JOURNAL))
        _carry_out(moves, overwrite=overwrite, journal=journal)


def _carry_out(moves: Sequence[Move], *, overwrite: bool, journal: Journal | None) -> None:
    """Move all outputs to their names; with a journal, what they replace is kept until all of them have arrived."""
    try:
        if journal is not None:
            with refusing(moves[0].target):
                # before the first move, so that a kill between any two of them can be undone
                journal.note(moves)
        for move in moves:
            with refusing(move.target):
                try:
                    move.carry_out(overwrite=overwrite, keeps_replaced=journal is not None)
                except FileExistsError as error:
                    raise existing(move.target) from error
        for folder in {move.target.parent for move in moves}:
            sync_folder(folder)
        if journal is not None:
            # from here on nothing is taken back; a kill leaves only files to be cleared away
            journal.commit()
    except BaseException:
        if journal is not None and journal.is_open():
            with suppress(OSError):  # then the journal stays, and the next run takes them back
                for move in reversed(moves):
                    move.take_back()
                journal.drop()
        raise
    if journal is not None:
        with suppress(OSError):  # then the journal stays, and the next run clears away
            for move in moves:
                if os.path.lexists(move.backup):
                    remove(move.backup)
            journal.drop()


@contextmanager
def refusing(target: Location) -> Iterator[None]:
    """Report what the system refuses inside the block as a target that cannot be written, with the system's error number."""
    try:
        yield
    except QmcifError:  # also of what is read in order to be written
        raise
    except OSError as error:
        raise _unwritable(target, error) from error


def _fill(path: Path, write: Callable[[BinaryIO], object]) -> None:
    with path.open("x+b") as stream:
        write(stream)
        stream.flush()
        # a name that reaches the disk before the bytes would be an empty file after a loss of power
        os.fsync(stream.fileno())


def existing(target: Location) -> OutputError:
    """Return the refusal to replace what is there."""
    remedy = "choose another one or allow overwriting (overwrite=True, on the command line --overwrite)"
    return OutputError(f"{str(target)!r} exists already; a new name is needed; {remedy}")


def _unwritable(target: Location, error: OSError) -> OutputError:
    """Return the refusal with the system's error number, by which callers can tell a full disk from a wrong name."""
    reason = error.strerror or str(error)
    refusal = OutputError(f"{str(target)!r} cannot be written ({reason}); a writable place with room is needed; choose another one")
    refusal.errno = error.errno
    return refusal
