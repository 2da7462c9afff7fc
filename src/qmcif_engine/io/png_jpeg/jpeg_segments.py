"""Embed profile, EXIF, resolution and provenance into a finished JPEG, for which no encoder at hand has a way."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qmcif_engine.io.metadata.embedding import Embedding, Resolution

logger = logging.getLogger(__name__)

_APP1, _APP2, _COMMENT = 0xE1, 0xE2, 0xFE
_HEADER_END = 2 + 18
"""Where the first segment ends: behind the start mark and the JFIF header, which the encoder always writes."""

_DENSITY = slice(13, 18)
_UNIT_CODES = {"inch": 1, "centimeter": 2}
_LARGEST_PAYLOAD_BYTES = 2**16 - 3
_LARGEST_DENSITY = 2**16 - 1
_EXIF_PREFIX = b"Exif\0\0"
_PROFILE_PREFIX = b"ICC_PROFILE\0"
_LARGEST_N_PIECES = 255


def embed_in_jpeg(encoded: bytes, embedding: Embedding) -> bytes:
    """Return the file with segments for what is embedded, in front of the samples; without any, the very same bytes.

    What no segment can hold is left out, with a line in the log: a resolution too fine for 16 bits, EXIF beyond 64 KB.
    """
    header = bytearray(encoded[:_HEADER_END])
    header[_DENSITY] = _density(embedding.resolution) or header[_DENSITY]
    segments = []
    if embedding.exif is not None:
        segments += _exif_segments(embedding.exif)
    if embedding.profile is not None:
        segments += _profile_segments(embedding.profile)
    if embedding.comment is not None:
        segments += _comment_segments(embedding.comment)
    return b"".join([bytes(header), *segments, encoded[_HEADER_END:]])


def _density(resolution: Resolution | None) -> bytes | None:
    if resolution is None:
        return None
    sides = [round(resolution.horizontal), round(resolution.vertical)]
    if not all(1 <= side <= _LARGEST_DENSITY for side in sides):
        logger.warning("JPEG cannot hold a resolution of %s by %s pixels per %s; it is left out", *sides, resolution.unit)
        return None
    return bytes([_UNIT_CODES[resolution.unit]]) + b"".join(side.to_bytes(2, "big") for side in sides)


def _exif_segments(exif: bytes) -> list[bytes]:
    if len(_EXIF_PREFIX) + len(exif) > _LARGEST_PAYLOAD_BYTES:
        logger.warning("JPEG cannot hold EXIF of %d bytes; it is left out", len(exif))
        return []
    return [_segment(_APP1, _EXIF_PREFIX + exif)]


def _profile_segments(profile: bytes) -> list[bytes]:
    """Return the profile in numbered pieces, as the ICC prescribes."""
    piece_bytes = _LARGEST_PAYLOAD_BYTES - len(_PROFILE_PREFIX) - 2
    pieces = [profile[start : start + piece_bytes] for start in range(0, len(profile), piece_bytes)]
    if len(pieces) > _LARGEST_N_PIECES:
        logger.warning("JPEG cannot hold a color profile of %d bytes; it is left out", len(profile))
        return []
    numbered = enumerate(pieces, start=1)
    return [_segment(_APP2, _PROFILE_PREFIX + bytes([number, len(pieces)]) + piece) for number, piece in numbered]


def _comment_segments(comment: str) -> list[bytes]:
    """Return the comment in as many segments as it takes, to be read one after the other."""
    text = comment.encode()
    return [_segment(_COMMENT, text[start : start + _LARGEST_PAYLOAD_BYTES]) for start in range(0, len(text), _LARGEST_PAYLOAD_BYTES)]


def _segment(marker: int, payload: bytes) -> bytes:
    return bytes([0xFF, marker]) + (len(payload) + 2).to_bytes(2, "big") + payload
