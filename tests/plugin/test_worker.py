"""A job runs beside the GUI thread, reports seldom, stops when asked and leaves nothing behind."""

import itertools
import threading
import time
import warnings
from collections import namedtuple
from types import SimpleNamespace

import pytest
from qtpy.QtCore import QObject

from napari_qmcif import worker
from napari_qmcif.worker import SHORTEST_REPORT_INTERVAL_SECONDS, BackgroundJob, list_running_jobs
from qmcif_engine import Cancelled

Step = namedtuple("Step", "done total")


@pytest.fixture
def owner(qapp):
    return QObject()


def find_threads():
    return [thread for thread in threading.enumerate() if thread.name == "qmcif"]


def test_work_runs_in_another_thread_and_signals_arrive_on_this_one(owner, qtbot):
    job = BackgroundJob(lambda _: threading.get_ident(), owner=owner)
    arrived = []
    job.returned.connect(lambda result: arrived.append((result, threading.get_ident())))

    with qtbot.waitSignal(job.ended):
        job.start()

    ((sender, receiver),) = arrived
    assert receiver == threading.get_ident() != sender


def test_the_end_is_told_when_the_thread_is_no_more(owner, qtbot, monkeypatch):
    class Lingering(threading.Thread):
        def run(self):
            super().run()
            time.sleep(0.5)

    monkeypatch.setattr(worker, "threading", SimpleNamespace(Event=threading.Event, Thread=Lingering))
    job = BackgroundJob(lambda _: "result", owner=owner)
    heard = []
    job.returned.connect(lambda _: heard.append(("returned", find_threads(), list_running_jobs())))
    job.ended.connect(lambda: heard.append(("ended", find_threads(), list_running_jobs())))

    job.start()
    assert list_running_jobs() == [job]
    qtbot.waitUntil(lambda: len(heard) == 2)

    assert heard == [("returned", [], []), ("ended", [], [])]


def test_progress_arrives_at_most_ten_times_a_second_and_the_last_step_always(owner, qtbot, monkeypatch):
    clock = itertools.count(step=0.3 * SHORTEST_REPORT_INTERVAL_SECONDS)
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=clock.__next__))

    def work(job):
        for done in range(1, 21):
            job.report(Step(done, 20))

    job = BackgroundJob(work, owner=owner)
    steps = []
    job.progressed.connect(lambda done, total: steps.append((done, total)))

    with qtbot.waitSignal(job.ended):
        job.start()

    assert steps == [(done, 20) for done in (1, 5, 9, 13, 17, 20)]


def test_errors_are_passed_on(owner, qtbot):
    def work(job):
        msg = "disk on fire"
        raise OSError(msg)

    job = BackgroundJob(work, owner=owner)

    with qtbot.waitSignal(job.failed) as failed, qtbot.waitSignal(job.ended):
        job.start()

    assert str(failed.args[0]) == "disk on fire"


def work_until_cancelled(job):
    while not job.is_cancelled():
        time.sleep(0.005)
    msg = "stopped"
    raise Cancelled(msg)


def test_a_cancelled_job_ends_without_result_and_without_error(owner, qtbot):
    job = BackgroundJob(work_until_cancelled, owner=owner)
    heard = []
    job.returned.connect(heard.append)
    job.failed.connect(heard.append)

    with qtbot.waitSignal(job.ended):
        job.start()
        job.cancel()

    assert heard == []


def test_a_result_that_comes_after_cancel_is_dropped(owner, qtbot):
    def work(job):
        while not job.is_cancelled():
            time.sleep(0.005)
        return "too late"

    job = BackgroundJob(work, owner=owner)
    heard = []
    job.returned.connect(heard.append)

    with qtbot.waitSignal(job.ended):
        job.start()
        job.cancel()

    assert heard == []


def test_what_was_finished_but_not_yet_told_at_cancel_is_dropped(owner, qtbot):
    job = BackgroundJob(lambda _: "finished", owner=owner)
    heard = []
    job.returned.connect(heard.append)
    job.start()
    for thread in find_threads():
        thread.join()

    with qtbot.waitSignal(job.ended):
        job.cancel()

    assert heard == []


def test_deleting_the_owner_cancels_the_job(owner, qtbot):
    job = BackgroundJob(work_until_cancelled, owner=owner)

    with qtbot.waitSignal(job.ended):
        job.start()
        owner.deleteLater()

    assert job.is_cancelled()


def test_two_jobs_at_once_leave_the_warning_filters_alone(owner, qtbot):
    before = (warnings.showwarning, list(warnings.filters))
    release = threading.Event()
    jobs = [BackgroundJob(lambda _: release.wait(10), owner=owner) for _ in range(2)]
    ended = []
    for job in jobs:
        job.ended.connect(lambda: ended.append(1))
        job.start()
    release.set()
    qtbot.waitUntil(lambda: len(ended) == 2)

    assert (warnings.showwarning, list(warnings.filters)) == before
