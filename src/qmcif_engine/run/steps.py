"""Count the steps of a run, tell the caller about them, and ask it whether to go on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from qmcif_engine.errors import Cancelled

if TYPE_CHECKING:
    from collections.abc import Callable


class FusionProgress(NamedTuple):
    """Say how much of a fusion is done: for each tile one step an image, or one an image and channel, and one for the decision."""

    done: int
    total: int


class Steps:
    """Count steps, tell the caller about them and ask it whether to go on."""

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
        self._done = self._told = 0
        self._on_progress, self._is_cancelled = on_progress, is_cancelled
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def count(self, n_steps: int = 1) -> None:
        """Note finished steps; any thread may."""
        with self._lock:
            self._done += n_steps

    def tell(self) -> None:
        """Pass on what was counted since the last time."""
        with self._lock:
            done = self._done
        if self._on_progress is not None:
            for step in range(self._told + 1, done + 1):
                self._on_progress(FusionProgress(step, self._total))
        self._told = done

    def check_cancelled(self) -> None:
        """Ask the caller, and end the run if it says so."""
        if self._is_cancelled is not None and self._is_cancelled():
            self.stop()
            self.check_stopped()

    def stop(self) -> None:
        """Make every tile in flight end at its next iteration."""
        self._stop.set()

    def check_stopped(self) -> None:
        """End a tile, in its worker, once the run was stopped."""
        if self._stop.is_set():
            msg = f"the fusion was cancelled after {self._done} of {self._total} steps; nothing was returned: start it again"
            raise Cancelled(msg)
