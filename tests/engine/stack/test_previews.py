import numpy as np
import pytest

from qmcif_engine.stack.previews import choose_reduction, read_preview, to_gray
from qmcif_engine.stack.stack import ArrayStack

ROUNDING = 4 * np.finfo(np.float32).eps


@pytest.mark.parametrize(
    ("shape", "largest_px", "expected"), [((100, 100), 10_000, 1), ((100, 100), 9_999, 2), ((4000, 6000, 3), 10**6, 5)]
)
def test_the_reduction_is_the_smallest_that_suffices(shape, largest_px, expected):
    assert choose_reduction(shape, largest_px=largest_px) == expected


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
@pytest.mark.parametrize("channels", [(), (3,), (5,)])
@pytest.mark.parametrize("factor", [1, 3])
def test_a_preview_holds_the_means_of_squares(dtype, channels, factor):
    image = (np.random.default_rng(0).random((601, 50, *channels)) * 250).astype(dtype)
    height, width = 601 // factor, 50 // factor
    squares = image[: height * factor, : width * factor].reshape(height, factor, width, factor, -1).astype(np.float64)

    preview = read_preview(ArrayStack([image]), 0, factor=factor)

    assert preview.dtype == np.float32
    np.testing.assert_allclose(preview, squares.mean(axis=(1, 3)), rtol=ROUNDING)


def test_gray_is_the_luminance_of_colors_and_the_mean_of_other_channels():
    np.testing.assert_allclose(to_gray(np.array([[[1.0, 2.0, 3.0]]], np.float32)), [[0.299 + 2 * 0.587 + 3 * 0.114]], rtol=ROUNDING)
    np.testing.assert_allclose(to_gray(np.array([[[1.0, 2.0]]], np.float32)), [[1.5]], rtol=ROUNDING)
