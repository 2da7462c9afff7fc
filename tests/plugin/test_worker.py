"""A job runs beside the GUI thread, reports seldom, stops when asked and leaves nothing behind."""

import threading
import time
import warnings
from collections import namedtuple

import pytest
from qtpy.QtCore import QObject

from napari_qmcif.worker import SHORTEST_REPORT_INTERVAL_SECONDS, Job
from qmcif_engine import Cancelled

Step = namedtuple("Step", "done total")


@pytest.fixture
def owner(qapp):
    return QObject()


def test_work_runs_in_another_thread_and_signals_arrive_on_this_one(owner, qtbot):
    job = Job(lambda _: threading.get_ident(), owner=owner)
    arrived = []
    job.returned.connect(lambda result: arrived.append((result, threading.get_ident())))

    with qtbot.waitSignal(job.ended):
        job.start()

    qtbot.waitUntil(lambda: bool(arrived))
    (worker, receiver) = arrived[0]
    assert receiver == threading.get_ident() != worker


def test_progress_arrives_at_most_ten_times_a_second_and_the_last_step_always(owner, qtbot):
    def work(job):
        for done in range(1, 1001):
            job.report(Step(done, 1000))
            time.sleep(0.0003)

    job = Job(work, owner=owner)
    steps = []
    job.progressed.connect(lambda done, total: steps.append((done, total)))
    started = time.monotonic()

    with qtbot.waitSignal(job.ended):
        job.start()

    seconds = time.monotonic() - started
    qtbot.waitUntil(lambda: bool(steps) and steps[-1] == (1000, 1000))
    assert 2 <= len(steps) <= seconds / SHORTEST_REPORT_INTERVAL_SECONDS + 2


def test_errors_are_passed_on(owner, qtbot):
    def work(job):
        msg = "disk on fire"
        raise OSError(msg)

    job = Job(work, owner=owner)

    with qtbot.waitSignal(job.failed) as failed, qtbot.waitSignal(job.ended):
        job.start()

    assert str(failed.args[0]) == "disk on fire"


def work_until_cancelled(job):
    while not job.is_cancelled():
        time.sleep(0.005)
    msg = "stopped"
    raise Cancelled(msg)


def test_a_cancelled_job_ends_without_result_and_without_error(owner, qtbot):
    job = Job(work_until_cancelled, owner=owner)
    heard = []
    job.returned.connect(heard.append)
    job.failed.connect(heard.append)

    with qtbot.waitSignal(job.ended):
        job.start()
        job.cancel()

    qtbot.wait(20)
    assert heard == []


def test_a_result_that_comes_after_cancel_is_dropped(owner, qtbot):
    def work(job):
        while not job.is_cancelled():
            time.sleep(0.005)
        return "too late"

    job = Job(work, owner=owner)
    heard = []
    job.returned.connect(heard.append)

    with qtbot.waitSignal(job.ended):
        job.start()
        job.cancel()

    qtbot.wait(20)
    assert heard == []


def test_deleting_the_owner_cancels_the_job(owner, qtbot):
    job = Job(work_until_cancelled, owner=owner)

    with qtbot.waitSignal(job.ended):
        job.start()
        owner.deleteLater()

    assert job.is_cancelled()


def test_two_jobs_at_once_leave_the_warning_filters_alone(owner, qtbot):
    before = (warnings.showwarning, list(warnings.filters))
    release = threading.Event()
    jobs = [Job(lambda _: release.wait(10), owner=owner) for _ in range(2)]
    ended = []
    for job in jobs:
        job.ended.connect(lambda: ended.append(1))
        job.start()
    release.set()
    qtbot.waitUntil(lambda: len(ended) == 2)

    assert (warnings.showwarning, list(warnings.filters)) == before
