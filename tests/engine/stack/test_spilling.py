import numpy as np
import pytest

from qmcif_engine.stack.spilling import SpilledArrays


def arrays(n, shape=(5, 7), dtype=np.float32):
    return [np.random.default_rng(number).integers(0, 200, shape).astype(dtype) for number in range(n)]


@pytest.mark.parametrize("memory_bytes", [0, 1, 140, 300, 10**6])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_arrays_come_back_in_order_wherever_they_were_kept(memory_bytes, dtype, tmp_path):
    given = arrays(6, dtype=dtype)
    kept = SpilledArrays(memory_bytes=memory_bytes, folder=tmp_path)
    for array in given:
        kept.append(array)

    assert len(kept) == 6
    for _ in range(2):
        for number in (3, 0, 5, 1, 4, 2):
            np.testing.assert_array_equal(kept[number], given[number])
            assert kept[number].dtype == dtype
    np.testing.assert_array_equal(list(kept), given)
    np.testing.assert_array_equal(kept[1:4], given[1:4])


def test_no_more_than_the_limit_stays_in_memory():
    given = arrays(5)
    kept = SpilledArrays(memory_bytes=2 * given[0].nbytes)
    for array in given:
        kept.append(array)

    assert [kept[number] is given[number] for number in range(5)] == [True, True, False, False, False]


def test_nothing_is_left_behind(tmp_path):
    kept = SpilledArrays(memory_bytes=0, folder=tmp_path)
    kept.append(arrays(1)[0])
    del kept

    assert list(tmp_path.iterdir()) == []


def test_an_array_that_was_never_appended_is_refused():
    kept = SpilledArrays(memory_bytes=10**6)
    kept.append(arrays(1)[0])

    with pytest.raises(IndexError, match="array 1 was asked for; there are 1"):
        kept[1]


@pytest.mark.parametrize("memory_bytes", [0, 10**6])
def test_rows_are_those_of_the_array(memory_bytes):
    arrays = np.random.default_rng(2).integers(0, 255, (3, 12, 5, 3), np.uint8)
    kept = SpilledArrays(memory_bytes=memory_bytes)
    for array in arrays:
        kept.append(array)

    np.testing.assert_array_equal(kept.read_rows(1, 4, 9), arrays[1, 4:9])
    np.testing.assert_array_equal(kept.read_rows(2, 0, 12), arrays[2])
