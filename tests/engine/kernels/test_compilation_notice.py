"""Whoever waits for the first run hears that functions are compiled, and only then."""

import numpy as np
import pytest

from qmcif_engine.kernels.compilation import compiled
from qmcif_engine.compiled import hear_of_compilation


def doubled(values):
    for i in range(values.size):
        values[i] *= 2


@pytest.mark.usefixtures("no_kernel_cache")
def test_a_function_is_told_of_when_it_is_compiled_and_not_when_it_is_called_again():
    told, kernel = [], compiled(doubled)

    with hear_of_compilation(lambda: told.append(1)):
        kernel(np.ones(3))
        n_first = len(told)
        kernel(np.ones(3))
    kernel(np.ones(3, np.float32))

    assert n_first > 0
    assert len(told) == n_first
