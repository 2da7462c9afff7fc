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
    plain = numba.njit

    def without_a_place(*arguments, **options):
        if options.pop("cache", False):
            raise RuntimeError
        return plain(*arguments, **options)

    monkeypatch.setattr(numba, "njit", without_a_place)
    values = np.arange(5.0)

    compiled(doubled)(values)

    np.testing.assert_array_equal(values, 2 * np.arange(5.0))


def test_help_of_the_command_line_does_not_load_the_compiler():
    code = "import sys; from qmcif_engine.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\nprint('numba' in sys.modules)"

    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert finished.stdout.splitlines()[-1] == "False"
