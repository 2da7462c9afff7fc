"""Passes over blocks leave nothing behind in the process."""

import threading

from dask.delayed import delayed

from qmcif_engine.metrics.by_block.block_run import STEPS_A_PASS, BlockRun
from qmcif_engine.metrics.evaluation_progress import StepCounter


def test_a_pass_tells_its_steps_and_its_threads_end_with_it():
    told = []
    run = BlockRun(StepCounter(STEPS_A_PASS, told.append))

    threads = run.compute("Q_G", *(delayed(threading.current_thread, pure=False)() for _ in range(5)))

    # a fork of this process could not use threads that stay
    for thread in threads:
        thread.join(60)
    assert threading.current_thread() not in threads
    assert not any(thread.is_alive() for thread in threads)
    assert [progress.done for progress in told] == list(range(1, STEPS_A_PASS + 1))
