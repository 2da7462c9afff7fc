"""Functions that others call become parts of those, and can still be called from Python."""

import numba
import numpy as np
import pytest

from qmcif_engine.kernels.compilation import RELEASES, compiled


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


@pytest.mark.skipif(not numba.__version__.startswith(RELEASES), reason="this release of numba compiles every function by itself")
def test_a_part_gets_no_machine_code_of_its_own():
    _sum_of.compile((numba.float32[::1], numba.int64))

    addresses = [found.library.get_pointer_to_function(found.fndesc.llvm_func_name) for found in _sum_of.overloads.values()]

    assert addresses
    assert not any(addresses)
