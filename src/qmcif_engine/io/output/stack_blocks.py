"""Blocks of many images, read ahead by several threads and handed over in order."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.io.output.picture import block_windows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from qmcif_engine.io.output.picture import Picture, WriteRun
    from qmcif_engine.stack.window import Window


class BlockReader:
    """Threads that read windows of pictures a little ahead of who writes them.

    Parameters
    ----------
    pool : ThreadPoolExecutor
    n_ahead : int
        Windows that are read or wait at a time; they bound memory.
    run : WriteRun
        Counts what was handed over, and may stop in between.
    """

    def __init__(self, pool: ThreadPoolExecutor, *, n_ahead: int, run: WriteRun) -> None:
        self._pool, self._n_ahead, self._run = pool, n_ahead, run

    def read(self, places: Iterable[tuple[Picture, Window]]) -> Iterator[NDArray[Any]]:
        """Yield the samples of each place, in the order of the places whichever thread is ready first."""
        waiting: deque[Future[NDArray[Any]]] = deque()
        for picture, window in places:
            self._run.check_cancelled()
            waiting.append(self._pool.submit(picture.read, window))
            if len(waiting) >= self._n_ahead:
                yield self._take(waiting)
        while waiting:
            self._run.check_cancelled()
            yield self._take(waiting)

    def read_whole(self, picture: Picture) -> NDArray[Any]:
        """Return all samples of one picture."""
        samples = np.empty(picture.shape, picture.dtype)
        windows = list(block_windows(picture.shape))
        for window, block in zip(windows, self.read((picture, window) for window in windows), strict=True):
            samples[window.slices] = block
        return samples

    def ahead_of(self, picture: Picture) -> Picture:
        """Return the picture for a writer that reads its blocks one after the other: the next ones are read meanwhile."""
        return _PictureAhead(picture, self._pool, n_ahead=self._n_ahead)

    def _take(self, waiting: deque[Future[NDArray[Any]]]) -> NDArray[Any]:
        block = waiting.popleft().result()
        self._run.count_block()
        return block


class _PictureAhead:
    """A picture whose blocks are read before they are asked for, in the order of `block_windows`."""

    def __init__(self, picture: Picture, pool: ThreadPoolExecutor, *, n_ahead: int) -> None:
        self.shape, self.dtype = picture.shape, picture.dtype
        self._picture, self._pool, self._n_ahead = picture, pool, n_ahead
        self._windows = list(block_windows(picture.shape))
        self._position = {window: position for position, window in enumerate(self._windows)}
        self._waiting: dict[Window, Future[NDArray[Any]]] = {}

    def read(self, window: Window) -> NDArray[Any]:
        position = self._position[window]
        for following in self._windows[position : position + self._n_ahead]:
            if following not in self._waiting:
                self._waiting[following] = self._pool.submit(self._picture.read, following)
        return self._waiting.pop(window).result()


@contextmanager
def reading_ahead(n_workers: int, *, run: WriteRun) -> Iterator[BlockReader]:
    """Offer a reader with so many threads; what is still waiting when the block ends is dropped."""
    pool = ThreadPoolExecutor(n_workers, thread_name_prefix="qmcif-read")
    try:
        yield BlockReader(pool, n_ahead=2 * n_workers, run=run)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
