"""Show how far a job is in napari's activity dock, and say how long it will take."""

from __future__ import annotations

from napari.utils import cancelable_progress
from qtpy.QtCore import QObject

from napari_qmcif.worker import BackgroundJob


class _DockEntry(cancelable_progress):  # type: ignore[misc]
    """Stop the job at once when the dock's own Cancel is pressed; napari would ask only between steps of a loop."""

    def __init__(self, job: BackgroundJob, *, title: str) -> None:
        self._cancel_job = job.cancel
        super().__init__(total=0, desc=title)

    def cancel(self) -> None:
        super().cancel()
        self._cancel_job()


class DockEntry(QObject):
    """Follow one job in the activity dock, from its start to its end; the job owns it."""

    def __init__(self, job: BackgroundJob, *, title: str) -> None:
        super().__init__(job)
        self._entry = _DockEntry(job, title=title)
        job.progressed.connect(self.show_step)
        job.ended.connect(self.close)

    def show_step(self, done: int, total: int) -> None:
        """Move the bar."""
        if self._entry.total != total:
            self._entry.total = total
        self._entry.update(done - self._entry.n)

    def close(self) -> None:
        """Take the bar away."""
        self._entry.close()


def describe_time_left(elapsed_seconds: float, *, done: int, total: int) -> str:
    """Return the time left in words, taking all steps for equally long."""
    if done <= 0:
        return "starting"
    seconds = round(elapsed_seconds * (total - done) / done)
    if seconds < 1:
        return "almost done"
    if seconds < 90:
        return f"{seconds} s left"
    minutes = round(seconds / 60)
    return f"{minutes} min left" if minutes < 90 else f"{minutes / 60:.1f} h left"
