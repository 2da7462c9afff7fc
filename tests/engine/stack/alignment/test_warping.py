import numpy as np
import pytest

from qmcif_engine.stack.alignment.warping import N_PHASES, TAPS_BEFORE, find_covered, resample, tabulate_weights
from qmcif_engine.stack.window import Window

TOLERANCE = 32 * np.finfo(np.float64).eps


def resample_plainly(source, matrix, corner, shape):
    """The kernel in plain NumPy, pixel by pixel."""
    weights = tabulate_weights(np.dtype(np.float64))
    out = np.empty((*shape, source.shape[-1]))
    for row, column in np.ndindex(shape):
        *place, distance = matrix @ (corner[1] + column, corner[0] + row, 1)
        right, down = np.floor(np.array(place) / distance * N_PHASES + 0.5).astype(int)
        left, top = right // N_PHASES - TAPS_BEFORE - corner[3], down // N_PHASES - TAPS_BEFORE - corner[2]
        kernel = np.outer(weights[down % N_PHASES], weights[right % N_PHASES])
        out[row, column] = np.tensordot(kernel, source[top : top + 6, left : left + 6], 2)
    return out


@pytest.mark.parametrize("last_row", [(0.0, 0.0, 1.0), (1e-4, -2e-4, 1.0)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_compiled_loop_does_what_plain_numpy_does(last_row, kind):
    source = np.random.default_rng(5).random((30, 30, 2))
    matrix = np.array([(1.02, 0.1, -90.3), (-0.1, 0.98, -40.6), last_row])
    corner = np.array([60, 110, 0, 24])
    out = np.empty((12, 14, 2), kind)

    resample(np.ascontiguousarray(np.moveaxis(source, -1, 0), kind), tabulate_weights(np.dtype(kind)), matrix, corner, out)

    tolerance = 32 * np.finfo(kind).eps
    np.testing.assert_allclose(out, resample_plainly(source, matrix, corner, out.shape[:2]), rtol=tolerance, atol=tolerance)


def test_the_weights_keep_constants_slopes_and_parabolas():
    weights = tabulate_weights(np.dtype(np.float64))
    distance = np.arange(6) - TAPS_BEFORE - np.arange(N_PHASES)[:, np.newaxis] / N_PHASES

    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=TOLERANCE)
    np.testing.assert_allclose((weights * distance).sum(axis=1), 0, atol=TOLERANCE)
    np.testing.assert_allclose((weights * distance**2).sum(axis=1), 0, atol=4 * TOLERANCE)


def test_a_pixel_itself_is_taken_as_it_is():
    np.testing.assert_array_equal(tabulate_weights(np.dtype(np.float64))[0], [0, 0, 1, 0, 0, 0])


@pytest.mark.parametrize("last_row", [(0.0, 0.0, 1.0), (1e-3, -2e-3, 1.0)])
@pytest.mark.parametrize("first_row", [(1.02, 0.1, -9.3), (-0.9, 0.3, 40.1), (1.0, 0.0, 3.0), (0.0, 1.1, 0.4)])
def test_valid_pixels_are_those_whose_kernels_lie_inside(first_row, last_row):
    matrix, shape = np.array([first_row, (-0.1, 0.98, 4.6), last_row]), (50, 60)
    y, x = np.mgrid[:50, :60].reshape(2, -1)
    *places, distance = matrix @ (x, y, np.ones_like(x))
    right, down = (np.floor(place / distance * N_PHASES + 0.5).astype(int) // N_PHASES for place in places)
    is_copied = first_row[:2] == (1, 0) and last_row[0] == 0
    before, after = (0, 0) if is_copied else (TAPS_BEFORE, 3)
    expected = (right >= before) & (right + after < 60) & (down >= TAPS_BEFORE) & (down + 3 < 50)

    found = find_covered(Window(0, 0, *shape), matrix=matrix, shape=shape)

    np.testing.assert_array_equal(found, expected.reshape(shape))
