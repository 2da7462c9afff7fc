from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from qmcif_engine.io.output.windowed_image import BLOCK_SIDE_PX, LevelFile, block_windows, halve, level_shapes
from qmcif_engine.stack.window import Window


def noise(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    generator = np.random.default_rng(5)
    if dtype.startswith("u"):
        return generator.integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)
    return generator.normal(0, 1e3, shape).astype(dtype)


def plain_mean(samples: np.ndarray) -> np.ndarray:
    """Every output sample by itself, in exact integers or in float64."""
    height, width = samples.shape[:2]
    out = np.empty((-(-height // 2), -(-width // 2), *samples.shape[2:]), samples.dtype)
    for row, column in np.ndindex(out.shape[:2]):
        square = samples[2 * row : 2 * row + 2, 2 * column : 2 * column + 2].reshape(-1, *samples.shape[2:])
        if samples.dtype.kind == "u":
            total, n = square.astype(object).sum(axis=0), len(square)
            out[row, column] = (2 * total + n) // (2 * n)
        else:
            out[row, column] = square.astype(np.float64).mean(axis=0)
    return out


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (5, 1), (6, 8), (7, 9), (7, 8, 3), (3, 3, 2)])
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_means_of_integers_are_exact_and_round_halves_up(shape, dtype):
    samples = noise(shape, dtype)
    np.testing.assert_array_equal(halve(samples), plain_mean(samples))
    assert halve(samples).dtype == dtype


def test_a_tie_goes_up_and_full_scale_stays():
    assert halve(np.array([[0, 1], [1, 0]], np.uint8)) == [[1]]
    assert halve(np.full((2, 2), 65535, np.uint16)) == [[65535]]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(6, 8, 3), (7, 9)])
def test_means_of_floats_are_those_of_float64(shape, dtype):
    samples = noise(shape, dtype)
    tolerance = 4 * np.finfo(dtype).eps * 1e4
    np.testing.assert_allclose(halve(samples), plain_mean(samples), rtol=0, atol=tolerance)
    assert halve(samples).dtype == dtype


def test_floats_near_the_largest_do_not_overflow():
    largest = np.finfo(np.float64).max
    assert halve(np.full((2, 2), largest)) == [[largest]]


def test_levels_end_with_the_first_that_is_one_block():
    assert level_shapes((512, 512)) == [(512, 512)]
    assert level_shapes((513, 10, 3)) == [(513, 10, 3), (257, 5, 3)]
    assert level_shapes((4000, 1025)) == [(4000, 1025), (2000, 513), (1000, 257), (500, 129)]


def test_a_level_file_returns_any_window_of_what_was_put(tmp_path):
    large = noise((1300, 1100, 3), "uint16")
    expected = halve(large)
    with closing(LevelFile(expected.shape, large.dtype, folder=tmp_path)) as level:
        for window in block_windows(large.shape):
            level.put(window, halve(large[window.slices]))
        for window in (Window(0, 0, 650, 550), Window(250, 255, 260, 513), Window(649, 549, 650, 550)):
            np.testing.assert_array_equal(level.read(window), expected[window.slices])
        assert list(tmp_path.iterdir()) == []


def test_halves_of_blocks_are_blocks_of_the_next_level():
    assert BLOCK_SIDE_PX % 2 == 0
