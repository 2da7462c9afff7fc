"""Folders of runs that are not finished: one run at a time, recognized by what is in them, continued by the next run or removed."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

from qmcif_engine.errors import ExecutionError, OutputError
from qmcif_engine.io.output.leftovers import Kind, Leftover, name_temporary, temporary_in
from qmcif_engine.io.output.moves import JOURNAL_NAME, Journal, clean_up, roll_back, sync_folder, write_durably
from qmcif_engine.io.output.placement import refusing
from qmcif_engine.io.remote_path import Location, RemotePath
from qmcif_engine.run.lock import RunLock, check_ended, read_holder
from qmcif_engine.tiles.output_maps import OUTPUT_MAPS

JOB_SUFFIX = ".qmcif-job"
DESCRIPTION_NAME = "job.json"
LOCK_NAME = "lock"
_LARGEST_DESCRIPTION_BYTES = 2**20
_OWN_NAMES = re.compile(
    r"job\.json|lock|placing\.moves|tile-[0-9a-z]+-\d+(-\d+)?|part-[0-9a-z]+-\d+|.*\.(unfinished|probe|ended)|"
    rf"(image|fused|companions|{'|'.join(OUTPUT_MAPS)})-[0-9a-z]+\.zarr"
)


class JobFolder:
    """The folder of a run: its lock, what it was asked for, and where the moves of its outputs are noted.

    Attributes
    ----------
    folder : Path
    run : str
        In the names of what the run makes, so that files of a run before are never taken for its own.
    may_replace : bool
        Whether outputs may be replaced: a run that is continued may what the one before was allowed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.run, self.may_replace = folder, "", False
        self._lock = RunLock(folder / LOCK_NAME)
        self._ended: Path | None = None

    @property
    def session(self) -> str:
        """What distinguishes tiles that this run wrote from those of the runs it continues."""
        return self._lock.session

    def begin(self, description: object, *, resume: bool, overwrite: bool) -> None:
        """Make the folder, or continue what is in it.

        Parameters
        ----------
        description : object
            Settings and kind of input, as JSON can say them; a run of another description is not continued.
        resume : bool
            Continue an unfinished run, if there is one.
        overwrite : bool
            Discard an unfinished run instead, and replace outputs.

        Raises
        ------
        OutputError
            When an unfinished run is there that may be neither used nor discarded.
        """
        identity, self.may_replace = digest(description), overwrite
        with refusing(self.folder):
            is_new = not self.folder.exists() or self._acquire(identity, resume=resume, overwrite=overwrite)
            try:
                if is_new:
                    self._create(identity)
                self.prepare(is_new=is_new)
            except BaseException:
                if is_new and self._lock.is_held():  # another run may have been faster
                    self.remove()
                self._lock.release()
                raise

    def prepare(self, *, is_new: bool) -> None:
        """Make what belongs into the folder; it is ours by now."""

    def _acquire(self, identity: str, *, resume: bool, overwrite: bool) -> bool:
        """Take the lock of an unfinished run to continue it, or discard that run; return whether a new one is needed."""
        self._lock.acquire()
        try:
            # a run that was killed while it placed its outputs: all are as they were before, whatever comes next
            roll_back(self.folder / JOURNAL_NAME)
            if resume:
                self._check_identity(identity)
                return False
            self._discard(overwrite=overwrite)
        except BaseException:
            self._lock.release()
            raise
        return True

    def _discard(self, *, overwrite: bool) -> None:
        if not overwrite:
            msg = (
                f"an unfinished run is in {str(self.folder)!r}: "
                "continue it (resume=True, --resume) or discard it (overwrite=True, --overwrite)"
            )
            raise OutputError(msg)
        with suppress(OSError, ValueError, KeyError, TypeError):  # then what it left in a bucket stays there
            self.run = _checked_token(read_description(self.folder)["run"])
        self.remove()

    def _create(self, identity: str) -> None:
        """Make the folder, which gets its name with the lock and the description in it: half a job is never seen."""
        self.run = secrets.token_hex(6)
        description = {"identity": identity, "run": self.run, "overwrite": self.may_replace}
        with temporary_in(self.folder.parent) as made:
            made.mkdir()
            contents = {made / LOCK_NAME: self._lock.describe(), made / DESCRIPTION_NAME: json.dumps(description).encode()}
            write_durably(contents, scratch_folder=made)
            try:
                # the folder of another run is not empty, and therefore not replaced: one of two runs fails here
                made.rename(self.folder)
            except OSError:
                recover(self.folder)  # raises where another run was faster
                raise
        sync_folder(self.folder.parent)

    def _check_identity(self, identity: str) -> None:
        try:
            description = read_description(self.folder)
            known, self.run = description["identity"], _checked_token(description["run"])
            self.may_replace |= description.get("overwrite") is True
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            msg = f"{str(self.folder)!r} is not an unfinished run of this program ({error}); one is needed: start over with --overwrite"
            raise OutputError(msg) from error
        if known != identity:
            raise self.refuse_other_input()

    def refuse_other_input(self) -> OutputError:
        """Return the error for tiles that were made of something else."""
        return OutputError(
            f"the unfinished run in {str(self.folder)!r} has other images, settings or another version; the same are needed to continue: "
            "restore them, or start over with --overwrite"
        )

    def heartbeat(self) -> None:
        """Give other runs a sign of life, if one is due; raises where this run has lost its folder."""
        self._lock.heartbeat()

    def journal(self) -> Journal:
        """Return where the moves of the outputs are noted; the job is over when all of them have arrived."""
        # the last moment at which a run that lost its folder can stop without harm
        self._lock.check()
        return Journal(self.folder / JOURNAL_NAME, commit=self._end)

    def _end(self) -> None:
        """Give the folder the name of something left behind: what is in it is not needed any more."""
        self._ended = self.folder.with_name(name_temporary())
        with refusing(self.folder):
            # one step, and the commit of the journal: before it all moves are taken back, after it none
            self.folder.rename(self._ended)
        self._lock.forget()
        sync_folder(self.folder.parent)

    def holds_results(self) -> bool:
        """Return whether there is something to go on with."""
        return any(self.folder.glob(f"tile-{self.run}-*"))

    def release(self) -> None:
        """Leave what is there to a later run."""
        self._lock.release()

    def abort(self) -> None:
        """End without a result: leave what is finished to a later run, or remove the folder where nothing is and it is still ours."""
        with suppress(OSError, ExecutionError):  # what led here is the failure to report
            if self._ended is not None or (self._lock.is_held() and not self.holds_results()):
                self.remove()
        self._lock.release()

    def remove(self) -> None:
        """Delete the folder, once it is known to be a job."""
        if self._ended is None:
            with refusing(self.folder):
                _check_own(self.folder)
            self._end()
        if self._ended is not None:
            with suppress(OSError):  # the next run will remove the rest
                clean_up(Leftover(self._ended, Kind.UNFINISHED, is_abandoned=True))
            self._ended = None

    def throw_away(self) -> None:
        """Remove an unfinished run, once what it had begun to place was taken back.

        Raises
        ------
        OutputError
            When it is no unfinished run, or one is going on there.
        """
        with refusing(self.folder):
            self._lock.acquire()
            try:
                roll_back(self.folder / JOURNAL_NAME)
                self.remove()
            finally:
                self._lock.release()


def name_job_folder(target: Location) -> Path:
    """Return where the tiles of a run wait until all of them are there: beside the target, or in the working folder for one on a server."""
    if isinstance(target, RemotePath):  # receipts are kept here, chunks go to the bucket
        return Path.cwd() / f"{target.name}-{target.key[:8]}{JOB_SUFFIX}"
    return target.parent / f"{target.name}{JOB_SUFFIX}"


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
            lock.acquire()
            try:
                roll_back(folder / JOURNAL_NAME)
            finally:
                lock.release()
    holder = read_holder(lock.path)
    if holder is not None:
        check_ended(lock.path, holder)
    try:
        # what the killed run was allowed, the one that continues it is
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


def _check_own(folder: Path) -> None:
    """Refuse to remove a folder that holds anything but names that runs give."""
    if not all(_OWN_NAMES.fullmatch(path.name) for path in folder.iterdir()):
        msg = f"{str(folder)!r} is not an unfinished run of this program; it holds other files: move it away"
        raise OutputError(msg)


def read_description(folder: Path) -> Any:  # noqa: ANN401 - whatever the file says
    """Return what a run wrote of itself when it began."""
    with (folder / DESCRIPTION_NAME).open("rb") as stream:
        return json.loads(stream.read(_LARGEST_DESCRIPTION_BYTES))


def _checked_token(token: object) -> str:
    """Return the name of a run, which must not lead out of the folder."""
    if isinstance(token, str) and token.isalnum():
        return token
    msg = f"its run is called {token!r}"
    raise ValueError(msg)


def digest(description: object) -> str:
    """Return a digest of what JSON can say."""
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()
