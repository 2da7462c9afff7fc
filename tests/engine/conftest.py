"""What the tests of the engine share."""

from __future__ import annotations

import inspect
import pickle
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

MEASURING_PROGRAM = """
import importlib.util, pickle, sys, tracemalloc

file, name, arguments = pickle.load(sys.stdin.buffer)
spec = importlib.util.spec_from_file_location("measured", file)
module = sys.modules["measured"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
work = getattr(module, name)(*arguments)
tracemalloc.start()
work()
print(tracemalloc.get_traced_memory()[1])
"""


@pytest.fixture
def no_kernel_cache(monkeypatch):
    """Keep no machine code: every function is compiled when it is first called."""
    monkeypatch.setattr("numba.core.dispatcher.Dispatcher.enable_caching", lambda kernel: None)


@pytest.fixture
def fusions(monkeypatch):
    """The number of images of every fusion that a comparison made."""
    from qmcif_engine.comparison import runner

    counted, fuse = [], runner.fuse

    def count(images, *arguments, **options):
        counted.append(len(images))
        return fuse(images, *arguments, **options)

    monkeypatch.setattr(runner, "fuse", count)
    return counted


@pytest.fixture(scope="session")
def peak_of():
    """Call with a function of the test's module, which prepares some work and returns it, and with its arguments.

    Returned are the most bytes that the work held at a time. It runs in a process of its own: what is traced is what all threads of a
    process hold, and those of other tests may still be running in this one.
    """

    def measure(prepare, *arguments):
        question = pickle.dumps((inspect.getfile(prepare), prepare.__name__, arguments))
        answer = subprocess.run([sys.executable, "-c", MEASURING_PROGRAM], input=question, stdout=subprocess.PIPE, check=True)
        return int(answer.stdout)

    return measure


@pytest.fixture(scope="session")
def run_limited():
    """Call with the arguments of the command ``qmcif``; it runs in a process that may take 2 CPU seconds and 500 MB.

    Returned is what became of it. A command that took more was ended by a signal, and its code is negative; a traceback is on its standard
    error, and a RuntimeWarning is one.
    """
    program = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "attack" / "limited_commands.py"))
    with program["LimitedCommands"]() as commands:
        yield commands.run
