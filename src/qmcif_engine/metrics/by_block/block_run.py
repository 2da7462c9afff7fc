"""Sums over the blocks of an image, computed by Dask's threads with progress and cancellation."""

from __future__ import annotations

from functools import partial
from operator import add
from typing import TYPE_CHECKING, Any

from dask.base import compute
from dask.callbacks import Callback
from dask.delayed import delayed

from qmcif_engine.io.dask_threads import count_cores
from qmcif_engine.io.output.windowed_image import block_windows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qmcif_engine.metrics.evaluation_progress import StepCounter
    from qmcif_engine.stack.window import Window

BLOCK_PX = 768
"""Side of a block. With the margin of phase congruency it is 1024, which transforms fast."""

MOST_THREADS = 4
"""Blocks at once: each takes up to 150 MB, however many images there are."""

STEPS_A_PASS = 20
# a tree of small sums: Dask frees the values of finished blocks early instead of keeping all for one last task
_SUMS_AT_ONCE = 8


class BlockRun:
    """Passes over the blocks of images of one size.

    Nothing but the threads of this process computes, whatever scheduler or progress bar the user has set up for other computations.

    Parameters
    ----------
    counter : StepCounter
        Told `STEPS_A_PASS` times per pass, in the calling thread; what it raises ends the run.
    """

    def __init__(self, counter: StepCounter) -> None:
        self._n_threads = min(MOST_THREADS, count_cores())
        self._counter = counter

    def compute(self, metric: str, *collections: Any) -> tuple[Any, ...]:  # noqa: ANN401 - dask collections and their results
        """Compute dask collections as one pass of a metric."""
        # callbacks that are given replace the active ones, so that a progress bar of the user is not told of our tasks
        progress = _PassProgress(partial(self._counter.finish_step, metric))
        results: tuple[Any, ...] = compute(*collections, scheduler="threads", num_workers=self._n_threads, callbacks=(progress._callback,))
        progress.finish()
        return results

    def add_up(self, metric: str, measure: Callable[[Window], Sequence[Any]], shape: tuple[int, int]) -> tuple[Any, ...]:
        """Return the sums, over all blocks of an image of this shape, of each value that `measure` returns for a block."""
        # not pure: a key drawn at random spares hashing the images that `measure` carries
        parts = [delayed(partial(measure, window), pure=False)() for window in block_windows(shape, BLOCK_PX)]
        # every addition has its fixed place in the tree, whichever block ends first, so the sums are the same to the last bit
        while len(parts) > 1:
            parts = [delayed(_add, pure=False)(*parts[start : start + _SUMS_AT_ONCE]) for start in range(0, len(parts), _SUMS_AT_ONCE)]
        return tuple(self.compute(metric, parts[0])[0])


def _add(*parts: Sequence[Any]) -> list[Any]:
    total = list(parts[0])
    for part in parts[1:]:
        total = list(map(add, total, part))
    return total


class _PassProgress(Callback):
    """Steps of one pass, told as its tasks end."""

    def __init__(self, finish_step: Callable[[], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._finish_step = finish_step
        # 1 until Dask has counted the tasks: it is divided by
        self._n_tasks, self._n_ended, self._n_told = 1, 0, 0

    def _start_state(self, graph: Any, state: Any) -> None:  # noqa: ANN401 - dask's
        self._n_tasks = max(1, len(state["waiting"]) + len(state["ready"]))

    def _posttask(self, *_: Any) -> None:  # noqa: ANN401 - dask's
        self._n_ended += 1
        self._tell(min(STEPS_A_PASS, STEPS_A_PASS * self._n_ended // self._n_tasks))

    def finish(self) -> None:
        """Report what is left of the pass."""
        self._tell(STEPS_A_PASS)

    def _tell(self, n_steps: int) -> None:
        while self._n_told < n_steps:
            self._n_told += 1
            self._finish_step()
