"""Files on HTTP servers and objects in buckets, through fsspec; a request whose connection is lost is made again."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from time import sleep
from typing import Any, TypeVar

from qmcif_engine.errors import ExecutionError, MissingExtraError
from qmcif_engine.io.remote.remote_path import RemotePath

logger = logging.getLogger(__name__)

CONNECT_SECONDS, SILENT_SECONDS = 15, 60
"""How long a server may take to answer, and how long it may send nothing."""

PAUSES_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Before the second request, the third and so on: a server that starts anew is back within these."""

_BUSY = (408, 429, 500, 502, 503, 504)
_PASSING_ERRORS = (errno.EBUSY, errno.EIO, errno.ETIMEDOUT, errno.ECONNRESET, errno.ECONNREFUSED, errno.ECONNABORTED, errno.EPIPE)
_LASTING = {"ClientResponseError", "InvalidURL", "TooManyRedirects"}
_LOST = {"ClientError", "ConnectionError", "HTTPClientError", "IncompleteReadError", "ResponseParserError"}
"""Classes of aiohttp and botocore by name, since neither has to be installed: failures that stay, and those that may be gone soon."""

_opened: dict[tuple[int, str], Any] = {}
"""File systems of fsspec by process and kind: connections are kept between requests, and never inherited."""

_Result = TypeVar("_Result")


def read_object(path: RemotePath, *, start: int | None = None, end: int | None = None) -> bytes:
    """Return an object, or the part of it between two positions, of which a negative start counts from the end.

    Raises
    ------
    FileNotFoundError, PermissionError, OSError
        What the server answers.
    ExecutionError
        When no complete answer came after several requests.
    """
    content: bytes = _request(path, lambda files: files.cat_file(_address(path), start=start, end=end))
    return content


def has_object(path: RemotePath) -> bool:
    """Return whether the server has an object of exactly this name."""
    try:
        # some servers answer no other question than for bytes
        read_object(path, start=0, end=1)
    except FileNotFoundError:
        return False
    return True


def describe_object(path: RemotePath) -> dict[str, Any]:
    """Return what the server says of an object: its size, and what changes with its content."""
    return dict(_request(path, lambda files: files.info(_address(path))))


def write_object(path: RemotePath, content: bytes) -> None:
    """Write an object of a bucket; it is there whole or not at all."""
    _request(path, lambda files: files.pipe_file(_address(path), content))


def remove_object(path: RemotePath) -> None:
    """Remove one object of a bucket, if it is there."""
    _request(path, lambda files: files.rm_file(_address(path)))


def list_objects(path: RemotePath) -> list[str]:
    """Return the keys of all objects of a bucket that lie below a name."""
    return list(_request(path, lambda files: files.find(_address(path) + "/")))


def remove_objects(path: RemotePath) -> None:
    """Remove all objects of a bucket that lie below a name."""
    found = list_objects(path)
    if found:
        _request(path, lambda files: files.rm(found))


def _address(path: RemotePath) -> str:
    return f"{path.server}/{path.place}" if path.scheme == "s3" else path.address


def _request(path: RemotePath, ask: Callable[[Any], _Result]) -> _Result:
    """Return the answer to a request; no error says more of an address than its name, which leaves out passwords and tokens."""
    for pause in (*PAUSES_SECONDS, None):
        try:
            return ask(_connect(path.scheme))
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
            if pause is None:
                msg = (
                    f"{str(path)!r} was asked for {len(PAUSES_SECONDS) + 1} times and no complete answer came ({type(error).__name__}); "
                    "its server is needed: check the address and the network, and start again, with --resume where a run was going on"
                )
                raise ExecutionError(msg) from None
            logger.warning("%r does not answer (%s); it is asked again in %g s", str(path), type(error).__name__, pause)
            sleep(pause)
    msg = "unreachable"
    raise AssertionError(msg)


def _is_passing(error: Exception, status: int | None) -> bool:
    """Return whether a failure may be gone soon: lost and refused connections, timeouts, servers that are busy."""
    classes = {each.__name__ for each in type(error).__mro__}
    is_busy = status in _BUSY or isinstance(error, (ConnectionError, TimeoutError))
    # not its subclasses: a missing file stays missing
    return is_busy or (type(error) is OSError and error.errno in _PASSING_ERRORS) or (bool(classes & _LOST) and not classes & _LASTING)


def _connect(scheme: str) -> Any:  # noqa: ANN401 - a file system of fsspec
    """Return fsspec's connections to a kind of server, which this process has opened for itself."""
    kind = (os.getpid(), "s3" if scheme == "s3" else "http")
    if kind not in _opened:
        try:
            import fsspec

            _opened[kind] = _connect_buckets(fsspec) if scheme == "s3" else _connect_servers(fsspec)
        except ImportError as error:
            msg = (
                f"files at {scheme}:// were named and {error.name} is not installed; it is needed to read them: "
                "pip install 'napari-qmcif[remote]', or copy them here"
            )
            raise MissingExtraError(msg) from error
    return _opened[kind]


def _connect_servers(fsspec: Any) -> Any:  # noqa: ANN401
    import aiohttp

    limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENT_SECONDS)
    return fsspec.filesystem("http", skip_instance_cache=True, client_kwargs={"timeout": limits})


def _connect_buckets(fsspec: Any) -> Any:  # noqa: ANN401
    import botocore.session

    given = fsspec.config.conf.get("s3", {})
    has_own = any(given.get(name) for name in ("anon", "key", "username", "profile"))
    # where nobody is known to AWS' settings, only public buckets can be meant
    is_anonymous = bool(given.get("anon")) or (not has_own and botocore.session.Session().get_credentials() is None)
    limits = {"connect_timeout": CONNECT_SECONDS, "read_timeout": SILENT_SECONDS, "retries": {"total_max_attempts": 1}}
    files = fsspec.filesystem("s3", skip_instance_cache=True, use_listings_cache=False, config_kwargs=limits, anon=is_anonymous)
    files.retries = 1  # requests are made again here, for reading and writing alike
    return files
