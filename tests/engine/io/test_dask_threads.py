"""Threads of Dask compute, and a fork of the process computes as its parent does."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import dask
import pytest

from qmcif_engine.io.dask_threads import compute_on_threads, count_cores

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


def test_all_keys_are_computed_in_other_threads():
    threads = compute_on_threads(dict.fromkeys(range(8), (threading.current_thread,)), list(range(8)), num_workers=2)

    assert len(threads) == 8
    assert threading.current_thread() not in threads


def test_a_pool_that_dask_is_configured_with_computes():
    with ThreadPoolExecutor(1, thread_name_prefix="mine") as pool, dask.config.set(pool=pool):
        (thread,) = compute_on_threads({"a": (threading.current_thread,)}, ["a"], num_workers=2)

    assert thread.name.startswith("mine")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_a_fork_of_a_process_that_fused_fuses_the_same(tmp_path):
    script = tmp_path / "forks.py"
    script.write_text(FUSED_BEFORE_AND_AFTER_A_FORK, encoding="utf-8")

    # with the pools of its parent, which have no threads there, the child would wait forever
    subprocess.run([sys.executable, script, tmp_path], check=True, timeout=300)

    assert (tmp_path / "parent.tif").read_bytes() == (tmp_path / "child.tif").read_bytes()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only some systems bind a process to cores")
def test_only_the_cores_that_the_process_may_use_count(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3, 5})

    assert count_cores() == 3


def test_all_cores_count_where_the_system_does_not_say(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)

    assert count_cores() == 7
