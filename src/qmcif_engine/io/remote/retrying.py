"""Requests that are made again when a connection is lost, with growing pauses, and the error when all of them fail."""

from __future__ import annotations

import errno
import logging
from time import sleep
from typing import TYPE_CHECKING, TypeVar

from qmcif_engine.errors import ExecutionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from qmcif_engine.io.remote.remote_path import RemotePath

logger = logging.getLogger(__name__)

PAUSES_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Before the second request, the third and so on: a server that starts anew is back within these."""

_PASSING_ERRORS = (errno.EBUSY, errno.EIO, errno.ETIMEDOUT, errno.ECONNRESET, errno.ECONNREFUSED, errno.ECONNABORTED, errno.EPIPE)

_Result = TypeVar("_Result")


class Busy(OSError):
    """A server's answer that it cannot serve the request now."""


def retry(request: Callable[[], _Result], path: RemotePath) -> _Result:
    """Return what a request returns, making it again where no answer or a passing failure came back.

    Raises
    ------
    ExecutionError
        When the last request failed in the same way.
    """
    for pause in (*PAUSES_SECONDS, None):
        try:
            return request()
        except Exception as error:
            if not _is_passing(error):
                if _is_of_client(error):  # its text names addresses with all they carry
                    msg = f"its server answers in a way that cannot be followed, {type(error).__name__}"
                    # from None: a traceback would show the address too
                    raise OSError(msg) from None
                raise
            if pause is None:
                raise _give_up(path, _describe(error, path)) from None
            logger.warning("%r does not answer (%s); it is asked again in %g s", str(path), type(error).__name__, pause)
            sleep(pause)
    msg = "unreachable"
    raise AssertionError(msg)


def _is_passing(error: Exception) -> bool:
    """Return whether a failure may be gone soon: lost and refused connections, timeouts, servers that are busy."""
    if isinstance(error, (Busy, ConnectionError, TimeoutError)):
        return True
    # not its subclasses: a missing file stays missing
    if type(error) is OSError and error.errno in _PASSING_ERRORS:
        return True
    names = _list_classes(error)
    if _is_of_client(error):
        return not names & {"aiohttp.InvalidURL", "aiohttp.TooManyRedirects", "aiohttp.ClientResponseError"}
    # connections of botocore, and answers that end too early
    lost = {"botocore.ConnectionError", "botocore.HTTPClientError", "botocore.IncompleteReadError", "botocore.ResponseParserError"}
    return bool(names & lost)


def _is_of_client(error: Exception) -> bool:
    return "aiohttp.ClientError" in _list_classes(error)


def _list_classes(error: Exception) -> set[str]:
    """Return the classes of an error by name: the libraries of servers that are not used need not be there."""
    return {f"{each.__module__.partition('.')[0]}.{each.__name__}" for each in type(error).__mro__}


def _describe(error: Exception, path: RemotePath) -> str:
    """Return the text of an error without what an address carries."""
    text = " ".join(str(error).split())
    for secret in filter(None, (path.user, path.query)):
        text = text.replace(secret, "...")
    return text[:160] or type(error).__name__


def _give_up(path: RemotePath, reason: str) -> ExecutionError:
    return ExecutionError(
        f"{str(path)!r} was asked for {len(PAUSES_SECONDS) + 1} times and no complete answer came ({reason}); its server is needed: check "
        "the address and the network, and start again, with --resume where a run was going on"
    )
