import numpy as np
from scipy import ndimage

from qmcif_engine.stack.alignment.matching import match_windows


def make_detail(seed=0, shape=(200, 260)):
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).standard_normal(shape), 1.5)
    return (noise / noise.std() / 6).astype(np.float32)


def test_windows_are_found_where_they_moved():
    detail = make_detail()
    moved = ndimage.shift(detail, (2.25, -3.5), order=5, mode="nearest")

    matches = match_windows(detail, moved, matrix=np.eye(3))

    assert len(matches.shift) > 20
    np.testing.assert_allclose(matches.shift, np.broadcast_to((-3.5, 2.25), matches.shift.shape), atol=0.06)


def test_what_the_transform_expects_is_taken_away():
    detail = make_detail()
    moved = ndimage.shift(detail, (12, -15), order=1, mode="nearest")
    matrix = np.array([(1, 0, -15), (0, 1, 12), (0, 0, 1)], float)

    matches = match_windows(detail, moved, matrix=matrix)

    np.testing.assert_allclose(matches.shift, 0, atol=0.01)


def test_a_window_blurred_in_one_image_tells_less():
    detail = make_detail()
    blurred = detail.copy()
    blurred[:, 130:] = ndimage.gaussian_filter(detail, 3)[:, 130:]

    matches = match_windows(detail, blurred, matrix=np.eye(3))
    is_sharp = matches.position[:, 0] < 90

    assert is_sharp.any()
    assert matches.precision[is_sharp].min() > 5 * (matches.precision[~is_sharp & (matches.position[:, 0] > 170)].max(initial=0))


def test_stripes_tell_nothing_along_themselves():
    stripes = np.tile(make_detail()[:, :1], (1, 260))

    matches = match_windows(stripes, stripes, matrix=np.eye(3))

    assert matches.precision.max(initial=0) < 0.1


def test_unrelated_and_flat_images_have_no_matches():
    flat = np.zeros((200, 260), np.float32)

    assert len(match_windows(make_detail(0), make_detail(1), matrix=np.eye(3)).shift) == 0
    assert len(match_windows(flat, flat, matrix=np.eye(3)).shift) == 0
    assert len(match_windows(make_detail(shape=(40, 50)), make_detail(shape=(40, 50)), matrix=np.eye(3)).shift) == 0
