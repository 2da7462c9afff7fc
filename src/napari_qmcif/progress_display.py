"""How far a worker is: in napari's activity dock and in words."""

from __future__ import annotations

import time
from collections import deque
from functools import partial

from napari.utils import cancelable_progress

from napari_qmcif.worker import EngineWorker


class DockEntry(cancelable_progress):  # type: ignore[misc]
    """Bar in the activity dock that follows one worker to its end; its Cancel stops the worker at once, not between steps of a loop."""

    def __init__(self, worker: EngineWorker, *, title: str) -> None:
        self._worker, self._title = worker, title
        super().__init__(total=0, desc=title)
        # PyQt holds bound methods weakly: nobody else keeps this entry alive
        worker.progressed.connect(partial(DockEntry.show_step, self))
        worker.noted.connect(partial(DockEntry.show_note, self))
        worker.finished.connect(partial(DockEntry.close, self))

    def cancel(self) -> None:
        """Stop the worker."""
        super().cancel()
        self._worker.cancel()

    def show_step(self, done: int, total: int) -> None:
        """Move the bar."""
        if self.total != total:  # type: ignore[has-type] # tqdm's
            self.total = total
        self.update(done - self.n)

    def show_note(self, text: str) -> None:
        """Report what is being done now."""
        self.set_description(f"{self._title}: {text}" if text else self._title)


class TimeLeft:
    """The estimated time that a piece of work still takes, from whole tiles that were measured.

    The steps of a tile are not equally long: its decision takes as long as all of its images. Of the steps so far the later half counts,
    if that is a tile or more: the first ones also compiled, read and warmed up.
    """

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque()
        self._first_done, self._steps_a_tile = 0, 1

    def begin(self, *, steps_a_tile: int) -> None:
        """Forget what was measured: another piece of work begins, with steps of its own length."""
        self._marks.clear()
        self._steps_a_tile = steps_a_tile

    def describe(self, done: int, total: int) -> str:
        """Take a finished step and return the time left in words; nothing while no tile was measured."""
        if not self._marks:
            self._first_done = done
        self._marks.append((time.monotonic(), done))
        wanted = max((done - self._first_done) / 2, self._steps_a_tile)
        while len(self._marks) > 1 and done - self._marks[1][1] >= wanted:
            self._marks.popleft()
        begin, done_before = self._marks[0]
        if done - done_before < self._steps_a_tile:
            return ""
        return say_seconds((self._marks[-1][0] - begin) * (total - done) / (done - done_before))


def say_seconds(seconds: float) -> str:
    """Return a time left in a fitting unit."""
    whole = round(seconds)
    if whole < 1:
        return "almost done"
    if whole < 90:
        return f"{whole} s left"
    minutes = round(whole / 60)
    return f"{minutes} min left" if minutes < 90 else f"{minutes / 60:.1f} h left"
