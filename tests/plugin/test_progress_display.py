"""The activity dock shows a job from start to end, and its Cancel stops it."""

import time

import pytest
from napari.utils import progress
from qtpy.QtCore import QObject

from napari_qmcif.progress_display import DockEntry, describe_time_left
from napari_qmcif.worker import BackgroundJob
from qmcif_engine import Cancelled


@pytest.mark.parametrize(
    ("elapsed", "done", "total", "words"),
    [
        (0.0, 0, 10, "starting"),
        (1.0, 1, 31, "30 s left"),
        (10.0, 10, 10, "almost done"),
        (60.0, 1, 11, "10 min left"),
        (3600.0, 1, 4, "3.0 h left"),
    ],
)
def test_time_left_is_told_in_a_fitting_unit(elapsed, done, total, words):
    assert describe_time_left(elapsed, done=done, total=total) == words


class Heard:
    """Notes what the activity dock would show."""

    def __init__(self):
        self.entries = []
        progress._all_instances.events.changed.connect(self.note)

    def note(self, event):
        for entry in event.added:
            entry.gui = True
            self.entries.append(entry)


@pytest.fixture
def heard():
    heard = Heard()
    yield heard
    progress._all_instances.events.changed.disconnect(heard.note)


def test_entry_is_there_while_the_job_runs_and_moves_with_it(heard, qapp, qtbot):
    class Step:
        done, total = 2, 4

    owner = QObject()
    job = BackgroundJob(lambda job: job.report(Step), owner=owner)
    DockEntry(job, title="Fusing leaves")
    (entry,) = heard.entries
    assert entry.desc.startswith("Fusing leaves")

    with qtbot.waitSignal(job.ended):
        job.start()

    qtbot.waitUntil(lambda: entry not in progress._all_instances)
    assert (entry.n, entry.total) == (2, 4)


def test_cancel_in_the_dock_stops_the_job(heard, qapp, qtbot):
    def work(job):
        while not job.is_cancelled():
            time.sleep(0.005)
        msg = "stopped"
        raise Cancelled(msg)

    owner = QObject()
    job = BackgroundJob(work, owner=owner)
    DockEntry(job, title="Fusing leaves")

    with qtbot.waitSignal(job.ended):
        job.start()
        heard.entries[0].cancel()

    qtbot.waitUntil(lambda: heard.entries[0] not in progress._all_instances)
