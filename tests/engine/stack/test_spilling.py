"""Arrays that wait in a temporary file where memory is short."""

import numpy as np
import pytest

from qmcif_engine.stack.spilling import SpilledArrays


def arrays(n, shape=(12, 7, 3), dtype=np.float32):
    return [np.random.default_rng(number).integers(0, 200, shape).astype(dtype) for number in range(n)]


@pytest.mark.parametrize("memory_bytes", [0, 1, 252, 600, 10**6])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_rows_come_back_in_order_wherever_they_were_kept(memory_bytes, dtype):
    given = arrays(6, dtype=dtype)
    kept = SpilledArrays(memory_bytes=memory_bytes)
    for array in given:
        kept.append(array)

    assert len(kept) == 6
    for _ in range(2):
        for number in (3, 0, 5, 1, 4, 2):
            np.testing.assert_array_equal(kept.read_rows(number, 0, 12), given[number])
            np.testing.assert_array_equal(kept.read_rows(number, 4, 9), given[number][4:9])
            assert kept.read_rows(number, 4, 9).dtype == dtype
        np.testing.assert_array_equal(list(kept), given)


def test_no_more_than_the_limit_stays_in_memory_and_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    given = arrays(5)
    kept = SpilledArrays(memory_bytes=2 * given[0].nbytes)
    for array in given:
        kept.append(array)

    assert [np.shares_memory(kept.read_rows(number, 0, 12), given[number]) for number in range(5)] == [True, True, False, False, False]
    del kept
    assert list(tmp_path.iterdir()) == []
