"""Files on HTTP servers and objects in buckets, through fsspec; a request whose connection is lost is made again.

A Zarr store in a bucket has its final name from the start, for a bucket cannot rename a folder. What makes it a store is the metadata of
its root, which is written last. Until then an object beside it names the run that writes there.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from time import sleep
from typing import Any, TypeVar

from qmcif_engine.errors import ExecutionError, ImageFileError, MissingExtraError, OutputError
from qmcif_engine.io.remote_path import RemotePath

logger = logging.getLogger(__name__)

CONNECT_SECONDS, SILENT_SECONDS = 15, 60
"""How long a server may take to answer, and how long it may send nothing."""

PAUSES_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Before the second request, the third and so on: a server that starts anew is back within these."""

_BUSY = (408, 429, 500, 502, 503, 504)
_LASTING = {"ClientResponseError", "InvalidURL", "TooManyRedirects"}
_LOST = {"ClientError", "ConnectionError", "HTTPClientError", "IncompleteReadError", "ResponseParserError"}
"""Classes of aiohttp and botocore by name, since neither has to be installed: failures that stay, and those that may be gone soon."""

BLOCK_BYTES = 2**16
MOST_BLOCKS = 256
"""Blocks of a file that are kept: its directories lie apart, and each is read in many small pieces."""

ROOT_METADATA = "zarr.json"
_CLAIM = "qmcif-run"

_Result = TypeVar("_Result")


def read_object(path: RemotePath, start: int | None = None, end: int | None = None) -> bytes:
    """Return a file, or the part of it between two positions, of which a negative start counts from the end.

    Raises
    ------
    FileNotFoundError, PermissionError, OSError
        What the server answers.
    ImageFileError
        When it sends more than a part.
    ExecutionError
        When no complete answer came after several requests.
    """
    content = _read(path, start, end)
    wanted = end - start if start is not None and end is not None else -start if start is not None and start < 0 else None
    if wanted is not None and len(content) > wanted:
        raise _refuse_whole(path)
    return content


def _read(path: RemotePath, start: int | None, end: int | None) -> bytes:
    content: bytes = _request(path, lambda files: files.cat_file(_address(path), start=start, end=end))
    return content


def has_object(path: RemotePath) -> bool:
    """Return whether the server has a file of exactly this name."""
    try:
        # some servers answer no other question than for bytes
        _read(path, 0, 1)
    except FileNotFoundError:
        return False
    return True


def write_object(path: RemotePath, content: bytes) -> None:
    """Write an object of a bucket; it is there whole or not at all."""
    _request(path, lambda files: files.pipe_file(_address(path), content))


def _remove(path: RemotePath) -> None:
    _request(path, lambda files: files.rm_file(_address(path)))


def _list_below(path: RemotePath) -> list[str]:
    return list(_request(path, lambda files: files.find(_address(path) + "/")))


def _address(path: RemotePath) -> str:
    return f"{path.server}/{path.place}" if path.scheme == "s3" else path.address


def _refuse_whole(path: RemotePath) -> ImageFileError:
    return ImageFileError(
        f"{str(path)!r} holds a file that its server sends only as a whole; a server that sends parts (range requests) is needed; "
        "download the file and pass its name"
    )


def _request(path: RemotePath, ask: Callable[[Any], _Result]) -> _Result:
    """Return the answer to a request; no error says more of an address than its name, which leaves out passwords and tokens."""
    pauses = list(PAUSES_SECONDS)
    while True:
        try:
            return ask(connect(os.getpid(), path.scheme))
        except MissingExtraError:
            raise
        except FileNotFoundError:
            msg = "its server has no such file"
            raise FileNotFoundError(msg) from None
        except Exception as error:
            status = vars(error).get("status")
            if isinstance(error, PermissionError) or status in (401, 403):
                msg = f"its server allows no access ({'no permission' if status is None else f'status {status}'})"
                raise PermissionError(msg) from None
            if not _is_passing(error, status):
                msg = f"its server answers in a way that cannot be followed, {type(error).__name__}"
                raise OSError(msg) from None
            if not pauses:
                msg = (
                    f"{str(path)!r} was asked for {len(PAUSES_SECONDS) + 1} times and no complete answer came ({type(error).__name__}); "
                    "its server is needed: check the address and the network, and start again, with --resume where a run was going on"
                )
                raise ExecutionError(msg) from None
            pause = pauses.pop(0)
            logger.warning("%r does not answer (%s); it is asked again in %g s", str(path), type(error).__name__, pause)
            sleep(pause)


def _is_passing(error: Exception, status: int | None) -> bool:
    """Return whether a failure may be gone soon: lost and refused connections, timeouts, servers that are busy."""
    classes = {each.__name__ for each in type(error).__mro__}
    # not its subclasses: a missing file stays missing; s3fs calls what can never be answered invalid
    is_unspecific = type(error) is OSError and error.errno not in (None, errno.EINVAL)
    is_lost = isinstance(error, (ConnectionError, TimeoutError)) or (bool(classes & _LOST) and not classes & _LASTING)
    return status in _BUSY or is_unspecific or is_lost


@cache
def connect(pid: int, scheme: str) -> Any:  # noqa: ANN401 - a file system of fsspec
    """Return fsspec's connections to a kind of server: a process keeps them between requests, and inherits none."""
    del pid
    try:
        return _connect_buckets() if scheme == "s3" else _connect_servers()
    except ImportError as error:
        msg = (
            f"files at {scheme}:// were named and {error.name} is not installed; it is needed to read them: "
            "pip install 'napari-qmcif[remote]', or copy them here"
        )
        raise MissingExtraError(msg) from error


def _connect_servers() -> Any:  # noqa: ANN401
    import aiohttp
    import fsspec

    limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENT_SECONDS)
    return fsspec.filesystem("http", skip_instance_cache=True, client_kwargs={"timeout": limits})


def _connect_buckets() -> Any:  # noqa: ANN401
    import botocore.session
    import fsspec

    given = fsspec.config.conf.get("s3", {})
    has_own = any(given.get(name) for name in ("anon", "key", "username", "profile"))
    # where nobody is known to AWS' settings, only public buckets can be meant
    is_anonymous = bool(given.get("anon")) or (not has_own and botocore.session.Session().get_credentials() is None)
    limits = {"connect_timeout": CONNECT_SECONDS, "read_timeout": SILENT_SECONDS, "retries": {"total_max_attempts": 1}}
    files = fsspec.filesystem("s3", skip_instance_cache=True, use_listings_cache=False, config_kwargs=limits, anon=is_anonymous)
    files.retries = 1  # requests are made again here, for reading and writing alike
    return files


class RemoteFile:
    """A file whose server sends parts of it, read at any place by any thread: large parts as they are, small ones out of kept blocks.

    Parameters
    ----------
    path : RemotePath
    """

    read_at_once_bytes, read_through_bytes = 2**23, 2**19
    """A request costs more than the bytes between rows; see `qmcif_engine.io.tiff.tiff_pages`."""

    def __init__(self, path: RemotePath) -> None:
        self._path = path
        read_object(path, 0, 1)  # a server that sends no parts is refused
        described = _request(path, lambda files: files.info(_address(path)))
        if described.get("size") is None:
            raise _refuse_whole(path)
        version = str(described.get("ETag") or described.get("Last-Modified") or described.get("LastModified"))
        # a number in the place of the time of change that a file on disk has
        self._stamp = int(described["size"]), int.from_bytes(hashlib.sha256(version.encode()).digest()[:7], "big")
        self._block = lru_cache(MOST_BLOCKS)(lambda number: self._fetch(number * BLOCK_BYTES, (number + 1) * BLOCK_BYTES))

    def stamp(self) -> tuple[int, int]:
        """Return size and version of the file, as its server described them when it was opened."""
        return self._stamp

    def read(self, start: int, n_bytes: int) -> bytes:
        """Return the bytes from a position on; fewer where the file ends."""
        end = min(start + n_bytes, self._stamp[0])
        if end <= start:
            return b""
        first, last = start // BLOCK_BYTES, (end - 1) // BLOCK_BYTES
        # more than two blocks are samples, which are kept decoded elsewhere; less may be a directory
        if last - first > 1:
            return self._fetch(start, end)
        blocks = b"".join(self._block(number) for number in range(first, last + 1))
        return blocks[start - first * BLOCK_BYTES : end - first * BLOCK_BYTES]

    def _fetch(self, start: int, end: int) -> bytes:
        end = min(end, self._stamp[0])
        content = read_object(self._path, start, end)
        if len(content) != end - start:
            msg = f"its server sent {len(content)} instead of {end - start} bytes"
            raise OSError(msg)
        return content


@dataclass(frozen=True, slots=True)
class RemoteStore:
    """A Zarr store in a bucket while a run writes it."""

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
            if _list_below(self.folder):
                raise _refuse_taken(self.folder)
            # before the first chunk, so that every object that a killed run left can be recognized
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
            _remove(self.folder / _CLAIM)

    def hide(self) -> None:
        """Take the metadata of the root away, so that nobody opens a store whose other outputs could not be placed."""
        with suppress(OSError, ExecutionError):  # the server may be what failed
            _remove(self.folder / ROOT_METADATA)

    def discard(self, run: str) -> None:
        """Remove all objects of a store that this run had begun; nothing is done where it is another one's."""
        # with its metadata the store is complete, and somebody may read it
        if self._is_claimed(run) and not (self.folder / ROOT_METADATA).is_file():
            found = _list_below(self.folder)
            _request(self.folder, lambda files: files.rm(found))

    def _is_claimed(self, run: str) -> bool:
        try:
            return read_object(self.folder / _CLAIM) == run.encode()
        except FileNotFoundError:
            return False


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
    if not is_allowed and (target / ROOT_METADATA).is_file():
        raise _refuse_taken(target)


def _refuse_taken(target: RemotePath) -> OutputError:
    return OutputError(
        f"{str(target)!r} is there already, whole or in part; a new name is needed, for a bucket cannot replace a store in one step: "
        "choose another one, or remove it first"
    )
