"""Requests to HTTP servers and to object stores, through fsspec: whole objects or parts of them, never more bytes than agreed on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from qmcif_engine.errors import MissingExtraError
from qmcif_engine.io.remote.retrying import Busy, retry

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from qmcif_engine.io.remote.remote_path import RemotePath

CONNECT_SECONDS = 15
SILENT_SECONDS = 60
"""How long a server may send nothing."""

ANSWER_SECONDS = 1800
"""How long one answer may take: the largest chunk at a few hundred kilobytes a second."""

MOST_REDIRECTS = 5
_PIECE_BYTES = 2**18
_OK, _PARTIAL = 200, 206
_MISSING, _FORBIDDEN, _BUSY = (404, 410), (401, 403), (408, 429, 500, 502, 503, 504)
_CHANGED, _OUTSIDE = 412, 416

_opened: dict[tuple[int, str], Any] = {}
"""File systems of fsspec by process and kind: connections are kept between requests, and never inherited."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server sent.

    Attributes
    ----------
    content : bytes
    is_part : bool
        Whether these are the bytes that were asked for, rather than all of them.
    n_bytes : int or None
        Size of the whole object, where the server tells it.
    version : str
        What the server says changes with the content; empty where it says nothing.
    """

    content: bytes
    is_part: bool
    n_bytes: int | None
    version: str


def read_object(path: RemotePath, *, part: str = "", largest_bytes: int) -> Answer:
    """Return an object, or a part of it.

    Parameters
    ----------
    path : RemotePath
    part : str
        Bytes that are wanted, such as ``0-99`` or ``-16`` for the last ones; all where it is empty.
    largest_bytes : int
        A longer answer is not read to its end.

    Raises
    ------
    FileNotFoundError, PermissionError, OSError
        What the server answers.
    ValueError
        For more bytes than agreed on.
    ExecutionError
        When no complete answer came after several requests.
    """
    ask = _get_object if path.scheme == "s3" else _get_page
    answer: Answer = _request(path, partial(ask, path=path, part=part, largest_bytes=largest_bytes))
    return answer


def has_object(path: RemotePath) -> bool:
    """Return whether the server has an object of exactly this name."""
    try:
        _request(path, partial(_head_object if path.scheme == "s3" else _head_page, path=path))
    except FileNotFoundError:
        return False
    return True


def write_object(path: RemotePath, content: bytes) -> None:
    """Write an object of a bucket; it is there whole or not at all."""
    _request(path, partial(_put_object, path=path, content=content))


def remove_object(path: RemotePath) -> None:
    """Remove one object of a bucket, if it is there."""
    _request(path, partial(_remove_object, path=path))


def remove_objects(path: RemotePath) -> None:
    """Remove all objects of a bucket that lie below a name."""
    _request(path, partial(_remove_objects, path=path))


def count_objects(path: RemotePath) -> int:
    """Return how many objects lie below a name in a bucket, up to the thousand that one answer lists."""
    return int(_request(path, partial(_count_objects, path=path)))


def _request(path: RemotePath, ask: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:  # noqa: ANN401 - what the request returns
    files = _open_files(path.scheme)
    from fsspec.asyn import sync

    return retry(lambda: sync(files.loop, ask, files), path)


def _open_files(scheme: str) -> Any:  # noqa: ANN401 - a file system of fsspec
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

    limits = aiohttp.ClientTimeout(total=ANSWER_SECONDS, sock_connect=CONNECT_SECONDS, sock_read=SILENT_SECONDS)
    # nothing is unpacked on the way: a small packed answer could fill the memory
    return fsspec.filesystem("http", skip_instance_cache=True, client_kwargs={"timeout": limits, "auto_decompress": False})


def _connect_buckets(fsspec: Any) -> Any:  # noqa: ANN401
    import s3fs

    limits = {"connect_timeout": CONNECT_SECONDS, "read_timeout": SILENT_SECONDS, "retries": {"total_max_attempts": 1}}
    options = {"use_listings_cache": False, "config_kwargs": limits, "anon": _is_anonymous(fsspec)}
    files = s3fs.S3FileSystem(skip_instance_cache=True, **options)
    files.retries = 1  # we ask again ourselves, for reading and writing alike
    return files


def _is_anonymous(fsspec: Any) -> bool:  # noqa: ANN401
    """Return whether nobody is known to AWS' settings, so that only public buckets can be meant."""
    import botocore.session

    given = fsspec.config.conf.get("s3", {})
    has_own = any(given.get(name) for name in ("anon", "key", "username", "profile"))
    return bool(given.get("anon")) or (not has_own and botocore.session.Session().get_credentials() is None)


async def _get_page(files: Any, *, path: RemotePath, part: str, largest_bytes: int) -> Answer:  # noqa: ANN401
    session = await files.set_session()
    # packed answers could not be bounded by their length
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={part}"} if part else {})}
    async with session.get(files.encode_url(path.address), headers=headers, max_redirects=MOST_REDIRECTS) as response:
        _check_status(response, path)
        is_part = response.status == _PARTIAL
        if part and not is_part:  # all of it, which nobody asked for
            return Answer(b"", is_part=False, n_bytes=response.content_length, version="")
        pieces = [piece async for piece in _bounded(response.content.iter_chunked(_PIECE_BYTES), largest_bytes)]
        whole = response.headers.get("Content-Range", "").rpartition("/")[2] if is_part else str(response.content_length)
        # either changes with the file; some servers send only one of them
        version = response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
    return Answer(b"".join(pieces), is_part=is_part, n_bytes=int(whole) if whole.isdecimal() else None, version=version)


async def _head_page(files: Any, *, path: RemotePath) -> None:  # noqa: ANN401
    """Ask for a single byte: some servers answer no other question than GET."""
    session = await files.set_session()
    headers = {"Accept-Encoding": "identity", "Range": "bytes=0-0"}
    async with session.get(files.encode_url(path.address), headers=headers, max_redirects=MOST_REDIRECTS) as response:
        if response.status != _OUTSIDE:  # an empty file
            _check_status(response, path)


def _check_status(response: Any, path: RemotePath) -> None:  # noqa: ANN401
    """Raise what the answer means, unless it brings what was asked for over a connection as safe as the address says."""
    status = int(response.status)
    # after a redirect
    if path.scheme == "https" and response.url.scheme != "https":
        msg = f"its server leads on to an unencrypted address, on {response.url.host}"
        raise OSError(msg)
    if status in _MISSING:
        msg = f"its server has no such file (status {status})"
        raise FileNotFoundError(msg)
    if status in _FORBIDDEN:
        msg = f"its server allows no access (status {status})"
        raise PermissionError(msg)
    if status in _BUSY:
        msg = f"status {status}"
        raise Busy(msg)
    if status not in (_OK, _PARTIAL):
        msg = f"its server answers with status {status}"
        raise OSError(msg)


async def _bounded(pieces: Any, largest_bytes: int) -> Any:  # noqa: ANN401
    """Yield pieces of an answer as long as they are no more than agreed on."""
    total = 0
    async for piece in pieces:
        total += len(piece)
        if total > largest_bytes:
            msg = f"it is larger than {largest_bytes} bytes"
            raise ValueError(msg)
        yield piece


async def _get_object(files: Any, *, path: RemotePath, part: str, largest_bytes: int) -> Answer:  # noqa: ANN401
    answer = await files._call_s3("get_object", Bucket=path.server, Key=path.place, **({"Range": f"bytes={part}"} if part else {}))
    async with answer["Body"] as body:
        pieces = [piece async for piece in _bounded(body.iter_chunks(_PIECE_BYTES), largest_bytes)]
    whole = answer.get("ContentRange", "").rpartition("/")[2] if part else str(answer["ContentLength"])
    return Answer(b"".join(pieces), is_part=bool(part), n_bytes=int(whole) if whole.isdecimal() else None, version=answer.get("ETag", ""))


async def _head_object(files: Any, *, path: RemotePath) -> None:  # noqa: ANN401
    await files._call_s3("head_object", Bucket=path.server, Key=path.place)


async def _put_object(files: Any, *, path: RemotePath, content: bytes) -> None:  # noqa: ANN401
    await files._pipe_file(f"{path.server}/{path.place}", content)


async def _remove_object(files: Any, *, path: RemotePath) -> None:  # noqa: ANN401
    await files._call_s3("delete_object", Bucket=path.server, Key=path.place)


async def _remove_objects(files: Any, *, path: RemotePath) -> None:  # noqa: ANN401
    found = [name async for name in _list_objects(files, path)]
    # as many as S3 takes in one request
    for start in range(0, len(found), 1000):
        listed = {"Objects": [{"Key": name} for name in found[start : start + 1000]], "Quiet": True}
        await files._call_s3("delete_objects", Bucket=path.server, Delete=listed)


async def _list_objects(files: Any, path: RemotePath) -> Any:  # noqa: ANN401
    more: dict[str, str] = {}
    while True:
        # with the slash: a store is no part of another whose name begins like its own
        answer = await files._call_s3("list_objects_v2", Bucket=path.server, Prefix=f"{path.place}/", **more)
        for item in answer.get("Contents", ()):
            yield item["Key"]
        if not answer.get("IsTruncated"):
            return
        more = {"ContinuationToken": answer["NextContinuationToken"]}


async def _count_objects(files: Any, *, path: RemotePath) -> int:  # noqa: ANN401
    answer = await files._call_s3("list_objects_v2", Bucket=path.server, Prefix=f"{path.place}/", MaxKeys=1000)
    return len(answer.get("Contents", ()))
