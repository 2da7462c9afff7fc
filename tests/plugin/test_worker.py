"""A worker of the engine runs beside the GUI thread, reports seldom, stops when asked and leaves nothing behind."""

import itertools
import subprocess
import sys
import threading
import time
import warnings
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from qtpy.QtCore import QCoreApplication

from napari_qmcif import worker as worker_module
from napari_qmcif.worker import SHORTEST_REPORT_INTERVAL_SECONDS, DockEntry, EngineWorker, describe_failure, list_running_workers
from qmcif_engine import Cancelled, InvalidImageError


def make_step(done, total):
    return SimpleNamespace(done=done, total=total)


def work_until_cancelled(job):
    while True:
        job.check_cancelled()
        time.sleep(0.005)


def test_work_runs_in_another_thread_and_its_signals_arrive_on_this_one(qtbot):
    arrived = []

    def show(result):
        arrived.append((*result, threading.get_ident()))

    worker = EngineWorker(lambda number, job: (number, threading.get_ident()), 7, on_return=show)
    with qtbot.waitSignal(worker.finished):
        worker.start()
    ((number, sender, receiver),) = arrived
    assert number == 7
    assert receiver == threading.get_ident() != sender


def test_progress_arrives_at_most_ten_times_a_second_and_the_last_step_always(qtbot, monkeypatch):
    clock = itertools.count(step=0.3 * SHORTEST_REPORT_INTERVAL_SECONDS)
    monkeypatch.setattr(worker_module, "time", SimpleNamespace(monotonic=clock.__next__))
    worker, steps = EngineWorker(lambda job: [job.report(make_step(done, 20)) for done in range(1, 21)]), []
    worker.progressed.connect(lambda done, total: steps.append((done, total)))
    with qtbot.waitSignal(worker.finished):
        worker.start()
    assert steps == [(done, 20) for done in (1, 5, 9, 13, 17, 20)]


def test_errors_are_reported_and_not_raised(qtbot):
    def work(job):
        msg = "disk on fire"
        raise OSError(msg)

    worker = EngineWorker(work)
    with qtbot.waitSignal(worker.errored) as failed, qtbot.waitSignal(worker.finished):
        worker.start()
    assert str(failed.args[0]) == "disk on fire"


def test_a_cancelled_worker_ends_without_result_and_without_error(qtbot):
    is_done, reported = threading.Event(), []
    for work in (work_until_cancelled, lambda job: is_done.set()):
        worker = EngineWorker(work, on_return=reported.append)
        worker.errored.connect(reported.append)
        worker.start()
        if work is not work_until_cancelled:
            is_done.wait()  # finished, but the result has not arrived yet
        with qtbot.waitSignal(worker.finished):
            worker.cancel()
    assert reported == []
    with pytest.raises(Cancelled, match="the work was cancelled; nothing was returned: start it again"):
        worker.check_cancelled()


@pytest.mark.parametrize("is_waited_for", [False, True])
def test_cancel_ends_a_worker_for_the_viewer_while_its_thread_is_busy_unless_it_is_waited_for(qtbot, is_waited_for):
    is_busy, go_on, ends = threading.Event(), threading.Event(), []

    def work(job):
        is_busy.set()
        go_on.wait()
        return "too late"

    worker = EngineWorker(work, on_return=ends.append, is_waited_for=is_waited_for)
    worker.finished.connect(lambda: ends.append(go_on.is_set()))
    worker.start()
    is_busy.wait()
    worker.cancel()
    QCoreApplication.processEvents()
    assert ends == ([] if is_waited_for else [False])

    go_on.set()
    qtbot.waitUntil(lambda: not list_running_workers())
    assert ends == [is_waited_for]


def test_two_workers_at_once_leave_the_warning_filters_alone(qtbot):
    before = (warnings.showwarning, list(warnings.filters))
    release, ended = threading.Event(), []
    for _ in range(2):
        worker = EngineWorker(lambda job: release.wait(10))
        worker.finished.connect(lambda: ended.append(1))
        worker.start()
    release.set()
    qtbot.waitUntil(lambda: len(ended) == 2)
    assert (warnings.showwarning, list(warnings.filters)) == before


@pytest.mark.parametrize("is_cached", [True, False])
def test_it_is_noted_that_the_engine_compiles(qtbot, monkeypatch, is_cached):
    @contextmanager
    def listen(callback):
        if not is_cached:
            callback()
        yield

    monkeypatch.setattr(worker_module, "CompilationListener", listen)
    worker, notes = EngineWorker(lambda job: None), []
    worker.noted.connect(notes.append)
    with qtbot.waitSignal(worker.finished):
        worker.start()
    assert notes == ([] if is_cached else [worker_module.COMPILING])


OUTLIVES_THE_VIEWER = """
import time

from qtpy import sip
from qtpy.QtCore import QCoreApplication

from napari_qmcif.worker import EngineWorker

ended = []


def work(job):
    sip.delete(job)  # what Qt does to it when the viewer is closed meanwhile
    ended.append(1)


application = QCoreApplication([])
EngineWorker(work).start()
while not ended:
    time.sleep(0.01)
time.sleep(0.2)
"""


def test_work_that_outlives_the_viewer_does_not_end_the_process():
    finished = subprocess.run([sys.executable, "-c", OUTLIVES_THE_VIEWER], check=False, capture_output=True, text=True)
    assert (finished.returncode, finished.stderr) == (0, "")


def test_foreseen_errors_have_their_own_words_and_others_their_kind_and_a_traceback_in_the_log(caplog):
    for error in (InvalidImageError("one was given; two are needed"), OSError("disk full")):
        assert describe_failure(error) == str(error)
    assert caplog.records == []
    assert describe_failure(ZeroDivisionError("division by zero")) == "ZeroDivisionError: division by zero"
    assert caplog.records[0].exc_info[0] is ZeroDivisionError


def test_the_activity_dock_follows_a_worker_and_can_cancel_it(qtbot, monkeypatch):
    steps, texts = [], []
    monkeypatch.setattr(DockEntry, "set_description", lambda entry, text: texts.append(text))
    monkeypatch.setattr(DockEntry, "update", lambda entry, n: steps.append(n))

    def work(job):
        job.note("fusing")
        job.report(make_step(2, 4))
        work_until_cancelled(job)

    worker = EngineWorker(work)
    entry = DockEntry(worker, title="Leaves")
    worker.start()
    qtbot.waitUntil(lambda: steps == [2])
    with qtbot.waitSignal(worker.finished):
        entry.cancel()
    assert (entry.total, texts) == (4, ["Leaves: fusing"])
