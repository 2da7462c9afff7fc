"""Kernels are compiled even where their code cannot be stored."""

import subprocess
import sys

import numba
import numpy as np
import pytest

from qmcif_engine.kernels.compilation import compiled


def doubled(values):
    for i in range(values.size):
        values[i] *= 2


def test_compiled_function_does_what_the_plain_one_does():
    values = np.arange(5.0)

    compiled(doubled)(values)

    np.testing.assert_array_equal(values, 2 * np.arange(5.0))


def test_kernels_work_where_no_cache_can_be_written(monkeypatch):
    def without_a_place(*_):
        raise RuntimeError

    monkeypatch.setattr("numba.core.caching.FunctionCache.__init__", without_a_place)
    values = np.arange(5.0)

    compiled(doubled)(values)

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


@pytest.mark.parametrize("version", ["0.61.2", "1.0.0"])
def test_functions_are_compiled_with_releases_of_numba_whose_insides_are_not_known(monkeypatch, version):
    monkeypatch.setattr(numba, "__version__", version)
    monkeypatch.setitem(sys.modules, "qmcif_engine.kernels.linked_parts", None)  # may not be importable then
    values = np.arange(5.0)

    compiled(doubled)(values)

    np.testing.assert_array_equal(values, 2 * np.arange(5.0))


def test_a_full_cache_costs_the_code_and_not_the_run_with_other_releases_too(monkeypatch):
    monkeypatch.setattr(numba, "__version__", "0.61.2")
    test_a_full_cache_costs_the_code_and_not_the_run(monkeypatch)
