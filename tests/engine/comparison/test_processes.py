"""Work in processes gives what work here gives, and ends when it should."""

from __future__ import annotations

import errno
import multiprocessing
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import pytest
from dask.callbacks import Callback

from qmcif_engine.comparison.processes import run_everywhere
from qmcif_engine.errors import InvalidImageError, OutputError

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

SPAWNED = """
import os, signal, time
from qmcif_engine.errors import InvalidImageError, OutputError

def square(number, is_stopped):
    return os.getpid(), number**2

def fail(task, is_stopped):
    error = OutputError("the disk is full")
    error.errno = task
    raise error

def refuse(task, is_stopped):
    raise InvalidImageError("too small")

def die(task, is_stopped):
    os._exit(3)

def wait(task, is_stopped):
    while task != 0 and not is_stopped():
        time.sleep(0.01)
    return task

def press_interrupt_key(is_pressed, is_stopped):
    if is_pressed:
        os.kill(os.getppid(), signal.SIGINT)
    return wait(1, is_stopped)
"""


@pytest.fixture
def spawned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module that worker processes can import."""
    (tmp_path / "spawned_work.py").write_text(SPAWNED, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "spawned_work", raising=False)
    return import_module("spawned_work")


def test_processes_return_what_one_process_returns(spawned: ModuleType) -> None:
    here: list[tuple[int, int]] = []
    elsewhere: list[tuple[int, int]] = []
    run_everywhere(spawned.square, range(5), n_processes=1, on_result=here.append)
    run_everywhere(spawned.square, range(5), n_processes=2, on_result=elsewhere.append)

    assert [value for _, value in here] == [0, 1, 4, 9, 16]
    assert sorted(value for _, value in elsewhere) == [0, 1, 4, 9, 16]
    assert len({process for process, _ in here}) == 1
    assert not {process for process, _ in here} & {process for process, _ in elsewhere}


def test_no_work_starts_no_process() -> None:
    run_everywhere(pytest.fail, [], n_processes=8, on_result=pytest.fail)


def test_a_full_disk_is_still_known_as_such_in_the_parent(spawned: ModuleType) -> None:
    with pytest.raises(OutputError, match="the disk is full") as refusal:
        run_everywhere(spawned.fail, [errno.ENOSPC] * 2, n_processes=2, on_result=pytest.fail)

    assert refusal.value.errno == errno.ENOSPC


def test_other_errors_arrive_as_they_are_with_the_place_they_come_from_beside_the_message(spawned: ModuleType) -> None:
    with pytest.raises(InvalidImageError) as refusal:
        run_everywhere(spawned.refuse, [1, 2], n_processes=2, on_result=pytest.fail)

    assert type(refusal.value) is InvalidImageError
    assert str(refusal.value) == "too small"
    assert "in refuse" in refusal.value.__notes__[0]


def test_a_lost_worker_is_reported(spawned: ModuleType) -> None:
    with pytest.raises(ChildProcessError, match=r"a worker process was lost.*run the same command again, it resumes"):
        run_everywhere(spawned.die, [1, 2], n_processes=2, on_result=pytest.fail)


def test_an_interruption_ends_work_that_has_no_end_of_its_own(spawned: ModuleType) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_everywhere(spawned.wait, [0, 1, 0, 0], n_processes=2, on_result=interrupt)

    assert multiprocessing.active_children() == []


def test_the_interrupt_key_ends_work_in_progress(spawned: ModuleType) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_everywhere(spawned.press_interrupt_key, [True, False], n_processes=2, on_result=pytest.fail)

    assert multiprocessing.active_children() == []


def test_observers_of_other_computations_see_nothing_of_the_tasks(spawned: ModuleType) -> None:
    seen: list[object] = []
    with Callback(pretask=lambda key, *_: seen.append(key)):
        run_everywhere(spawned.square, range(2), n_processes=2, on_result=lambda _: None)

    assert seen == []
