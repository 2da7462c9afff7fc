"""Threads are there for one piece of work, so that a fork of the process computes as its parent does."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import dask
import pytest

from qmcif_engine.io.dask_threads import dask_on_threads

FUSED_BEFORE_AND_AFTER_A_FORK = """
import multiprocessing, sys
from pathlib import Path
from qmcif_engine import FusionConfig, fuse_to_file, make_focus_stack, open_stack

images = make_focus_stack(n_images=2, shape=(150, 200)).images
config = FusionConfig().replaced({"tile_px": 64})

def work(name):
    fuse_to_file(open_stack(list(images)), Path(sys.argv[1]) / name, config, workers=2)

if __name__ == "__main__":
    work("parent.tif")
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.map(work, ["child.tif"])
"""


def test_all_keys_are_computed_in_threads_that_are_gone_afterwards():
    def here():
        return threading.current_thread()

    with dask_on_threads(2) as compute:
        threads = compute(dict.fromkeys(range(8), (here,)), list(range(8)))

    for thread in threads:
        thread.join(60)
    assert threading.current_thread() not in threads
    assert not any(thread.is_alive() for thread in threads)


def test_a_pool_that_dask_is_configured_with_computes():
    with ThreadPoolExecutor(1, thread_name_prefix="mine") as pool, dask.config.set(pool=pool), dask_on_threads(2) as compute:
        (name,) = compute({"a": (lambda: threading.current_thread().name,)}, ["a"])

    assert name.startswith("mine")


def test_the_error_of_a_task_is_raised():
    def fail():
        msg = "no sample"
        raise ValueError(msg)

    with pytest.raises(ValueError, match="no sample"), dask_on_threads(2) as compute:
        compute({"a": (fail,)}, ["a"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_a_fork_of_a_process_that_fused_fuses_the_same(tmp_path):
    script = tmp_path / "forks.py"
    script.write_text(FUSED_BEFORE_AND_AFTER_A_FORK, encoding="utf-8")

    # with threads that dask keeps, the child waits forever
    subprocess.run([sys.executable, script, tmp_path], check=True, timeout=300)

    assert (tmp_path / "parent.tif").read_bytes() == (tmp_path / "child.tif").read_bytes()
