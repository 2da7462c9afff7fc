"""Samples taken by a decision map, against the same in plain NumPy."""

import numpy as np
import pytest

from qmcif_engine.kernels.regions import take_chosen


def blocky(shape, *, seed=0):
    """A map of regions with few values, some of them high."""
    values = np.array([0, 3, 7, 65535], np.uint16)[np.random.default_rng(seed).integers(0, 4, (3, 4))]
    return np.kron(values, np.ones((-(-shape[0] // 3), -(-shape[1] // 4)), np.uint16))[: shape[0], : shape[1]].astype(np.uint16)


@pytest.mark.parametrize("side", [1, 16, 64])
@pytest.mark.parametrize("shape", [(1, 1), (30, 70), (65, 130)])
def test_chosen_samples_are_copied_and_all_others_stay(shape, side):
    index, (block, fused) = blocky(shape), np.random.default_rng(1).uniform(0, 255, (2, 3, *shape)).astype(np.float32)
    expected = {number: np.where(index == number, block, fused) for number in (0, 3, 7, 5, 65535)}

    for number, wanted in expected.items():
        result = fused.copy()
        take_chosen(block, index, np.full(1, number, np.uint16), side, result)
        np.testing.assert_array_equal(result, wanted)
