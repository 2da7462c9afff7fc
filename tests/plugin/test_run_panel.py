"""Runs go one at a time, can be stopped, and say what became of them."""

import threading
import time

import numpy as np
import pytest
from napari.layers import Image
from napari.utils.notifications import notification_manager

from napari_qmcif import run_panel as run_panel_module
from napari_qmcif.chosen_stack import choose_planes
from napari_qmcif.run_panel import RunPanel
from qmcif_engine import Cancelled, FusionConfig, make_focus_stack

CONFIG = FusionConfig().replaced({"iterations": 1})


@pytest.fixture
def panel(qtbot):
    panel = RunPanel()
    qtbot.addWidget(panel)
    panel.allow()
    yield panel
    panel.cancel()
    qtbot.waitUntil(lambda: not panel.is_running)


@pytest.fixture
def stack(pictures):
    return choose_planes(Image(pictures, rgb=True, name="leaf"), 0, point=(0, 0, 0))


@pytest.fixture
def told(monkeypatch):
    """What napari was told to show."""
    records = []
    monkeypatch.setattr(notification_manager, "dispatch", lambda notification: records.append(notification))
    return records


def finish(panel, qtbot):
    qtbot.waitUntil(lambda: not panel.is_running)


def work_until_cancelled(stack, config, *, job):
    job.report(type("Step", (), {"done": 1, "total": 4}))
    while not job.is_cancelled():
        time.sleep(0.005)
    msg = "the fusion was cancelled"
    raise Cancelled(msg)


def test_a_run_returns_its_result_and_says_how_long_it_took(panel, stack, qtbot):
    with qtbot.waitSignal(panel.returned) as returned:
        panel.start(stack, CONFIG)
    finish(panel, qtbot)

    run = returned.args[0]
    assert (run.stack, run.config) == (stack, CONFIG)
    assert run.outcome.pictures["fused"].shape == (*stack.picture_shape, 3)
    assert panel.status.text().startswith("fused 3 images in ")


def test_buttons_and_bar_follow_the_run(panel, stack, qtbot, monkeypatch):
    monkeypatch.setattr(run_panel_module, "fuse_layers", work_until_cancelled)
    states = [(panel.run_button.isEnabled(), panel.cancel_button.isEnabled(), panel.progress_bar.isVisibleTo(panel))]

    panel.start(stack, CONFIG)
    qtbot.waitUntil(lambda: panel.progress_bar.value() == 1)
    states.append((panel.run_button.isEnabled(), panel.cancel_button.isEnabled(), panel.progress_bar.isVisibleTo(panel)))
    assert "left" in panel.progress_bar.format() or "almost done" in panel.progress_bar.format()
    panel.cancel_button.click()
    finish(panel, qtbot)
    states.append((panel.run_button.isEnabled(), panel.cancel_button.isEnabled(), panel.progress_bar.isVisibleTo(panel)))

    assert states == [(True, False, False), (False, True, True), (True, False, False)]
    assert panel.status.text() == "cancelled; nothing was added"


def test_a_second_run_waits_until_the_first_is_over(panel, stack, qtbot, monkeypatch):
    n_started = []

    def work(stack, config, *, job):
        n_started.append(1)
        return work_until_cancelled(stack, config, job=job)

    monkeypatch.setattr(run_panel_module, "fuse_layers", work)

    panel.start(stack, CONFIG)
    panel.start(stack, CONFIG)
    qtbot.waitUntil(lambda: bool(n_started))
    panel.cancel()
    finish(panel, qtbot)

    assert len(n_started) == 1


def test_errors_of_the_engine_are_told_in_its_words_in_place_and_as_a_notification(panel, told, qtbot):
    samples = np.zeros((2, 16, 16), np.float32)
    samples[0, 0, 0] = np.inf

    panel.start(choose_planes(Image(samples, contrast_limits=(0, 1)), 0, point=(0, 0, 0)), CONFIG)
    finish(panel, qtbot)

    assert "holds NaN or infinite samples" in panel.reason.text()
    assert [(notification.message, notification.severity.value) for notification in told] == [(panel.reason.text(), "error")]
    assert (panel.run_button.isEnabled(), panel.status.text()) == (False, "")


def test_a_stack_that_looks_misaligned_is_fused_and_said_to_be(panel, qtbot):
    scene = make_focus_stack(n_images=2, shape=(200, 240), seed=3).images
    moved = np.stack([scene[0], np.roll(scene[1], 5, axis=1)])

    panel.start(choose_planes(Image(moved, rgb=True), 0, point=(0, 0, 0)), CONFIG)
    finish(panel, qtbot)

    assert panel.status.text().startswith("fused 2 images in")
    assert panel.status.text().endswith("neighboring images look misaligned by about 5 px: set Align to translation")


def test_too_little_memory_is_told_with_a_remedy(panel, told):
    panel.complain(MemoryError())

    assert panel.status.text().startswith("the images do not fit into memory; more memory or smaller images are needed")
    assert told[0].message == panel.status.text()


def test_an_unforeseen_error_comes_with_its_traceback(panel, stack, told, qtbot, monkeypatch):
    def work(stack, config, *, job):
        msg = "not foreseen"
        raise ZeroDivisionError(msg)

    monkeypatch.setattr(run_panel_module, "fuse_layers", work)

    panel.start(stack, CONFIG)
    finish(panel, qtbot)

    (notification,) = told
    assert isinstance(notification.exception, ZeroDivisionError)
    assert panel.status.text() == "ZeroDivisionError: not foreseen"


def test_a_run_that_is_not_possible_says_why(panel):
    panel.forbid("1 image was given")

    assert not panel.run_button.isEnabled()
    assert (panel.reason.text(), panel.run_button.toolTip()) == ("1 image was given", "1 image was given")


def test_a_note_stands_in_nobodys_way(panel):
    panel.allow("the layers lie at different places")

    assert panel.run_button.isEnabled()
    assert panel.reason.text() == "the layers lie at different places"


def test_a_run_that_becomes_impossible_while_another_goes_on_stays_impossible(panel, stack, qtbot, monkeypatch):
    monkeypatch.setattr(run_panel_module, "fuse_layers", work_until_cancelled)
    panel.start(stack, CONFIG)

    panel.forbid("1 image was given")
    panel.cancel()
    finish(panel, qtbot)

    assert not panel.run_button.isEnabled()


def test_the_engine_runs_beside_the_gui_thread(panel, stack, qtbot, monkeypatch):
    threads = []

    def work(stack, config, *, job):
        threads.append(threading.get_ident())
        job.cancel()

    monkeypatch.setattr(run_panel_module, "fuse_layers", work)

    panel.start(stack, CONFIG)
    finish(panel, qtbot)

    assert threads != [threading.get_ident()]
