"""Embed profile, EXIF, resolution and provenance into a finished PNG, for which no encoder at hand has a way."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qmcif_engine.io.metadata.embedding import Embedding

_HEADER_END = 8 + 25
"""Where the first chunk ends: behind the signature and the header, which has 13 bytes, a length, a name and a checksum."""

_LARGEST_NUMBER = 2**31 - 1
_METER = 1
_COMMENT_KEYWORD = b"Comment"
_SOFTWARE_KEYWORD = b"Software"


def embed_in_png(encoded: bytes, embedding: Embedding) -> bytes:
    """Return the file with chunks for what is embedded, in front of the samples; without any, the very same bytes."""
    chunks = []
    if embedding.profile is not None:
        chunks.append(_chunk(b"iCCP", b"ICC profile\0\0" + zlib.compress(embedding.profile, 9)))
    if embedding.resolution is not None:
        horizontal, vertical = (min(round(dots), _LARGEST_NUMBER) for dots in embedding.resolution.per_meter)
        chunks.append(_chunk(b"pHYs", horizontal.to_bytes(4, "big") + vertical.to_bytes(4, "big") + bytes([_METER])))
    if embedding.exif is not None:
        chunks.append(_chunk(b"eXIf", embedding.exif))
    if embedding.software is not None:
        chunks.append(_text(_SOFTWARE_KEYWORD, embedding.software))
    if embedding.comment is not None:
        chunks.append(_text(_COMMENT_KEYWORD, embedding.comment))
    return b"".join([encoded[:_HEADER_END], *chunks, encoded[_HEADER_END:]]) if chunks else encoded


def _text(keyword: bytes, text: str) -> bytes:
    is_compressed, method, language, translated = b"\0", b"\0", b"\0", b"\0"
    return _chunk(b"iTXt", keyword + b"\0" + is_compressed + method + language + translated + text.encode())


def _chunk(name: bytes, payload: bytes) -> bytes:
    body = name + payload
    return len(payload).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
