import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.stack.alignment.matching import can_match, choose_windows, match_windows, read_pyramid, search_windows
from qmcif_engine.stack.stack import stack_arrays

STILL = np.eye(3)
STEP_ERROR_PX = 0.1  # of one Gauss-Newton step from about a pixel away


def make_detail(seed=0, shape=(200, 260)):
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).standard_normal(shape), 1.5)
    return (noise / noise.std() / 6).astype(np.float32)


def make_levels(*images):
    """The finest level of each image."""
    stack = stack_arrays([np.asarray(image, np.float32) for image in images])
    return [read_pyramid(stack, number)[-1] for number in range(len(images))]


def match(*images, matrix=STILL, smallest_correlation=0.7):
    first, second = make_levels(*images)
    center = choose_windows(first, second, matrix=matrix, n_windows=100)
    return match_windows(first, second, center, matrix=matrix, smallest_correlation=smallest_correlation)


def precision_of(matches):
    return np.sqrt(np.maximum(np.linalg.eigvalsh(matches.information)[:, 0], 0))


def test_one_step_leads_to_where_windows_moved():
    detail = make_detail()
    moved = ndimage.shift(detail, (0.6, -0.8), order=5, mode="nearest")

    matches = match(detail, moved)

    assert len(matches.shift) > 20
    np.testing.assert_allclose(np.median(matches.shift, axis=0), (-0.8, 0.6), atol=STEP_ERROR_PX)


def test_what_the_transform_expects_is_taken_away():
    detail = make_detail()
    moved = ndimage.shift(detail, (12, -15), order=1, mode="nearest")
    matrix = np.array([(1, 0, -15), (0, 1, 12), (0, 0, 1)], float)

    matches = match(detail, moved, matrix=matrix)

    assert len(matches.shift) > 20
    np.testing.assert_allclose(matches.shift, 0, atol=0.02)


def test_far_movements_are_found_by_the_search_at_whole_pixels():
    detail = make_detail()
    first, second = make_levels(detail, ndimage.shift(detail, (9, -7), order=1, mode="nearest"))

    matches = search_windows(first, second, choose_windows(first, second, matrix=STILL, n_windows=60), matrix=STILL, reach_px=12)

    np.testing.assert_array_equal(np.median(matches.shift, axis=0), (-7, 9))


def test_a_window_blurred_in_one_image_has_less_information():
    detail = make_detail()
    blurred = detail.copy()
    blurred[:, 130:] = ndimage.gaussian_filter(detail, 2)[:, 130:]

    matches = match(detail, blurred, smallest_correlation=0.0)
    is_sharp, is_blurred = matches.position[:, 0] < 100, matches.position[:, 0] > 160

    assert is_sharp.any()
    assert np.median(precision_of(matches)[is_sharp]) > 3 * precision_of(matches)[is_blurred].max(initial=0)


def test_noise_of_its_own_adds_no_information():
    generator = np.random.default_rng(3)
    edge = np.tile(1 / (1 + np.exp((np.arange(260) - 130) / 20)), (200, 1))

    matches = match(*(edge + generator.normal(0, 0.02, edge.shape) for _ in range(2)), smallest_correlation=0.0)

    assert precision_of(matches).max(initial=0) < 1


@pytest.mark.parametrize(
    ("first", "second"),
    [(make_detail(0), make_detail(1)), (np.zeros((200, 260)), np.zeros((200, 260))), (np.tile(make_detail()[:, :1], (1, 260)),) * 2],
    ids=["unrelated", "flat", "stripes"],
)
def test_images_that_say_nothing_have_no_matches(first, second):
    assert len(match(first, second).shift) == 0


def test_windows_are_spread_over_the_frame_though_one_part_has_most_texture():
    detail = make_detail(shape=(400, 400))
    detail[:, 200:] /= 5
    first, second = make_levels(detail, detail)

    center = choose_windows(first, second, matrix=STILL, n_windows=200)

    assert 100 <= len(center) <= 200
    assert (center[:, 0] > 220).sum() >= 10


def test_levels_halve_down_to_a_small_image():
    def factors(shape, largest_px=10**6):
        return [level.factor for level in read_pyramid(stack_arrays([np.zeros(shape, np.uint8)]), 0, largest_px=largest_px)]

    assert factors((500, 700)) == [4, 2, 1]
    assert factors((1200, 1000, 3), largest_px=400_000) == [8, 4, 2]
    assert factors((100, 100)) == [1]
    assert can_match((100, 100))
    assert not can_match((60, 2000))


def test_detail_knows_neither_brightness_nor_gain():
    image = np.random.default_rng(0).integers(0, 100, (120, 150)).astype(np.float32)
    plain, changed = make_levels(image, 3 * image + 1000)

    np.testing.assert_allclose(changed.detail, plain.detail, atol=1e-4)
