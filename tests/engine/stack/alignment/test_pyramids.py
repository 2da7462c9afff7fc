import numpy as np

from qmcif_engine.stack.alignment.pyramids import plan_factors, read_pyramid
from qmcif_engine.stack.stack import stack_arrays


def test_levels_halve_down_to_a_small_image():
    assert plan_factors((500, 700), largest_px=10**6) == (4, 2, 1)
    assert plan_factors((3000, 4000, 3), largest_px=3 * 10**6) == (16, 8, 4, 2)
    assert plan_factors((100, 100), largest_px=10**6) == (1,)


def test_detail_knows_neither_brightness_nor_gain():
    image = np.random.default_rng(0).integers(0, 100, (120, 150)).astype(np.float32)
    stack = stack_arrays([image, 3 * image + 1000])

    (plain,), (changed,) = read_pyramid(stack, 0), read_pyramid(stack, 1)

    assert plain.factor == 1
    np.testing.assert_allclose(changed.detail, plain.detail, atol=1e-4)


def test_a_flat_image_has_no_detail():
    (level,) = read_pyramid(stack_arrays([np.full((60, 60), 7, np.uint16)]), 0)

    np.testing.assert_allclose(level.detail, 0, atol=1e-6)
