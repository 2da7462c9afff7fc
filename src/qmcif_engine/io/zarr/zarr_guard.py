"""Stand between Zarr and the chunks on disk: refuse missing ones, and such that would unpack to more than a chunk."""

from __future__ import annotations

import stat
import zlib
from typing import TYPE_CHECKING

import imagecodecs
from zarr.abc.store import RangeByteRequest, SuffixByteRequest
from zarr.storage import LocalStore, WrapperStore

from qmcif_engine.errors import ImageFileError
from qmcif_engine.io.input.image_file import refuse_damaged

if TYPE_CHECKING:
    from pathlib import Path

    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

    from qmcif_engine.io.zarr.zarr_nodes import ZarrNode

_METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")
_LARGEST_OVERHEAD_BYTES = 2**20
_INFLATED_AT_ONCE = 2**20
_CHECKSUM_BYTES = 4


class GuardedStore(WrapperStore[LocalStore]):
    """Hand out the chunks of one array, each checked.

    Parameters
    ----------
    store : LocalStore
        Of the array's folder, read only.
    """

    _path: Path
    _node: ZarrNode
    _allow_missing: bool

    @classmethod
    def around(cls, folder: Path, node: ZarrNode, *, path: Path, allow_missing: bool) -> GuardedStore:
        """Return the store of an array.

        Parameters
        ----------
        folder : Path
        node : ZarrNode
            The checked metadata.
        path : Path
            What messages call the input.
        allow_missing : bool
            Whether a chunk that is not stored stands for the fill value.
        """
        store = cls(LocalStore(folder, read_only=True))
        store._path, store._node, store._allow_missing = path, node, allow_missing
        return store

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Return stored bytes; for a chunk only where it is there, and will not unpack to more than its size."""
        if key.rpartition("/")[2] in _METADATA:
            return await super().get(key, prototype, byte_range)
        n_bytes = self._measure(key)
        if n_bytes is None:
            return None
        if isinstance(byte_range, SuffixByteRequest):  # the index of a shard, which is not compressed
            return await super().get(key, prototype, byte_range)
        if isinstance(byte_range, RangeByteRequest):
            n_bytes = byte_range.end - byte_range.start
        chunk_bytes = self._node.chunk_bytes
        if n_bytes > 2 * chunk_bytes + _LARGEST_OVERHEAD_BYTES:
            raise refuse_damaged(self._path, f"chunk {key} is stored in {n_bytes} bytes where it holds {chunk_bytes}")
        value = await super().get(key, prototype, byte_range)
        if value is not None and self._unpacks_to_more(value.to_bytes()):
            raise refuse_damaged(self._path, f"chunk {key} unpacks to more than the {chunk_bytes} bytes of a chunk")
        return value

    def _measure(self, key: str) -> int | None:
        """Return the size of a stored chunk or shard; None for one that is missing where that is allowed."""
        try:
            status = (self._store.root / key).stat()
        except (FileNotFoundError, NotADirectoryError):
            if self._allow_missing:
                return None
            msg = (
                f"{str(self._path)!r} lacks the chunk {key}; all chunks are needed; copy it again, or allow missing chunks "
                "(allow_missing_chunks) where its program leaves out empty ones"
            )
            raise ImageFileError(msg) from None
        if not stat.S_ISREG(status.st_mode):
            raise refuse_damaged(self._path, f"chunk {key} is not a file")
        return status.st_size

    def _unpacks_to_more(self, stored: bytes) -> bool:
        packed = stored[:-_CHECKSUM_BYTES] if self._node.has_checksum else stored
        return unpacks_to_more(packed, self._node.compressor, limit_bytes=self._node.chunk_bytes)


def unpacks_to_more(packed: bytes, compressor: str, *, limit_bytes: int) -> bool:
    """Tell whether compressed bytes would take more memory than a limit, taking no more than that to find out.

    The decoders that Zarr uses believe whatever size the bytes claim, or have no bound at all.

    Parameters
    ----------
    packed : bytes
    compressor : str
        ``blosc``, ``gzip``, ``lz4``, ``zlib``, ``zstd``, or empty.
    limit_bytes : int
    """
    if compressor == "blosc":
        return int.from_bytes(packed[4:8], "little") > limit_bytes
    if compressor == "lz4":
        return int.from_bytes(packed[:4], "little") > limit_bytes
    if compressor == "zstd":
        return _zstd_exceeds(packed, limit_bytes)
    return compressor in ("gzip", "zlib") and _deflate_exceeds(packed, limit_bytes)


def _zstd_exceeds(packed: bytes, limit_bytes: int) -> bool:
    """Tell by the size in the header of the first frame; where it has none, by unpacking into a buffer of the limit."""
    flags = packed[4] if len(packed) > 4 else 0
    is_single, width = bool(flags & 0x20), (0, 2, 4, 8)[flags >> 6]
    width = width or int(is_single)
    if width:
        start = 5 + (not is_single) + (0, 1, 2, 4)[flags & 3]
        size = int.from_bytes(packed[start : start + width], "little") + (256 if width == 2 else 0)
        return size > limit_bytes
    try:
        imagecodecs.zstd_decode(packed, out=limit_bytes)
    except imagecodecs.ZstdError as error:
        return "too small" in str(error)
    return False


def _deflate_exceeds(packed: bytes, limit_bytes: int) -> bool:
    """Tell by unpacking piece by piece, without keeping any; damage is left to the decoder to find."""
    total = 0
    try:
        while packed:
            stream = zlib.decompressobj(wbits=47)  # zlib or gzip, whichever it is
            while not stream.eof:
                piece = stream.decompress(packed, _INFLATED_AT_ONCE)
                total += len(piece)
                if total > limit_bytes:
                    return True
                packed = stream.unconsumed_tail
                if not piece and not packed:
                    return False
            packed = stream.unused_data
    except zlib.error:
        return False
    return False
