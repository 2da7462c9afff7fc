"""Steps of a run: counted by whoever computes, told to the caller, who is asked whether to go on."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from qmcif_engine.errors import Cancelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class FusionProgress(NamedTuple):
    """How much of a fusion is done: for each tile one step per image, or one per image and channel, and one for the decision."""

    done: int
    total: int


class Steps:
    """Steps of a run, and the question whether to go on.

    Tiles are computed by threads that belong to Dask, while the caller waits for it. The threads therefore tell and ask the caller
    themselves, one at a time.
    """

    def __init__(
        self,
        *,
        n_tiles: int,
        steps_a_tile: int,
        on_progress: Callable[[FusionProgress], None] | None = None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> None:
        self.steps_a_tile = steps_a_tile
        self._total = n_tiles * steps_a_tile
        self._done = 0
        self._on_progress, self._is_cancelled = on_progress, is_cancelled
        # kept once the caller said so: nobody is asked again, and every tile ends
        self._is_stopped = False
        self._n_computing = 0
        # reentrant: the caller is called back while it is held, and may come back here
        self._lock = threading.RLock()
        self._has_changed = threading.Condition(self._lock)

    def count(self, n_steps: int = 1) -> None:
        """Inform the caller of finished steps, one by one."""
        with self._lock:
            for _ in range(n_steps):
                self._done += 1
                if self._on_progress is not None:
                    self._on_progress(FusionProgress(self._done, self._total))

    def check_cancelled(self) -> None:
        """Ask the caller, and end the tile once the run is to end."""
        with self._lock:
            if not self._is_stopped and self._is_cancelled is not None and self._is_cancelled():
                self._is_stopped = True
            if self._is_stopped:
                msg = f"the fusion was cancelled after {self._done} of {self._total} steps; nothing was returned: start it again"
                raise Cancelled(msg)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Count a tile among those that are computed."""
        with self._lock:
            self._n_computing += 1
        try:
            yield
        finally:
            with self._lock:
                self._n_computing -= 1
                self._has_changed.notify_all()

    def stop(self) -> None:
        """Make every tile end at its next iteration, and return when none is computed any more."""
        with self._lock:
            self._is_stopped = True
            # else a tile that is still computed would write after the caller cleaned up
            self._has_changed.wait_for(lambda: self._n_computing == 0)
