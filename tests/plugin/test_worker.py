"""A worker of the engine runs beside the GUI thread, reports seldom, stops when asked and leaves nothing behind."""

import itertools
import subprocess
import sys
import threading
import time
import warnings
from collections import namedtuple
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from qtpy.QtCore import QCoreApplication

from napari_qmcif import worker as worker_module
from napari_qmcif.worker import SHORTEST_REPORT_INTERVAL_SECONDS, DockEntry, EngineWorker, describe_failure, list_running_workers
from qmcif_engine import Cancelled, InvalidImageError

Step = namedtuple("Step", "done total")


def work_until_cancelled(job):
    while True:
        job.check_cancelled()
        time.sleep(0.005)


def test_work_runs_in_another_thread_and_its_signals_arrive_on_this_one(qtbot):
    worker = EngineWorker(lambda number, job: (number, threading.get_ident()), 7)
    arrived = []
    worker.returned.connect(lambda result: arrived.append((*result, threading.get_ident())))

    with qtbot.waitSignal(worker.finished):
        worker.start()

    ((number, sender, receiver),) = arrived
    assert number == 7
    assert receiver == threading.get_ident() != sender


def test_progress_arrives_at_most_ten_times_a_second_and_the_last_step_always(qtbot, monkeypatch):
    clock = itertools.count(step=0.3 * SHORTEST_REPORT_INTERVAL_SECONDS)
    monkeypatch.setattr(worker_module, "time", SimpleNamespace(monotonic=clock.__next__))

    def work(job):
        for done in range(1, 21):
            job.report(Step(done, 20))

    worker = EngineWorker(work)
    steps = []
    worker.progressed.connect(lambda done, total: steps.append((done, total)))

    with qtbot.waitSignal(worker.finished):
        worker.start()

    assert steps == [(done, 20) for done in (1, 5, 9, 13, 17, 20)]


def test_errors_are_told_and_not_raised(qtbot):
    def work(job):
        msg = "disk on fire"
        raise OSError(msg)

    worker = EngineWorker(work)

    with qtbot.waitSignal(worker.errored) as failed, qtbot.waitSignal(worker.finished):
        worker.start()

    assert str(failed.args[0]) == "disk on fire"


def test_a_cancelled_worker_ends_without_result_and_without_error(qtbot):
    worker = EngineWorker(work_until_cancelled)
    heard = []
    worker.returned.connect(heard.append)
    worker.errored.connect(heard.append)

    with qtbot.waitSignal(worker.finished):
        worker.start()
        worker.cancel()

    assert heard == []
    with pytest.raises(Cancelled, match="the work was cancelled; nothing was returned: start it again"):
        worker.check_cancelled()


@pytest.mark.parametrize("is_waited_for", [False, True])
def test_cancel_ends_a_worker_for_the_viewer_while_its_thread_is_busy_unless_it_is_waited_for(qtbot, is_waited_for):
    is_busy, go_on, heard = threading.Event(), threading.Event(), []

    def work(job):
        is_busy.set()
        go_on.wait()
        return "too late"

    worker = EngineWorker(work, is_waited_for=is_waited_for)
    worker.returned.connect(heard.append)
    worker.finished.connect(lambda: heard.append(go_on.is_set()))
    worker.start()
    is_busy.wait()
    worker.cancel()
    QCoreApplication.processEvents()
    assert heard == ([] if is_waited_for else [False])

    go_on.set()
    qtbot.waitUntil(lambda: not list_running_workers())

    assert heard == [is_waited_for]


def test_what_was_finished_but_not_yet_told_at_cancel_is_dropped(qtbot):
    is_done = threading.Event()
    worker = EngineWorker(lambda job: is_done.set())
    heard = []
    worker.returned.connect(heard.append)
    worker.start()
    is_done.wait()

    with qtbot.waitSignal(worker.finished):
        worker.cancel()

    assert heard == []


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
def test_the_worker_hears_of_the_engine_compiling(qtbot, monkeypatch, is_cached):
    @contextmanager
    def hear(tell):
        if not is_cached:
            tell()
        yield

    monkeypatch.setattr(worker_module, "CompilationListener", hear)
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


@pytest.mark.parametrize("error", [InvalidImageError("one was given; two are needed"), OSError("disk full")])
def test_foreseen_errors_are_told_in_their_own_words(error):
    assert describe_failure(error) == str(error)


def test_other_errors_come_with_their_kind_and_their_traceback_in_the_log(caplog):
    assert describe_failure(ZeroDivisionError("division by zero")) == "ZeroDivisionError: division by zero"
    assert caplog.records[0].exc_info[0] is ZeroDivisionError


def test_the_activity_dock_follows_a_worker_and_can_cancel_it(qtbot, monkeypatch):
    steps, texts = [], []
    monkeypatch.setattr(DockEntry, "set_description", lambda entry, text: texts.append(text))
    monkeypatch.setattr(DockEntry, "update", lambda entry, n: steps.append(n))

    def work(job):
        job.note("fusing")
        job.report(Step(2, 4))
        work_until_cancelled(job)

    worker = EngineWorker(work)
    entry = DockEntry(worker, title="Leaves")
    worker.start()
    qtbot.waitUntil(lambda: steps == [2])
    with qtbot.waitSignal(worker.finished):
        entry.cancel()
    assert (entry.total, texts) == (4, ["Leaves: fusing"])
