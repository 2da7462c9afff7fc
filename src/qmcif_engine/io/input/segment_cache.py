"""A cache of decoded strips, tiles and chunks within a fixed number of bytes, and of the open files they come from."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from qmcif_engine.io.input.open_files import OpenFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray

DEFAULT_CACHE_BYTES = 64 * 2**20
"""Room for a few full-width strips of a large image, so that neighboring windows do not decode them again."""


def fill_from_segments(
    samples: NDArray[Any], bounds: Sequence[slice], *, lengths: Sequence[int], fetch: Callable[[tuple[int, ...]], NDArray[Any]]
) -> None:
    """Fill an array from the segments of a regular grid that it touches.

    Parameters
    ----------
    samples : ndarray
        Receives what lies within `bounds`, which are those of its first axes.
    bounds : sequence of slice
    lengths : sequence of int
        Of a segment, along the same axes.
    fetch : callable
        Returns the segment that begins at an index, cut where the grid ends.
    """
    steps = [range(side.start // length * length, side.stop, length) for side, length in zip(bounds, lengths, strict=True)]
    for corner in itertools.product(*steps):
        segment = fetch(corner)
        overlaps = [
            (max(first, side.start), min(first + length, side.stop), first, side.start)
            # segments may have further axes, such as samples, which are taken whole
            for first, length, side in zip(corner, segment.shape, bounds, strict=False)
        ]
        taken = segment[tuple(slice(start - first, end - first) for start, end, first, _ in overlaps)]
        samples[tuple(slice(start - origin, end - origin) for start, end, _, origin in overlaps)] = taken


class SegmentCache:
    """The segments and the files used last; threads may share it, and a copy in another process starts empty.

    Parameters
    ----------
    limit_bytes : int
        What all held segments may take together. A segment larger than that is returned but not held.

    Attributes
    ----------
    files : OpenFiles
    """

    def __init__(self, limit_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self.limit_bytes, self.files = limit_bytes, OpenFiles()
        self._segments: OrderedDict[Hashable, NDArray[Any]] = OrderedDict()
        self._held_bytes = 0
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[SegmentCache], tuple[int]]:
        """Send only the limit: the other process decodes what it needs."""
        return SegmentCache, (self.limit_bytes,)

    def fetch(self, key: Hashable, decode: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return the segment of this key, decoding it where it is not held. Callers must not write into it."""
        with self._lock:
            if key in self._segments:
                self._segments.move_to_end(key)
                return self._segments[key]
        segment = decode()  # outside the lock: decoding in several threads at once is the point of having them
        with self._lock:
            # another thread may have decoded the same meanwhile
            if key not in self._segments and segment.nbytes <= self.limit_bytes:
                self._segments[key] = segment
                self._held_bytes += segment.nbytes
            while self._held_bytes > self.limit_bytes:
                self._held_bytes -= self._segments.popitem(last=False)[1].nbytes
        return segment
