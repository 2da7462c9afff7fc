"""Kernels are compiled even where their code cannot be stored."""

import subprocess
import sys

import numba
import numpy as np

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


@compiled
def _sum_of(values, factor=2):
    total = 0.0
    for i in range(values.size):
        total += factor * values[i]
    return total


@compiled
def _two_sums(values):
    return _sum_of(values) + _sum_of(values, 3)


def test_a_part_of_kernels_can_be_called_from_python_before_and_after_they_are_compiled():
    values = np.arange(5.0)

    before = _sum_of(values, factor=5)

    assert _two_sums(values) == 50
    assert (before, _sum_of(values)) == (50, 20)


def test_a_part_gets_no_machine_code_of_its_own():
    _sum_of.compile((numba.float32[::1], numba.int64))

    addresses = [found.library.get_pointer_to_function(found.fndesc.llvm_func_name) for found in _sum_of.overloads.values()]

    assert addresses
    assert not any(addresses)
