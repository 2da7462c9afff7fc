"""Functions are compiled even where their code cannot be stored, and whoever waits hears of it."""

import subprocess
import sys

import numpy as np
import pytest

from qmcif_engine.compiled import CompilationListener, compiled


def doubled(values):
    for i in range(values.size):
        values[i] *= 2


def test_compiled_function_does_what_the_plain_one_does():
    values = np.arange(5.0)

    compiled(doubled)(values)

    np.testing.assert_array_equal(values, 2 * np.arange(5.0))


def test_functions_work_where_no_cache_can_be_written(monkeypatch):
    def without_a_place(*_):
        raise RuntimeError

    monkeypatch.setattr("numba.core.caching.FunctionCache.__init__", without_a_place)
    monkeypatch.setattr("qmcif_engine.compiled.without_cache", noted := [])
    values = np.arange(5.0)

    compiled(doubled)(values)

    assert noted == ["doubled"]
    np.testing.assert_array_equal(values, 2 * np.arange(5.0))


def test_help_of_the_command_line_does_not_load_the_compiler():
    code = "import sys; from qmcif_engine.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\nprint('numba' in sys.modules)"

    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert finished.stdout.splitlines()[-1] == "False"


def test_a_full_cache_costs_the_code_and_not_the_run(monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile.save", full)
    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile.load", full)

    @compiled
    def double(number):
        return 2 * number

    assert double(21) == 42


@pytest.mark.usefixtures("no_kernel_cache")
def test_a_function_is_told_of_when_it_is_compiled_and_not_when_it_is_called_again():
    told, kernel = [], compiled(doubled)

    with CompilationListener(lambda: told.append(1)):
        kernel(np.ones(3))
        n_first = len(told)
        kernel(np.ones(3))
    kernel(np.ones(3, np.float32))

    assert n_first > 0
    assert len(told) == n_first
