from __future__ import annotations

import gzip
import lzma
import zlib

import imagecodecs
import numcodecs
import numpy as np
import pytest

from qmcif_engine.io.zarr.zarr_checks import unpacks_to_more

LIMIT = 100_000
PACKERS = {
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "lz4": numcodecs.LZ4().encode,
    "zstd": numcodecs.Zstd().encode,
    "blosc": lambda raw: numcodecs.Blosc().encode(np.frombuffer(raw, np.uint8)),
}


@pytest.mark.parametrize("compressor", PACKERS)
@pytest.mark.parametrize("n_bytes", [0, 1, 300, 70_000, LIMIT])
def test_what_fits_passes(compressor, n_bytes):
    assert not unpacks_to_more(bytes(PACKERS[compressor](bytes(n_bytes))), compressor, limit_bytes=LIMIT)


@pytest.mark.parametrize("compressor", PACKERS)
@pytest.mark.parametrize("n_bytes", [LIMIT + 1, 50_000_000])
def test_what_unpacks_to_more_is_found(compressor, n_bytes):
    assert unpacks_to_more(bytes(PACKERS[compressor](bytes(n_bytes))), compressor, limit_bytes=LIMIT)


def prepare_check(compressor, n_bytes):
    packed = bytes(PACKERS[compressor](bytes(n_bytes)))
    return lambda: unpacks_to_more(packed, compressor, limit_bytes=LIMIT)


@pytest.mark.parametrize("compressor", PACKERS)
def test_what_unpacks_to_more_is_not_unpacked(compressor, peak_of):
    assert peak_of(prepare_check, compressor, 50_000_000) < 5_000_000


def test_several_gzip_members_count_together():
    assert unpacks_to_more(gzip.compress(bytes(60_000)) * 2, "gzip", limit_bytes=LIMIT)
    assert not unpacks_to_more(gzip.compress(bytes(50_000)) * 2, "gzip", limit_bytes=LIMIT)


def streamed_zstd(n_bytes: int) -> bytes:
    """A frame that does not say its size: one raw block a piece, as the specification has it."""
    pieces = [min(100_000, n_bytes - start) for start in range(0, n_bytes, 100_000)]
    blocks = [((size << 3) | 2 | (number == len(pieces) - 1)).to_bytes(3, "little") + b"\0" for number, size in enumerate(pieces)]
    return b"\x28\xb5\x2f\xfd" + b"\x00" + b"\x58" + b"".join(blocks)


def test_zstd_frame_of_unstated_size_is_measured():
    assert len(imagecodecs.zstd_decode(streamed_zstd(90_000), out=200_000)) == 90_000
    assert not unpacks_to_more(streamed_zstd(90_000), "zstd", limit_bytes=LIMIT)
    assert unpacks_to_more(streamed_zstd(900_000), "zstd", limit_bytes=LIMIT)


@pytest.mark.parametrize("compressor", ["gzip", "zlib", "zstd"])
@pytest.mark.parametrize("packed", [b"", b"\x01", b"\x01\x02\x03", lzma.compress(b"x")[:7]])
def test_damage_is_left_to_the_decoder(compressor, packed):
    assert not unpacks_to_more(packed, compressor, limit_bytes=LIMIT)


def test_uncompressed_bytes_never_unpack_to_more():
    assert not unpacks_to_more(bytes(1000), "", limit_bytes=10)
