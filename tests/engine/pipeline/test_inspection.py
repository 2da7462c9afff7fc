"""The focus response of a window is that of the whole image, and the sharp image has the largest."""

import numpy as np
import pytest

from qmcif_engine import Cancelled, FusionConfig, InvalidImageError, focus_response, fuse, make_focus_stack, open_stack

CONFIG = FusionConfig()


@pytest.fixture(scope="module")
def scene():
    return make_focus_stack(n_images=3, shape=(200, 220), seed=2)


@pytest.mark.parametrize("measure", ["decomposition", "laplacian"])
def test_the_image_that_was_taken_has_the_largest_response_on_most_pixels(scene, measure):
    config = CONFIG.replaced({"measure": measure})
    result = fuse(scene.images, config)

    levels = focus_response(scene.images, (40, 50, 140, 180), config=config, focus_range=result.focus_range)

    assert levels.shape == (3, 100, 130)
    assert (levels.argmax(axis=0) == result.source_index[40:140, 50:180]).mean() > 0.85


def test_a_window_has_the_response_of_the_whole_image(scene):
    whole = focus_response(scene.images, (0, 0, 200, 220), config=CONFIG)
    part = focus_response(open_stack(list(scene.images)), (90, 100, 110, 121), config=CONFIG)

    # the solve of a smaller block forgets its surroundings, but for less than a hundredth of a gray level
    np.testing.assert_allclose(part, whole[:, 90:110, 100:121], atol=0.05 * whole.max())
    assert (part.argmax(axis=0) == whole[:, 90:110, 100:121].argmax(axis=0)).mean() > 0.99


@pytest.mark.parametrize("window", [(0, 0, 0, 4), (0, 0, 201, 4), (-1, 0, 4, 4), (5, 5, 4, 9)])
def test_a_window_outside_the_images_is_refused(scene, window):
    with pytest.raises(InvalidImageError, match=r"one inside \(200, 220\)"):
        focus_response(scene.images, window)


def test_it_can_be_ended_between_steps(scene):
    def refuse():
        msg = "enough"
        raise Cancelled(msg)

    with pytest.raises(Cancelled, match="enough"):
        focus_response(scene.images, (0, 0, 8, 8), config=CONFIG, check_cancelled=refuse)
