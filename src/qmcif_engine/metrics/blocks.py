"""Passes over the blocks of images of one size, computed by Dask with progress and cancellation; a small image is one block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from operator import add
from typing import Any

from qmcif_engine.io.dask_threads import count_cores
from qmcif_engine.stack.window import Window

LARGEST_WHOLE_PX = 4 << 20
"""Pixels up to which the transforms of Q_P and Q_CB see the whole image, since they take some 200 bytes per pixel."""

BLOCK_PX = 768
"""Side of a block of a larger image. With the margin of phase congruency it is 1024, which transforms fast."""

LARGEST_WHOLE_SIDE_PX = 1024
"""Side that is not cut; a narrow image is cut along its length only."""

LOCAL_BLOCK_PX = 256
"""Side of a block for metrics that look at small windows: its maps stay in the processor's cache."""

MOST_THREADS = 4
"""Blocks at once: each takes up to 150 MB, however many images there are."""

STEPS_A_PASS = 20
# a tree of small sums: Dask frees the values of finished blocks early instead of keeping all for one last task
_SUMS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class EvaluationProgress:
    """How many of the steps of an evaluation are done, and which metric the last one belonged to."""

    done: int
    total: int
    metric: str


class Passes:
    """Passes over images of one size, each of `STEPS_A_PASS` steps of progress.

    Nothing but this process computes, whatever scheduler or progress bar the user has set up for other computations: small images in the
    calling thread, large ones in Dask's threads.

    Parameters
    ----------
    shape : tuple of int
        Height and width.
    progress : callable, optional
        Receives each step, in the calling thread; what it raises ends the evaluation.

    Attributes
    ----------
    is_whole : bool
        Whether blocks of transforms are the whole image.
    sides : tuple of int
        Height and width of the blocks of transforms; along a side that is not cut, the length of that side.
    """

    def __init__(self, shape: tuple[int, ...], progress: Callable[[EvaluationProgress], None] | None = None) -> None:
        self.shape = (shape[0], shape[1])
        self.is_whole = shape[0] * shape[1] <= LARGEST_WHOLE_PX
        largest = max(self.shape) if self.is_whole else LARGEST_WHOLE_SIDE_PX
        self.sides = tuple(side if side <= largest else BLOCK_PX for side in self.shape)
        self.n_passes = 0
        self._progress = progress
        self._metric, self._n_done, self._n_before = "", 0, 0
        self._n_steps, self._n_ended = 1, 0

    def compute(self, metric: str, *collections: Any) -> tuple[Any, ...]:  # noqa: ANN401 - dask collections and their results
        """Compute dask collections as one pass of a metric."""
        from dask.base import compute

        self._metric, self._n_before, self._n_ended = metric, self._n_done, 0
        # callbacks that are given replace the active ones; Dask's five are start, start_state, pretask, posttask and finish
        observer = (None, self._start, None, self._end_task, None)
        scheduler = "sync" if self.is_whole else "threads"
        n_threads = min(MOST_THREADS, count_cores())
        results: tuple[Any, ...] = compute(*collections, scheduler=scheduler, num_workers=n_threads, callbacks=(observer,))
        self._report(STEPS_A_PASS)
        return results

    def add_up(
        self,
        metric: str,
        measure: Callable[[Window], Sequence[Any]],
        *,
        sides: Sequence[int] = (LOCAL_BLOCK_PX, LOCAL_BLOCK_PX),
        window_px: int = 1,
    ) -> tuple[Any, ...]:
        """Return the sums, over all blocks, of each value that `measure` returns for a block.

        Blocks overlap so that every complete window of `window_px` lies in exactly one of them; a window is never larger than the image.
        """
        from dask.delayed import delayed

        # not pure: a key drawn at random spares hashing the images that `measure` carries
        parts = [delayed(partial(measure, block), pure=False)() for block in cut_blocks(self.shape, sides, window_px=window_px)]
        # every addition has its fixed place in the tree, whichever block ends first, so the sums are the same to the last bit
        while len(parts) > 1:
            parts = [delayed(_add, pure=False)(*parts[start : start + _SUMS_AT_ONCE]) for start in range(0, len(parts), _SUMS_AT_ONCE)]
        return tuple(self.compute(metric, parts[0])[0])

    def report_share(self, share: float) -> None:
        """Report the progress within the only block of a small image, which may take seconds."""
        if self.is_whole:
            self._report(int(STEPS_A_PASS * share))

    def _start(self, _: Any, state: Any) -> None:  # noqa: ANN401 - dask's
        self._n_steps = max(1, len(state["waiting"]) + len(state["ready"]))

    def _end_task(self, *_: Any) -> None:  # noqa: ANN401 - dask's
        self._n_ended += 1
        self._report(min(STEPS_A_PASS, STEPS_A_PASS * self._n_ended // self._n_steps))

    def _report(self, n_steps: int) -> None:
        """Report steps up to this number of the pass, one by one."""
        while self._n_done < self._n_before + n_steps:
            self._n_done += 1
            if self._progress is not None:
                self._progress(EvaluationProgress(self._n_done, self.n_passes * STEPS_A_PASS, self._metric))


def cut_blocks(shape: tuple[int, int], sides: Sequence[int], *, window_px: int = 1) -> Iterator[Window]:
    """Yield blocks in which every complete window of this side, or of that of a smaller image, lies exactly once."""
    overlaps = [min(window_px, side) - 1 for side in shape]
    starts = (range(0, side - overlap, step) for side, overlap, step in zip(shape, overlaps, sides, strict=True))
    for top, left in product(*starts):
        bottom, right = (
            min(start + step + more, side) for start, step, more, side in zip((top, left), sides, overlaps, shape, strict=True)
        )
        yield Window(top, left, bottom, right)


def _add(*parts: Sequence[Any]) -> list[Any]:
    total = list(parts[0])
    for part in parts[1:]:
        total = list(map(add, total, part))
    return total
