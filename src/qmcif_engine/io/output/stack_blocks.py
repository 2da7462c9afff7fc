"""Blocks of many images, worked on by several of Dask's threads and handed over in order."""

from __future__ import annotations

import threading
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from qmcif_engine.io.output.picture import block_windows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from qmcif_engine.io.output.picture import Picture, WriteRun
    from qmcif_engine.stack.window import Window

_BlockT = TypeVar("_BlockT")
_ResultT = TypeVar("_ResultT")

_BLOCKS_A_THREAD = 2


class BlockThreads:
    """Dask's threads of this process, working on a few blocks of a run at a time.

    Parameters
    ----------
    n_workers : int
        Blocks at once.
    run : WriteRun
        Counts what was handed over, and may stop in between.
    """

    def __init__(self, n_workers: int, *, run: WriteRun) -> None:
        self._n_workers, self._run = n_workers, run
        self.batch_size = _BLOCKS_A_THREAD * n_workers

    def map(self, work: Callable[[_BlockT], _ResultT], blocks: Iterable[_BlockT]) -> Iterator[_ResultT]:
        """Yield the result of each block in the order of the blocks; memory holds the results of one batch."""
        remaining = iter(blocks)
        while batch := list(islice(remaining, self.batch_size)):
            self._run.check_cancelled()
            for result in self.compute(work, batch):
                self._run.count_block()
                yield result

    def compute(self, work: Callable[[_BlockT], _ResultT], blocks: Sequence[_BlockT]) -> list[_ResultT]:
        """Return the result of every block; however this ends, no thread is at work on a block afterwards.

        Dask itself leaves running tasks behind when one of them fails or the caller is interrupted: they could still write to a folder
        that is being removed. Here every task takes one of as many places as there are threads, and the end waits for all places.
        """
        # a heavy import that only those need who write stacks
        from dask.threaded import get

        places, is_over = threading.Semaphore(self._n_workers), threading.Event()

        def work_unless_over(block: _BlockT) -> _ResultT | None:
            with places:
                return None if is_over.is_set() else work(block)

        graph = {("block", position): (partial(work_unless_over, block),) for position, block in enumerate(blocks)}
        after_each = (None, None, None, lambda *_: self._run.check_cancelled(), None)  # called in this thread
        try:
            return list(get(graph, list(graph), num_workers=self._n_workers, callbacks=[after_each]))
        finally:
            is_over.set()
            for _ in range(self._n_workers):
                places.acquire()
            places.release(self._n_workers)

    def read(self, picture: Picture) -> Iterator[NDArray[Any]]:
        """Yield the samples of each block of a picture, in the order of `block_windows`."""
        return self.map(picture.read, block_windows(picture.shape))

    def read_whole(self, picture: Picture) -> NDArray[Any]:
        """Return all samples of one picture."""
        samples = np.empty(picture.shape, picture.dtype)
        for window, block in zip(block_windows(picture.shape), self.read(picture), strict=True):
            samples[window.slices] = block
        return samples

    def ahead_of(self, picture: Picture) -> Picture:
        """Return the picture for a writer that reads its blocks one after the other: they are read in batches."""
        return _PictureAhead(picture, self)


class _PictureAhead:
    """A picture whose blocks are read some before they are asked for, in the order of `block_windows`."""

    def __init__(self, picture: Picture, threads: BlockThreads) -> None:
        self.shape, self.dtype = picture.shape, picture.dtype
        self._picture, self._threads = picture, threads
        self._windows = list(block_windows(picture.shape))
        self._position = {window: position for position, window in enumerate(self._windows)}
        self._ready: dict[Window, NDArray[Any]] = {}

    def read(self, window: Window) -> NDArray[Any]:
        if window not in self._ready:
            position = self._position[window]
            batch = self._windows[position : position + self._threads.batch_size]
            self._ready = dict(zip(batch, self._threads.compute(self._picture.read, batch), strict=True))
        return self._ready.pop(window)
