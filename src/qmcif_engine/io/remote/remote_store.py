"""A Zarr store that a run writes into a bucket: claimed by one run, and hidden until all of it is there.

Chunks get their final names at once, for a bucket cannot rename a folder. What makes them a store is the metadata of its root, which is
written last. Until then an object beside it names the run that writes there.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from qmcif_engine.errors import ExecutionError, OutputError
from qmcif_engine.io.remote.object_requests import has_object, list_objects, read_object, remove_object, remove_objects, write_object
from qmcif_engine.io.remote.remote_path import RemotePath

ROOT_METADATA = "zarr.json"
_CLAIM = "qmcif-run"


def check_remote_target(target: RemotePath, *, is_store: bool, is_allowed: bool) -> None:
    """Refuse a target on a server that cannot be written, or is there already.

    Parameters
    ----------
    target : RemotePath
    is_store : bool
        Whether it is to be a Zarr folder.
    is_allowed : bool
        Whether it may be there, as after a run that was killed at its very end.

    Raises
    ------
    OutputError
        With the reason and the remedy.
    """
    if target.scheme != "s3" or not is_store:
        msg = f"{str(target)!r} lies on a server; only OME-Zarr is written there, to s3://: use s3:// and .ome.zarr, or a file here"
        raise OutputError(msg)
    if not is_allowed and has_object(target / ROOT_METADATA):
        raise _taken(target)


@dataclass(frozen=True, slots=True)
class RemoteStore:
    """A store in a bucket while a run writes it."""

    folder: RemotePath

    def claim(self, run: str, *, is_new: bool) -> None:
        """Note in the bucket that a run writes a store there, or check that it is this one.

        Raises
        ------
        OutputError
            When something else is there.
        """
        if is_new:
            # whatever it is: a bucket has no folder that could be moved away and back
            if list_objects(self.folder):
                raise _taken(self.folder)
            # before the first chunk, so that every object that a killed run left can be told
            write_object(self.folder / _CLAIM, run.encode())
        elif not self._is_claimed(run):
            msg = (
                f"{str(self.folder)!r} was begun by another run, or its objects were removed; those of this run are needed to go on: "
                "start anew under another name"
            )
            raise OutputError(msg)

    def release(self) -> None:
        """Take the note away: the store is complete."""
        with suppress(OSError, ExecutionError):  # the note does no harm
            remove_object(self.folder / _CLAIM)

    def hide(self) -> None:
        """Take the metadata of the root away, so that nobody opens a store whose other outputs could not be placed."""
        with suppress(OSError, ExecutionError):  # the server may be what failed
            remove_object(self.folder / ROOT_METADATA)

    def discard(self, run: str) -> None:
        """Remove all objects of a store that this run had begun; nothing is done where it is another one's."""
        # with its metadata the store is complete, and somebody may read it
        if self._is_claimed(run) and not has_object(self.folder / ROOT_METADATA):
            remove_objects(self.folder)

    def _is_claimed(self, run: str) -> bool:
        try:
            return read_object(self.folder / _CLAIM) == run.encode()
        except FileNotFoundError:
            return False


def _taken(target: RemotePath) -> OutputError:
    return OutputError(
        f"{str(target)!r} is there already, whole or in part; a new name is needed, for a bucket cannot replace a store in one step: "
        "choose another one, or remove it first"
    )
