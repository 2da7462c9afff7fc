"""Blocks are worked on side by side, come in order, and nobody is at work on them once the run has ended."""

from __future__ import annotations

import signal
import threading
import time

import dask
import numpy as np
import pytest
from dask.callbacks import Callback

from qmcif_engine.errors import Cancelled, InvalidImageError
from qmcif_engine.io.output.picture import BLOCK_SIDE_PX, ArrayPicture, WriteRun, block_windows
from qmcif_engine.io.output.stack_blocks import BlockThreads

LONGEST_CANCEL_SECONDS = 0.5


def make_threads(folder, n_workers=3, **options):
    return BlockThreads(n_workers, run=WriteRun(100, scratch_folder=folder, **options))


class Watched:
    """Work that knows how many threads are at it and which blocks they were at."""

    def __init__(self, seconds=0.0, fails_at=None):
        self.seconds, self.fails_at = seconds, fails_at
        self.n_now = self.n_most = 0
        self.begun, self._lock = [], threading.Lock()

    def __call__(self, block):
        with self._lock:
            self.n_now += 1
            self.n_most = max(self.n_now, self.n_most)
            self.begun.append(block)
        try:
            if block == self.fails_at:
                msg = f"block {block} is broken"
                raise InvalidImageError(msg)
            time.sleep(self.seconds)
            return block**2
        finally:
            with self._lock:
                self.n_now -= 1


def test_results_come_in_the_order_of_the_blocks_whichever_is_ready_first(tmp_path):
    def finish_late_blocks_first(block):
        time.sleep(0.01 * (7 - block))
        return block

    assert list(make_threads(tmp_path).map(finish_late_blocks_first, range(7))) == list(range(7))


@pytest.mark.parametrize("n_workers", [1, 3])
def test_blocks_are_worked_on_side_by_side_but_never_more_than_allowed(tmp_path, n_workers):
    together = threading.Barrier(n_workers)
    work = Watched()

    def meet(block):
        together.wait(timeout=30)
        return work(block)

    assert list(make_threads(tmp_path, n_workers).map(meet, range(6 * n_workers))) == [block**2 for block in range(6 * n_workers)]
    assert work.n_most <= n_workers


def test_only_a_few_blocks_are_ahead_of_the_one_handed_over(tmp_path):
    threads, work = make_threads(tmp_path), Watched()

    for position, _ in enumerate(threads.map(work, range(50))):
        assert len(work.begun) <= position + threads.batch_size


def test_a_failing_block_ends_the_run_with_its_error_and_leaves_no_thread_at_work(tmp_path):
    work = Watched(seconds=0.1, fails_at=1)

    with pytest.raises(InvalidImageError, match="block 1 is broken"):
        list(make_threads(tmp_path).map(work, range(50)))
    assert work.n_now == 0
    assert len(work.begun) <= 6


def test_a_cancelled_run_ends_at_once_and_leaves_no_thread_at_work(tmp_path):
    work, asked_at = Watched(seconds=0.05), []

    def cancel_after_five_blocks():
        if len(work.begun) >= 5:
            asked_at.append(time.monotonic())
            raise Cancelled

    with pytest.raises(Cancelled):
        list(make_threads(tmp_path, check_cancelled=cancel_after_five_blocks).map(work, range(1000)))
    assert time.monotonic() - asked_at[0] < LONGEST_CANCEL_SECONDS
    assert work.n_now == 0
    assert len(asked_at) == 1


def test_the_interrupt_key_ends_the_run_and_leaves_no_thread_at_work(tmp_path):
    main = threading.get_ident()
    work = Watched(seconds=0.2)

    def work_and_interrupt(block):
        if block == 0:
            signal.pthread_kill(main, signal.SIGINT)
        return work(block)

    with pytest.raises(KeyboardInterrupt):
        list(make_threads(tmp_path).map(work_and_interrupt, range(1000)))
    assert work.n_now == 0
    assert len(work.begun) <= 6


def test_the_caller_is_asked_and_told_in_its_own_thread(tmp_path):
    callers = []

    list(make_threads(tmp_path, check_cancelled=lambda: callers.append(threading.get_ident())).map(Watched(), range(9)))

    assert set(callers) == {threading.get_ident()}


def test_observers_of_other_computations_see_nothing_of_the_blocks_and_keep_watching(tmp_path):
    seen = []
    with Callback(pretask=lambda key, *_: seen.append(key)):
        list(make_threads(tmp_path).map(Watched(), range(9)))
        assert seen == []
        dask.delayed(abs)(-1).compute(scheduler="synchronous")
    assert len(seen) == 1


def test_a_picture_read_in_batches_is_the_picture_however_often_it_is_read(tmp_path):
    samples = np.random.default_rng(3).integers(0, 255, (2 * BLOCK_SIDE_PX + 5, 3 * BLOCK_SIDE_PX - 7), np.uint8)
    picture, threads = ArrayPicture(samples), make_threads(tmp_path)
    ahead = threads.ahead_of(picture)
    windows = list(block_windows(picture.shape))

    for window in [*windows, *windows, windows[4], windows[0]]:
        np.testing.assert_array_equal(ahead.read(window), picture.read(window))
    np.testing.assert_array_equal(threads.read_whole(picture), samples)


def test_a_writer_in_another_thread_gets_the_same(tmp_path):
    found = []
    writer = threading.Thread(target=lambda: found.extend(make_threads(tmp_path).map(Watched(), range(9))))
    writer.start()
    writer.join()

    assert found == [block**2 for block in range(9)]
