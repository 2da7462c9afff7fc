import numpy as np
import pytest

from qmcif_engine.stack.alignment.resampling import N_PHASES, TAPS_BEFORE, resample, tabulate_weights

TOLERANCE = 32 * np.finfo(np.float64).eps


def resample_plainly(source, matrix, corner, shape):
    """The kernel in plain NumPy, pixel by pixel."""
    weights = tabulate_weights()
    out = np.empty((*shape, source.shape[-1]))
    for row, column in np.ndindex(shape):
        *place, distance = matrix @ (corner[1] + column, corner[0] + row, 1)
        right, down = np.floor(np.array(place) / distance * N_PHASES + 0.5).astype(int)
        left, top = right // N_PHASES - TAPS_BEFORE - corner[3], down // N_PHASES - TAPS_BEFORE - corner[2]
        kernel = np.outer(weights[down % N_PHASES], weights[right % N_PHASES])
        out[row, column] = np.tensordot(kernel, source[top : top + 6, left : left + 6], 2)
    return out


@pytest.mark.parametrize("last_row", [(0.0, 0.0, 1.0), (1e-4, -2e-4, 1.0)])
def test_the_compiled_loop_does_what_plain_numpy_does(last_row):
    source = np.random.default_rng(5).random((30, 30, 2))
    matrix = np.array([(1.02, 0.1, -90.3), (-0.1, 0.98, -40.6), last_row])
    corner = np.array([60, 110, 0, 24])
    out = np.empty((12, 14, 2))

    resample(source, tabulate_weights(), matrix, corner, out)

    np.testing.assert_allclose(out, resample_plainly(source, matrix, corner, out.shape[:2]), rtol=TOLERANCE, atol=TOLERANCE)


def test_the_weights_keep_constants_slopes_and_parabolas():
    weights = tabulate_weights()
    distance = np.arange(6) - TAPS_BEFORE - np.arange(N_PHASES)[:, np.newaxis] / N_PHASES

    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=TOLERANCE)
    np.testing.assert_allclose((weights * distance).sum(axis=1), 0, atol=TOLERANCE)
    np.testing.assert_allclose((weights * distance**2).sum(axis=1), 0, atol=4 * TOLERANCE)


def test_a_pixel_itself_is_taken_as_it_is():
    np.testing.assert_array_equal(tabulate_weights()[0], [0, 0, 1, 0, 0, 0])
