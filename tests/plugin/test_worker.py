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
from napari.qt.threading import FunctionWorker
from napari.utils.notifications import notification_manager
from qtpy.QtCore import QCoreApplication, QObject, QThreadPool

from napari_qmcif import worker as worker_module
from napari_qmcif.worker import SHORTEST_REPORT_INTERVAL_SECONDS, describe_failure, list_running_workers, make_worker, notify
from qmcif_engine import Cancelled, InvalidImageError

Step = namedtuple("Step", "done total")


@pytest.fixture
def owner(qapp):
    return QObject()


def work_until_cancelled(job):
    while True:
        job.check_cancelled()
        time.sleep(0.005)


def test_work_runs_in_another_thread_and_its_signals_arrive_on_this_one(owner, qtbot):
    worker = make_worker(lambda number, job: (number, threading.get_ident()), 7, owner=owner)
    arrived = []
    worker.returned.connect(lambda result: arrived.append((*result, threading.get_ident())))

    with qtbot.waitSignal(worker.finished):
        worker.start()

    ((number, sender, receiver),) = arrived
    assert number == 7
    assert receiver == threading.get_ident() != sender


def test_it_is_a_worker_of_napari_so_that_a_magicgui_function_may_return_it(owner):
    assert isinstance(make_worker(work_until_cancelled, owner=owner), FunctionWorker)


def test_it_counts_as_running_from_its_start_until_it_tells_its_end(owner, qtbot):
    worker = make_worker(lambda job: "result", owner=owner)
    heard = []
    worker.returned.connect(lambda _: heard.append(("returned", list_running_workers())))
    worker.finished.connect(lambda: heard.append(("finished", list_running_workers())))
    assert not worker.is_started

    worker.start()
    assert (worker.is_started, list_running_workers()) == (True, [worker])
    qtbot.waitUntil(lambda: len(heard) == 2)

    assert heard == [("returned", []), ("finished", [])]


def test_progress_arrives_at_most_ten_times_a_second_and_the_last_step_always(owner, qtbot, monkeypatch):
    clock = itertools.count(step=0.3 * SHORTEST_REPORT_INTERVAL_SECONDS)
    monkeypatch.setattr(worker_module, "time", SimpleNamespace(monotonic=clock.__next__))

    def work(job):
        for done in range(1, 21):
            job.report(Step(done, 20))

    worker = make_worker(work, owner=owner)
    steps = []
    worker.progressed.connect(lambda done, total: steps.append((done, total)))

    with qtbot.waitSignal(worker.finished):
        worker.start()

    assert steps == [(done, 20) for done in (1, 5, 9, 13, 17, 20)]


def test_errors_are_told_and_not_raised(owner, qtbot):
    def work(job):
        msg = "disk on fire"
        raise OSError(msg)

    worker = make_worker(work, owner=owner)

    with qtbot.waitSignal(worker.errored) as failed, qtbot.waitSignal(worker.finished):
        worker.start()

    assert str(failed.args[0]) == "disk on fire"


def test_a_cancelled_worker_ends_without_result_and_without_error(owner, qtbot):
    worker = make_worker(work_until_cancelled, owner=owner)
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
def test_cancel_ends_a_worker_for_the_viewer_while_its_thread_is_busy_unless_it_is_waited_for(owner, qtbot, is_waited_for):
    is_busy, go_on, heard = threading.Event(), threading.Event(), []

    def work(job):
        is_busy.set()
        go_on.wait()
        return "too late"

    worker = make_worker(work, owner=owner, is_waited_for=is_waited_for)
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


def test_what_was_finished_but_not_yet_told_at_cancel_is_dropped(owner, qtbot):
    is_done = threading.Event()
    worker = make_worker(lambda job: is_done.set(), owner=owner)
    heard = []
    worker.returned.connect(heard.append)
    QThreadPool.globalInstance().start(worker)
    is_done.wait()

    with qtbot.waitSignal(worker.finished):
        worker.cancel()

    assert heard == []


def test_deleting_the_owner_cancels_the_worker(owner, qtbot):
    worker = make_worker(work_until_cancelled, owner=owner)

    with qtbot.waitSignal(worker.finished):
        worker.start()
        owner.deleteLater()

    assert worker.is_cancelled()


def test_two_workers_at_once_leave_the_warning_filters_alone(owner, qtbot):
    before = (warnings.showwarning, list(warnings.filters))
    release, ended = threading.Event(), []
    for _ in range(2):
        worker = make_worker(lambda job: release.wait(10), owner=owner)
        worker.finished.connect(lambda: ended.append(1))
        worker.start()
    release.set()
    qtbot.waitUntil(lambda: len(ended) == 2)

    assert (warnings.showwarning, list(warnings.filters)) == before


def test_more_workers_than_the_pool_has_threads_run_at_once(owner, qtbot):
    n_workers = QThreadPool.globalInstance().maxThreadCount() + 2
    all_there, ended = threading.Barrier(n_workers), []
    for _ in range(n_workers):
        worker = make_worker(lambda job: all_there.wait(60), owner=owner)
        worker.errored.connect(ended.append)
        worker.finished.connect(lambda: ended.append(None))
        worker.start()

    qtbot.waitUntil(lambda: len(ended) >= n_workers)

    assert ended == [None] * n_workers


def test_compiling_is_said_until_the_next_step(owner, qtbot):
    def work(job):
        job.note("fusing leaf")
        job.note_compiling()
        job.note_compiling()
        job.report(Step(1, 2))
        job.report(Step(2, 2))

    worker, notes = make_worker(work, owner=owner), []
    worker.noted.connect(notes.append)

    with qtbot.waitSignal(worker.finished):
        worker.start()

    assert notes == ["fusing leaf", worker_module.COMPILING, "fusing leaf"]


@pytest.mark.parametrize("is_cached", [True, False])
def test_the_worker_hears_of_the_engine_compiling(owner, qtbot, monkeypatch, is_cached):
    @contextmanager
    def hear(tell):
        if not is_cached:
            tell()
        yield

    monkeypatch.setattr(worker_module, "CompilationListener", hear)
    worker, notes = make_worker(lambda job: None, owner=owner), []
    worker.noted.connect(notes.append)

    with qtbot.waitSignal(worker.finished):
        worker.start()

    assert notes == ([] if is_cached else [worker_module.COMPILING])


OUTLIVES_THE_VIEWER = """
from qtpy import sip
from qtpy.QtCore import QCoreApplication, QThreadPool

from napari_qmcif.worker import make_worker


def work(job):
    sip.delete(job.signals)  # what Qt does to them when the viewer is closed meanwhile


application = QCoreApplication([])
make_worker(work).start()
QThreadPool.globalInstance().waitForDone()
"""


def test_work_that_outlives_the_viewer_does_not_end_the_process():
    finished = subprocess.run([sys.executable, "-c", OUTLIVES_THE_VIEWER], check=False, capture_output=True, text=True)

    assert (finished.returncode, finished.stderr) == (0, "")


@pytest.fixture
def told(monkeypatch):
    notifications = []
    monkeypatch.setattr(notification_manager, "dispatch", notifications.append)
    return notifications


@pytest.mark.parametrize("error", [InvalidImageError("one was given; two are needed"), OSError("disk full")])
def test_foreseen_errors_are_told_in_their_own_words(told, error):
    notify(error)

    assert [notification.message for notification in told] == [describe_failure(error)] == [str(error)]


def test_other_errors_come_with_their_kind_and_traceback(told):
    error = ZeroDivisionError("division by zero")
    notify(error)

    assert describe_failure(error) == "ZeroDivisionError: division by zero"
    assert told[0].exception is error
