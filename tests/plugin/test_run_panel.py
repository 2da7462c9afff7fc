"""A run shows what it does from the first moment, can be stopped, and says what became of it."""

import threading

import pytest
from napari.utils.notifications import notification_manager

from napari_qmcif.form_parts import notify
from napari_qmcif.run_panel import RunPanel
from napari_qmcif.worker import make_worker
from qmcif_engine import InvalidImageError, QmcifError


@pytest.fixture
def panel(qtbot):
    panel = RunPanel()
    qtbot.addWidget(panel.native)
    panel.allow()
    yield panel
    panel.stop()
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
    return panel.run_button.enabled, panel.cancel_button.enabled, panel.bar.native.isVisibleTo(panel.native)


def test_something_is_said_from_the_first_moment_and_each_phase_is_told(panel, follow, qtbot):
    go_on = threading.Event()

    def work(job):
        job.note("looking whether the images moved")
        go_on.wait()

    follow(work)
    assert panel.status.text() == "starting …"
    qtbot.waitUntil(lambda: panel.status.text() == "looking whether the images moved …")
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
    assert panel.status.text() == "cancelling …"
    finish(panel, qtbot)
    states.append(state(panel))

    assert states == [(True, False, False), (False, True, True), (True, False, False)]
    assert panel.status.text() == "cancelled; nothing was added"


def test_what_is_on_disk_can_be_gone_on_with(panel, follow, qtbot):
    follow(wait_for_cancel, is_on_disk=True)
    panel.stop()
    finish(panel, qtbot)

    assert panel.status.text() == "cancelled; the finished tiles are kept, and Run goes on from there"


def fail_with(error):
    def work(job):
        raise error

    return work


def test_images_that_must_change_stand_in_the_way_of_the_next_run(panel, follow, qtbot):
    follow(fail_with(InvalidImageError("image 2 holds NaN")))
    finish(panel, qtbot)

    assert (panel.reason.text(), panel.status.text(), panel.run_button.enabled) == ("image 2 holds NaN", "", False)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (QmcifError("the disk is full"), "the disk is full"),
        (MemoryError(), "the images do not fit into memory; more memory or smaller images are needed: crop or reduce them first"),
        (ZeroDivisionError("not foreseen"), "ZeroDivisionError: not foreseen"),
    ],
)
def test_other_errors_are_told_in_place_and_as_a_notification(panel, follow, qtbot, monkeypatch, error, words):
    told = []
    monkeypatch.setattr(notification_manager, "dispatch", told.append)
    follow(fail_with(error))
    finish(panel, qtbot)
    notify(error)

    assert (panel.status.text(), panel.run_button.enabled) == (words, True)
    if isinstance(error, ZeroDivisionError):
        assert told[0].exception is error
    else:
        assert told[0].message == words


def test_a_run_that_is_not_possible_says_why_and_a_note_stands_in_nobodys_way(panel):
    panel.forbid("1 image was given")
    assert (panel.run_button.enabled, panel.reason.text()) == (False, "1 image was given")

    panel.allow("the layers lie at different places")
    assert (panel.run_button.enabled, panel.reason.text()) == (True, "the layers lie at different places")


def test_a_run_that_becomes_impossible_while_another_goes_on_stays_impossible(panel, follow, qtbot):
    follow(wait_for_cancel)

    panel.forbid("1 image was given")
    panel.stop()
    finish(panel, qtbot)

    assert not panel.run_button.enabled


def test_run_is_asked_for_by_its_button(panel):
    wanted = []
    panel.wanted.connect(lambda: wanted.append(1))

    panel.run_button.native.click()

    assert wanted == [1]
