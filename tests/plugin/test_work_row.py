"""A run shows what it does from the first moment, can be stopped, and shows its outcome."""

import threading
from types import SimpleNamespace

import pytest
from napari.utils.notifications import notification_manager

from napari_qmcif import work_row
from napari_qmcif.work_row import TimeLeft, WorkRow
from napari_qmcif.worker import EngineWorker
from qmcif_engine import QmcifError


@pytest.fixture
def row(qtbot, monkeypatch):
    monkeypatch.setattr(work_row, "GUARD_SECONDS", 0)
    row = WorkRow(lambda: None, text="Run")
    qtbot.addWidget(row.native)
    yield row
    row.cancel()
    finish(row, qtbot)


@pytest.fixture
def follow(row):
    """Starts work and lets the row follow it."""

    def start(work, if_cancelled="cancelled"):
        worker = EngineWorker(work)
        worker.if_cancelled = if_cancelled
        row.follow(worker)
        worker.start()
        return worker

    return start


def finish(row, qtbot):
    qtbot.waitUntil(lambda: not row.is_running)


def wait_for_cancel(job):
    while True:
        job.check_cancelled()


def test_each_phase_is_shown_from_the_first_moment(row, follow, qtbot):
    go_on = threading.Event()

    def work(job):
        job.note("aligning")
        go_on.wait()

    follow(work)
    assert row.message.text() == "starting …"
    qtbot.waitUntil(lambda: row.message.text() == "aligning …")
    assert row.bar.native.maximum() == 0, "how far it is cannot be known yet"
    go_on.set()
    finish(row, qtbot)
    assert row.message.text() == ""


def test_the_button_becomes_cancel_in_place(row, follow, qtbot):
    def work(job):
        job.report(type("Step", (), {"done": 1, "total": 4}))
        wait_for_cancel(job)

    def state():
        return row.button.text, row.button.enabled, not row.bar.native.isHidden()

    states = [state()]
    follow(work, if_cancelled="cancelled; the finished tiles are kept")
    qtbot.waitUntil(lambda: row.bar.native.value() == 1)
    states.append(state())
    row.button.native.click()
    assert row.message.text() == "cancelling …"
    finish(row, qtbot)
    assert [*states, state()] == [("Run", True, False), ("Cancel", True, True), ("Run", True, False)]
    assert row.message.text() == "cancelled; the finished tiles are kept"


def test_what_a_cancelled_thread_reports_after_its_end_is_not_shown(row, follow, qtbot):
    go_on, noted = threading.Event(), []

    def work(job):
        job.note("aligning")
        go_on.wait()
        job.note("fusing")

    worker = follow(work)
    worker.noted.connect(noted.append)
    qtbot.waitUntil(lambda: row.message.text() == "aligning …")
    row.cancel()
    finish(row, qtbot)
    go_on.set()
    qtbot.waitUntil(lambda: "fusing" in noted)
    assert row.message.text() == "cancelled"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (QmcifError("the disk is full"), "the disk is full"),
        (MemoryError(), "the images do not fit into memory; more memory or smaller images are needed: crop or reduce them first"),
        (ZeroDivisionError("not foreseen"), "ZeroDivisionError: not foreseen"),
    ],
)
@pytest.mark.parametrize("is_gone", [False, True])
def test_errors_appear_once_in_place_or_where_the_form_is_gone_as_a_notification(row, follow, qtbot, monkeypatch, error, words, is_gone):
    notified = []
    monkeypatch.setattr(notification_manager, "dispatch", notified.append)

    def work(job):
        raise error

    worker = follow(work)
    if is_gone:
        row.leave()
        with qtbot.waitSignal(worker.finished):
            pass
        row._worker = None
    finish(row, qtbot)

    assert [one.message for one in notified] == [words] * is_gone
    assert (row.message.text() == words) != is_gone


def refuse():
    msg = "1 image was given"
    raise QmcifError(msg)


def test_a_run_that_is_not_possible_stays_impossible_and_a_note_hinders_nothing(row, follow, qtbot):
    row.check(lambda: "the layers lie at different places")
    assert (row.button.enabled, row.reason.text()) == (True, "the layers lie at different places")
    follow(wait_for_cancel)
    row.check(refuse)
    row.cancel()
    finish(row, qtbot)
    assert (row.button.enabled, row.reason.text()) == (False, "1 image was given")


def test_the_button_starts_one_worker_at_a_time_and_refusals_are_shown(qtbot):
    started = []

    def start():
        if len(started) == 1:
            msg = "no folder is chosen"
            raise QmcifError(msg)
        started.append(EngineWorker(wait_for_cancel))
        return started[-1]

    row = WorkRow(start, text="Fuse all")
    qtbot.addWidget(row.native)
    row.button.native.click()
    row.start()
    assert (len(started), row.is_running) == (1, True)
    row.cancel()
    finish(row, qtbot)
    row.button.native.click()
    assert (row.message.text(), row.is_running) == ("no folder is chosen", False)


@pytest.fixture
def clock(monkeypatch):
    """Time that passes when it is set."""
    made = SimpleNamespace(now=0.0)
    monkeypatch.setattr(work_row, "time", SimpleNamespace(monotonic=lambda: made.now))
    return made


def test_no_time_is_shown_before_a_tile_was_measured_and_then_the_right_one(clock):
    left, shown = TimeLeft(), []
    clock.now = 51  # what came before has its own length
    left.begin(steps_a_tile=3)
    for done, seconds in enumerate([1, 1, 8] * 5, start=1):  # the last step of a tile takes longest
        clock.now += seconds
        shown.append(left.describe(done, 15))
    assert shown[:3] == ["", "", ""]
    assert shown[6] in ("27 s left", "26 s left", "28 s left")  # truly 28: two tiles and a bit
    assert (shown[11], shown[14]) == ("10 s left", "almost done")


@pytest.mark.parametrize(("seconds", "words"), [(1, "42 s left"), (10, "7 min left"), (200, "2.3 h left")])
def test_the_first_slow_tile_is_soon_forgotten_and_the_unit_fits(clock, seconds, words):
    left = TimeLeft()
    left.begin(steps_a_tile=1)
    left.describe(1, 101)
    for done in range(2, 60):
        clock.now += 60 * seconds if done == 2 else seconds  # the second step compiled
        shown = left.describe(done, 101)
    assert shown == words
