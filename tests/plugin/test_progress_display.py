"""The activity dock shows a worker from start to end, its Cancel stops it, and the time left rests on measured tiles."""

from types import SimpleNamespace

import pytest
from napari.utils import progress

from napari_qmcif import progress_display
from napari_qmcif.progress_display import DockEntry, TimeLeft, say_seconds
from napari_qmcif.worker import make_worker


@pytest.mark.parametrize(("seconds", "words"), [(30.2, "30 s left"), (0.3, "almost done"), (600, "10 min left"), (3 * 3600, "3.0 h left")])
def test_time_left_is_told_in_a_fitting_unit(seconds, words):
    assert say_seconds(seconds) == words


class Clock:
    """Time that passes when it is told to."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(progress_display, "time", SimpleNamespace(monotonic=lambda: self.now))


def test_nothing_is_said_before_a_tile_was_measured_and_then_what_is_right(monkeypatch):
    clock, left = Clock(monkeypatch), TimeLeft()
    clock.now = 51  # what came before has its own length
    left.begin(steps_a_tile=3)
    said = []
    for done, seconds in enumerate([1, 1, 8] * 5, start=1):  # the last step of a tile takes longest
        clock.now += seconds
        said.append(left.describe(done, 15))

    assert said[:3] == ["", "", ""]
    assert said[6] in ("27 s left", "26 s left", "28 s left")  # truly 28: two tiles and a bit
    assert said[11] == "10 s left"
    assert said[14] == "almost done"


def test_the_first_slow_tile_is_soon_forgotten(monkeypatch):
    clock, left = Clock(monkeypatch), TimeLeft()
    left.begin(steps_a_tile=1)
    left.describe(1, 101)
    for done in range(2, 60):
        clock.now += 60 if done == 2 else 1  # the second step compiled
        words = left.describe(done, 101)

    assert words == "42 s left"


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


def test_entry_is_there_while_the_worker_runs_and_moves_with_it(heard, qapp, qtbot):
    class Step:
        done, total = 2, 4

    def work(job):
        job.note("fusing")
        job.report(Step)

    worker = make_worker(work)
    DockEntry(worker, title="Leaves")
    (entry,) = heard.entries
    assert entry.desc.startswith("Leaves")

    with qtbot.waitSignal(worker.finished):
        worker.start()

    qtbot.waitUntil(lambda: entry not in progress._all_instances)
    assert (entry.n, entry.total) == (2, 4)
    assert entry.desc.startswith("Leaves: fusing")


def test_cancel_in_the_dock_stops_the_worker(heard, qapp, qtbot):
    def work(job):
        while True:
            job.check_cancelled()

    worker = make_worker(work)
    DockEntry(worker, title="Fusing leaves")

    with qtbot.waitSignal(worker.finished):
        worker.start()
        heard.entries[0].cancel()

    qtbot.waitUntil(lambda: heard.entries[0] not in progress._all_instances)
