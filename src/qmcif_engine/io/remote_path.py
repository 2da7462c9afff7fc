"""Addresses of files and Zarr stores on servers, with the methods of a path that readers and writers use.

An address may carry a password or a token. It is shown, recorded and compared with names of files without them; only a request sends them.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from qmcif_engine.errors import InvalidConfigError

SCHEMES = ("http", "https", "s3")
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_LONGEST_ADDRESS = 8192


@dataclass(frozen=True, slots=True)
class RemotePath:
    """A file or folder on a server.

    Attributes
    ----------
    scheme : str
        ``http``, ``https`` or ``s3``.
    server : str
        Machine and port, or bucket.
    place : str
        Path on the server, without a slash at either end, as it stands in the address.
    user : str
        Name and password as they stand in the address, empty where there are none.
    query : str
        What stands behind the question mark, sent with every request: signatures of addresses that expire.
    """

    scheme: str
    server: str
    place: str
    user: str = ""
    query: str = ""

    def __str__(self) -> str:
        """Return the address without name, password and query, for messages and records."""
        return f"{self.scheme}://{self.server}/{self.place}"

    def __repr__(self) -> str:
        """Return the address without name, password and query: tracebacks and logs show it."""
        return f"RemotePath({str(self)!r})"

    def __truediv__(self, name: str) -> RemotePath:
        """Return what lies in this folder."""
        return replace(self, place=f"{self.place}/{name}" if self.place else name)

    @property
    def address(self) -> str:
        """The whole address, for requests only."""
        user, query = f"{self.user}@" if self.user else "", f"?{self.query}" if self.query else ""
        return f"{self.scheme}://{user}{self.server}/{self.place}{query}"

    @property
    def key(self) -> str:
        """What stands for the whole address where it must not be shown, such as in names of files."""
        return hashlib.sha256(self.address.encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        """The last part."""
        return unquote(posixpath.basename(self.place))

    @property
    def suffix(self) -> str:
        """What the name ends in."""
        return posixpath.splitext(self.name)[1]

    @property
    def parent(self) -> RemotePath:
        """The folder around it."""
        return replace(self, place=posixpath.dirname(self.place))

    def with_name(self, name: str) -> RemotePath:
        """Return what has another name beside it."""
        return self.parent / name

    def absolute(self) -> RemotePath:
        """Return itself: every address is absolute."""
        return self

    def is_file(self) -> bool:
        """Return whether the server has such a file."""
        from qmcif_engine.io.remote import has_object

        return has_object(self)

    def is_dir(self) -> bool:
        """Return whether it is a Zarr group or array, the only folders that can be recognized without asking for lists."""
        return any((self / marker).is_file() for marker in ("zarr.json", ".zarray", ".zgroup"))

    def exists(self) -> bool:
        """Return whether there is a file or a Zarr folder."""
        return self.is_dir() or self.is_file()


Location: TypeAlias = "Path | RemotePath"
"""A file or folder, here or on a server."""


def locate(text: str) -> Location:
    """Return the file or folder that a text names.

    Raises
    ------
    InvalidConfigError
        For an address that nothing can be read from.
    """
    if _ADDRESS.match(text) is None:
        return Path(text)
    parts = urlsplit(text)
    # the last @: a password may hold others
    scheme, (user, _, server) = parts.scheme.lower(), parts.netloc.rpartition("@")
    remote = RemotePath(scheme, server, parts.path.strip("/"), user, parts.query)
    if scheme not in SCHEMES:
        msg = f"{str(remote)!r} begins with {scheme}://; http://, https://, s3:// or the name of a file is needed: copy it to one of these"
        raise InvalidConfigError(msg)
    names = remote.place.split("/")
    if not server or not remote.place or ".." in names or len(text) > _LONGEST_ADDRESS or any(ord(sign) < 33 for sign in text):
        msg = f"{str(remote)[:200]!r} is no address of a file; a server or bucket and a path without '..' and blanks are needed: correct it"
        raise InvalidConfigError(msg)
    if scheme == "s3" and (user or parts.query):
        msg = f"{str(remote)!r} was given with a password or a query; s3:// takes credentials from AWS' settings: leave them out"
        raise InvalidConfigError(msg)
    return remote
