"""One run at a time uses a folder; a run that ended without a word is recognized, here by its process, elsewhere by its silence."""

import json
import os
import socket
import subprocess
import sys
import time

import pytest

from qmcif_engine.errors import ExecutionError, OutputError
from qmcif_engine.io.output.leftovers import this_process
from qmcif_engine.run.lock import BEAT_SECONDS, ENDED_AFTER_SECONDS, RunLock, read_holder

ELSEWHERE = f"{'0' * 8}-17-4711"


class Clock:
    """Seconds that pass when told to."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


def lock_of(path, tag, *, silent_seconds=0.0):
    """A lock that another process holds, and how long ago it gave a sign of life."""
    content = {"session": "other", "owner": tag, "machine": "far", "since": "2026-01-01 12:00:00 UTC"}
    path.write_text(json.dumps(content))
    touched = time.time() - silent_seconds
    os.utime(path, (touched, touched))


def test_who_holds_a_lock_and_since_when_is_said(tmp_path):
    held = RunLock(tmp_path / "lock")
    held.acquire()

    with pytest.raises(OutputError, match=rf"process {os.getpid()} on '{socket.gethostname()}', since \d{{4}}-\d\d-\d\d .* UTC"):
        RunLock(tmp_path / "lock").acquire()
    held.release()
    RunLock(tmp_path / "lock").acquire()


def test_a_process_of_this_machine_that_ended_holds_nothing_from_that_moment(tmp_path):
    code = "import sys; from pathlib import Path; from qmcif_engine.run.lock import RunLock; RunLock(Path(sys.argv[1])).acquire()"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "lock")], check=True)
    assert read_holder(tmp_path / "lock").owner.pid != os.getpid()

    lock = RunLock(tmp_path / "lock")
    lock.acquire()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    assert read_holder(tmp_path / "lock").session == lock.session


def test_a_process_number_that_was_given_out_again_holds_nothing(tmp_path):
    me = this_process()
    lock_of(tmp_path / "lock", me._replace(start=str(int(me.start) - 1)).tag)

    RunLock(tmp_path / "lock").acquire()


def test_another_machine_holds_a_lock_while_it_gives_signs_of_life(tmp_path):
    lock_of(tmp_path / "lock", ELSEWHERE, silent_seconds=ENDED_AFTER_SECONDS / 2)

    with pytest.raises(OutputError, match=r"process 17 on 'far', since 2026-01-01 12:00:00 UTC, with a sign of life \d+ s ago"):
        RunLock(tmp_path / "lock").acquire()
    lock_of(tmp_path / "lock", ELSEWHERE, silent_seconds=2 * ENDED_AFTER_SECONDS)
    RunLock(tmp_path / "lock").acquire()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"session": 3}'])
def test_a_lock_that_cannot_be_read_counts_by_its_age(tmp_path, content):
    path = tmp_path / "lock"
    path.write_bytes(content)

    with pytest.raises(OutputError, match="a run is going on"):
        RunLock(path).acquire()
    os.utime(path, (1, 1))
    RunLock(path).acquire()


def test_a_sign_of_life_is_given_when_it_is_due_and_not_before(tmp_path):
    clock = Clock()
    lock = RunLock(tmp_path / "lock", clock=clock)
    lock.acquire()
    os.utime(lock.path, (1, 1))
    clock.seconds = BEAT_SECONDS - 1
    lock.heartbeat()
    assert lock.path.stat().st_mtime == 1
    clock.seconds = BEAT_SECONDS
    lock.heartbeat()
    assert lock.path.stat().st_mtime > 1


@pytest.mark.parametrize(("is_removed", "state"), [(True, "was removed"), (False, "was taken over by process 17 on 'far', since 2026")])
def test_a_run_that_lost_its_lock_ends(tmp_path, is_removed, state):
    lock = RunLock(tmp_path / "lock", clock=(clock := Clock()))
    lock.acquire()
    if is_removed:
        lock.path.unlink()
    else:
        lock_of(lock.path, ELSEWHERE)
    clock.seconds = BEAT_SECONDS

    with pytest.raises(ExecutionError, match=rf"{state}.* while this run was using it.*--resume"):
        lock.heartbeat()
    lock.release()
    assert lock.path.exists() is not is_removed


def test_of_two_that_find_a_dead_lock_one_gets_it(tmp_path, monkeypatch):
    """The second has judged the dead lock, but the first has replaced it by then."""
    path = tmp_path / "lock"
    lock_of(path, ELSEWHERE, silent_seconds=2 * ENDED_AFTER_SECONDS)
    first, second = RunLock(path), RunLock(path)
    judge = sys.modules["qmcif_engine.run.lock"].check_ended

    def judge_late(*arguments):
        judge(*arguments)
        monkeypatch.undo()
        first.acquire()

    monkeypatch.setattr("qmcif_engine.run.lock.check_ended", judge_late)
    with pytest.raises(OutputError, match="a run is going on"):
        second.acquire()
    assert read_holder(path).session == first.session
    first.check()


def test_a_lock_that_could_not_be_removed_is_free_in_the_same_process(tmp_path):
    lock = RunLock(tmp_path / "lock")
    lock.acquire()
    lock.forget()

    RunLock(tmp_path / "lock").acquire()
