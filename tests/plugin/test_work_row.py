"""A run shows what it does from the first moment, can be stopped, and says what became of it."""

import threading

import pytest
from napari.utils.notifications import notification_manager

from napari_qmcif.work_row import WorkRow
from napari_qmcif.worker import make_worker
from qmcif_engine import QmcifError


@pytest.fixture
def panel(qtbot):
    panel = WorkRow(lambda: None, text="Run")
    qtbot.addWidget(panel.native)
    yield panel
    panel.cancel()
    qtbot.waitUntil(lambda: not panel.is_running)


@pytest.fixture
def follow(panel):
    """Starts work and lets the panel follow it."""

    def start(work, **options):
        worker = make_worker(work, owner=panel.native)
        panel.follow(worker, **options)
        worker.start()
        return worker

    return start


def finish(panel, qtbot):
    qtbot.waitUntil(lambda: not panel.is_running)


def wait_for_cancel(job):
    while True:
        job.check_cancelled()


def state(panel):
    return panel.start_button.enabled, panel.cancel_button.native.isVisibleTo(panel.native), panel.bar.native.isVisibleTo(panel.native)


def test_something_is_said_from_the_first_moment_and_each_phase_is_told(panel, follow, qtbot):
    go_on = threading.Event()

    def work(job):
        job.note("looking whether the images moved")
        go_on.wait()

    follow(work)
    assert panel.message.text() == "starting …"
    qtbot.waitUntil(lambda: panel.message.text() == "looking whether the images moved …")
    assert panel.bar.native.maximum() == 0, "how far it is cannot be told yet"
    go_on.set()
    finish(panel, qtbot)


def test_buttons_and_bar_follow_the_run(panel, follow, qtbot):
    def work(job):
        job.report(type("Step", (), {"done": 1, "total": 4}))
        wait_for_cancel(job)

    states = [state(panel)]
    follow(work)
    qtbot.waitUntil(lambda: panel.bar.native.value() == 1)
    states.append(state(panel))
    panel.cancel_button.native.click()
    assert panel.message.text() == "cancelling …"
    finish(panel, qtbot)
    states.append(state(panel))

    assert states == [(True, False, False), (False, True, True), (True, False, False)]
    assert panel.message.text() == "cancelled"


def test_what_is_on_disk_can_be_gone_on_with(panel, follow, qtbot):
    follow(wait_for_cancel, if_cancelled="cancelled; the finished tiles are kept")
    panel.cancel()
    finish(panel, qtbot)

    assert panel.message.text() == "cancelled; the finished tiles are kept"


def fail_with(error):
    def work(job):
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (QmcifError("the disk is full"), "the disk is full"),
        (MemoryError(), "the images do not fit into memory; more memory or smaller images are needed: crop or reduce them first"),
        (ZeroDivisionError("not foreseen"), "ZeroDivisionError: not foreseen"),
    ],
)
def test_errors_are_told_in_place_and_as_a_notification(panel, follow, qtbot, monkeypatch, error, words):
    told = []
    monkeypatch.setattr(notification_manager, "dispatch", told.append)
    follow(fail_with(error))
    finish(panel, qtbot)

    assert (panel.message.text(), panel.start_button.enabled) == (words, True)
    if isinstance(error, ZeroDivisionError):
        assert told[0].exception is error
    else:
        assert told[0].message == words


def test_a_run_that_is_not_possible_says_why_and_a_note_stands_in_nobodys_way(panel):
    panel.forbid("1 image was given")
    assert (panel.start_button.enabled, panel.reason.text()) == (False, "1 image was given")

    panel.allow("the layers lie at different places")
    assert (panel.start_button.enabled, panel.reason.text()) == (True, "the layers lie at different places")


def test_a_run_that_becomes_impossible_while_another_goes_on_stays_impossible(panel, follow, qtbot):
    follow(wait_for_cancel)

    panel.forbid("1 image was given")
    panel.cancel()
    finish(panel, qtbot)

    assert not panel.start_button.enabled


def test_the_button_starts_one_worker_at_a_time_and_what_is_refused_is_said(qtbot):
    started = []

    def start():
        if len(started) == 1:
            msg = "no folder is chosen"
            raise QmcifError(msg)
        started.append(make_worker(wait_for_cancel))
        started[-1].start()
        return started[-1]

    row = WorkRow(start, text="Fuse all")
    qtbot.addWidget(row.native)
    row.start_button.native.click()
    row.start()
    assert (len(started), row.is_running) == (1, True)
    row.cancel()
    finish(row, qtbot)

    row.start_button.native.click()

    assert (row.message.text(), row.is_running) == ("no folder is chosen", False)


def test_without_something_to_start_there_is_no_button(qtbot):
    row = WorkRow()
    qtbot.addWidget(row.native)

    assert not row.start_button.native.isVisibleTo(row.native)
