"""Dask schedules everything: the packages have no pool, thread or queue of their own, the worker of the viewer apart."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

SCHEDULING = [
    "_thread",
    "asyncio",
    "concurrent",
    "joblib",
    "multiprocessing.Pool",
    "multiprocessing.Process",
    "multiprocessing.Queue",
    "multiprocessing.dummy",
    "multiprocessing.get_context",
    "multiprocessing.pool",
    "multiprocessing.process",
    "multiprocessing.queues",
    "napari.qt.threading",
    "qtpy.QtCore.QThread",
    "qtpy.QtCore.QThreadPool",
    "queue",
    "sched",
    "threading.Thread",
    "threading.Timer",
]
"""Names that start work beside the caller, or that hand it over; locks and events only guard it and are not among them."""

EXCEPTIONS = {
    # a thread that keeps the window alive while the engine, that is Dask, works
    "napari_qmcif/worker.py": {"threading.Thread"},
    # whole fusions beside each other, each of which runs on Dask
    "qmcif_engine/comparison/runner.py": {
        "concurrent.futures.ProcessPoolExecutor",
        "concurrent.futures.as_completed",
        "concurrent.futures.process.BrokenProcessPool",
        "multiprocessing.get_context",
    },
    # what a client of a cluster that is gone logs while it connects again
    "qmcif_engine/run/cluster.py": {"asyncio.CancelledError"},
    # what Zarr's own stores do: its loop, one for all threads of Dask, waits for no file and no server
    "qmcif_engine/io/zarr/zarr_checks.py": {"asyncio", "asyncio.to_thread"},
}


def list_names(code):
    """Return the dotted names of everything that a module imports, anywhere in it, or takes from what it imports."""
    tree, origins, names = ast.parse(code), {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names.add(alias.name)
                origins[alias.asname or alias.name.partition(".")[0]] = alias.name if alias.asname else alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                names.add(f"{node.module}.{alias.name}")
                origins[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            first, *rest = ast.unparse(node).split(".")
            if first in origins:
                names.add(".".join([origins[first], *rest]))
    return names


def find_scheduling(code):
    return {name for name in list_names(code) if any(f"{name}.".startswith(f"{taken}.") for taken in SCHEDULING)}


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import queue", "queue"),
        ("from concurrent.futures import ThreadPoolExecutor", "concurrent.futures.ThreadPoolExecutor"),
        ("import concurrent.futures as futures\nfutures.wait([])", "concurrent.futures.wait"),
        ("def run():\n    from threading import Thread", "threading.Thread"),
        ("import threading as t\nt.Thread(target=print).start()", "threading.Thread"),
        ("import multiprocessing\nmultiprocessing.get_context('spawn').Pool(2)", "multiprocessing.get_context"),
        ("if True:\n    from multiprocessing.pool import ThreadPool", "multiprocessing.pool.ThreadPool"),
    ],
)
def test_scheduling_is_found_wherever_it_stands(code, name):
    assert name in find_scheduling(code)


def test_guards_are_no_scheduling():
    assert not find_scheduling(
        "import threading\nlock, stop = threading.Lock(), threading.Event()\nimport queues_of_mine\nimport dask.threaded"
    )


def test_there_is_no_scheduling_of_our_own_beside_dask():
    found = {path.relative_to(SOURCE).as_posix(): find_scheduling(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}

    assert {path: names for path, names in found.items() if names} == EXCEPTIONS
