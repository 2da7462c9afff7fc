"""Bring finished files into place at once, so that nobody ever sees, or is left with, half a file."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from qmcif_engine.errors import OutputError, QmcifError
from qmcif_engine.io.output.stores import build_store, check_replaceable, move_store, restore_store, return_store, sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

_WITHOUT_HARD_LINKS = frozenset({errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK})
"""How file systems that know no hard links (FAT, some network drives) refuse one."""


def check_place(target: Path, *, overwrite: bool, is_store: bool = False) -> None:
    """Refuse a target that is taken or lies where nothing can be written, by really creating a file beside it.

    Permission bits would tell less: they do not bind the administrator, and a read-only file system has them all.

    Parameters
    ----------
    target : Path
    overwrite : bool
        Whether an existing file, or Zarr folder, may be replaced.
    is_store : bool, optional
        Whether the target is to be a Zarr folder rather than a file.

    Raises
    ------
    OutputError
        With the reason and the remedy.
    """
    try:
        check_folder(target.parent)
        if is_store:
            _check_store_vacant(target, overwrite=overwrite)
        else:
            _check_vacant(target, overwrite=overwrite)
    except OutputError:
        raise
    except OSError as error:
        raise _unwritable(target, error) from error
    except ValueError as error:
        msg = f"{str(target)!r} is not a possible file name ({error}); the name of a file is needed; correct it"
        raise OutputError(msg) from error


def _check_store_vacant(target: Path, *, overwrite: bool) -> None:
    if _existing_mode(target) is None:
        return
    if not overwrite:
        raise _existing(target)
    check_replaceable(target)


def _check_vacant(target: Path, *, overwrite: bool) -> None:
    mode = _existing_mode(target)
    if mode is None:
        return
    if target.is_dir():
        msg = f"{str(target)!r} is a folder; the name of a file is needed; add one to it"
        raise OutputError(msg)
    if not overwrite:
        raise _existing(target)
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        msg = f"{str(target)!r} is a pipe, socket or device; the name of a file is needed; choose another one"
        raise OutputError(msg)


def check_folder(folder: Path) -> None:
    """Refuse a folder that is missing, none, or not writable.

    Raises
    ------
    OutputError
        With the reason and the remedy.
    """
    if not folder.is_dir():
        state = "is not a folder" if folder.exists() else "does not exist"
        msg = f"the folder {str(folder)!r} {state}; an existing folder is needed; make it or choose another one"
        raise OutputError(msg)
    try:
        with _temporary_in(folder) as probe:
            probe.open("xb").close()
    except OSError as error:
        raise _unwritable(folder, error) from error


def check_sources_kept(targets: Iterable[Path], sources: Iterable[Path]) -> None:
    """Refuse a target that is one of the sources, under whatever name, or lies in one: that would destroy what the result was made of.

    Raises
    ------
    OutputError
        Naming both.
    """
    known = list(sources)
    for target in targets:
        for source in known:
            if _is_one_file(target, source):
                msg = f"{str(target)!r} is the input {str(source)!r}, which would be lost; another name is needed; choose one"
                raise OutputError(msg)
            if _lies_in(target, source):
                msg = f"{str(target)!r} lies in the input {str(source)!r}, which must not change; a place outside is needed; choose one"
                raise OutputError(msg)


def _is_one_file(target: Path, source: Path) -> bool:
    """Tell whether the source is the target or lies in it, as it may where the target is a folder to be replaced."""
    try:
        return any(place.exists() and target.samefile(place) for place in (source, *source.resolve().parents))
    except (OSError, ValueError):  # one of them cannot be: reading or writing it will say so
        return False


def _lies_in(target: Path, source: Path) -> bool:
    """Tell whether the source is a folder, such as a Zarr array, and the target would be put into it."""
    try:
        return source.is_dir() and source.resolve() in target.resolve().parents
    except (OSError, ValueError):  # as above
        return False


@contextmanager
def ready_folder(folder: Path) -> Iterator[None]:
    """Make the folder and its parents where they are missing, and take those away again if the block fails."""
    with refusing(folder):
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
    writes: Mapping[Path, Callable[[BinaryIO], None]],
    *,
    overwrite: bool,
    stores: Mapping[Path, Callable[[Path], None]] | None = None,
    built: Mapping[Path, Path] | None = None,
) -> None:
    """Write all files beside their targets, then move all into place; where that fails, none that is new remains.

    Parameters
    ----------
    writes : mapping of Path to callable
        For each target, what writes its bytes into an open file.
    overwrite : bool
        Whether existing files and Zarr folders may be replaced. A file that was replaced before a failure stays replaced; a Zarr folder
        comes back.
    stores : mapping of Path to callable, optional
        For each Zarr folder, what fills an empty folder.
    built : mapping of Path to Path, optional
        For each further Zarr folder, where it lies complete, on the same file system. Where placing fails it is there again.

    Raises
    ------
    OutputError
        When a target exists or the system refuses it (then with the system's error number).
    """
    with ExitStack() as cleanup, ExitStack() as undo:
        finished = {target: cleanup.enter_context(_temporary_in(target.parent)) for target in [*writes, *(stores or {})]}
        for target, write in writes.items():
            with refusing(target):
                _fill(finished[target], write)
        for target, fill in (stores or {}).items():
            with refusing(target):
                build_store(finished[target], fill)
        for target, temporary in finished.items():
            with refusing(target):
                if target in writes:
                    _place_file(temporary, target, overwrite=overwrite, undo=undo)
                else:
                    retired = cleanup.enter_context(_temporary_in(target.parent))
                    _place_store(temporary, target, retired=retired, overwrite=overwrite, undo=undo)
        for target, folder in (built or {}).items():
            with refusing(target):
                retired = cleanup.enter_context(_temporary_in(target.parent))
                _place_built(folder, target, retired=retired, overwrite=overwrite, undo=undo)
        undo.pop_all()
        for folder in {target.parent for target in [*finished, *(built or {})]}:
            sync_folder(folder)


def _place_file(temporary: Path, target: Path, *, overwrite: bool, undo: ExitStack) -> None:
    if _existing_mode(target) is None:
        undo.callback(_remove_own, target, _identity(temporary))
    _move(temporary, target, overwrite=overwrite)


def _place_store(temporary: Path, target: Path, *, retired: Path, overwrite: bool, undo: ExitStack) -> None:
    undo.callback(restore_store, target, retired=retired)
    undo.callback(_remove_own, target, _identity(temporary))
    _move_store(temporary, target, retired=retired, overwrite=overwrite)


def _place_built(folder: Path, target: Path, *, retired: Path, overwrite: bool, undo: ExitStack) -> None:
    undo.callback(restore_store, target, retired=retired)
    undo.callback(return_store, target, origin=folder, identity=_identity(folder))
    _move_store(folder, target, retired=retired, overwrite=overwrite)


def _move_store(folder: Path, target: Path, *, retired: Path, overwrite: bool) -> None:
    try:
        move_store(folder, target, retired=retired, overwrite=overwrite)
    except FileExistsError as error:
        raise _existing(target) from error


@contextmanager
def _temporary_in(folder: Path) -> Iterator[Path]:
    """Offer an unused name, and remove whatever is left under it afterwards, however the block ends."""
    temporary = folder / f".qmcif-{secrets.token_hex(8)}.tmp"
    try:
        yield temporary
    finally:
        with suppress(OSError):  # never made, or already moved, or the failure to report is the one that led here
            _remove(temporary)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


@contextmanager
def refusing(target: Path) -> Iterator[None]:
    """Report what the system refuses inside the block as a target that cannot be written, with the system's error number."""
    try:
        yield
    except QmcifError:  # also of what is read in order to be written
        raise
    except OSError as error:
        raise _unwritable(target, error) from error


def _fill(path: Path, write: Callable[[BinaryIO], None]) -> None:
    with path.open("x+b") as stream:
        write(stream)
        stream.flush()
        os.fsync(stream.fileno())


def _move(temporary: Path, target: Path, *, overwrite: bool) -> None:
    """Give the finished file its name in one step; without ``overwrite`` a file that appeared meanwhile wins."""
    if overwrite:
        temporary.replace(target)
        return
    try:
        target.hardlink_to(temporary)
    except FileExistsError as error:
        raise _existing(target) from error
    except OSError as error:
        if error.errno not in _WITHOUT_HARD_LINKS:
            raise
        _claim_and_replace(temporary, target)


def _claim_and_replace(temporary: Path, target: Path) -> None:
    """Take the name with an empty file, which only one process can, then replace that by the finished one."""
    try:
        target.open("xb").close()
    except FileExistsError as error:
        raise _existing(target) from error
    try:
        temporary.replace(target)
    except BaseException:
        target.unlink()
        raise


def _existing_mode(path: Path) -> int | None:
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return None


def _identity(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino


def _remove_own(target: Path, identity: tuple[int, int]) -> None:
    """Remove the target if it is the very file that was moved there, and not one that somebody else put there first."""
    with suppress(FileNotFoundError):
        if _identity(target) == identity:
            _remove(target)


def _existing(target: Path) -> OutputError:
    remedy = "choose another one or allow overwriting (overwrite=True, on the command line --overwrite)"
    return OutputError(f"{str(target)!r} exists already; a new name is needed; {remedy}")


def _unwritable(target: Path, error: OSError) -> OutputError:
    """Return the refusal with the system's error number, by which callers can tell a full disk from a wrong name."""
    reason = error.strerror or str(error)
    refusal = OutputError(f"{str(target)!r} cannot be written ({reason}); a writable place with room is needed; choose another one")
    refusal.errno = error.errno
    return refusal
