"""What a stroke changed is found, and images have colors of their own."""

import numpy as np
import pytest

from napari_qmcif.retouch_session import LARGEST_PIECE_PX, color_sources, find_difference


def test_equal_labels_have_no_difference():
    labels = np.ones((30, 40), np.uint8)

    assert find_difference(labels, labels.copy()) is None


def test_a_small_difference_is_one_box():
    painted, heeded = np.zeros((2, 30, 40), np.uint8)
    painted[5:9, 7:20] = 2

    assert find_difference(painted, heeded) == (5, 7, 9, 20)


def test_a_large_difference_is_heeded_piece_by_piece_until_nothing_is_left():
    painted, heeded = np.ones((1100, 1300), np.uint8), np.zeros((1100, 1300), np.uint8)
    n_pieces = 0
    while (box := find_difference(painted, heeded)) is not None:
        top, left, bottom, right = box
        assert max(bottom - top, right - left) <= LARGEST_PIECE_PX
        heeded[top:bottom, left:right] = painted[top:bottom, left:right]
        n_pieces += 1

    assert n_pieces == 9


@pytest.mark.parametrize("n_images", [2, 30])
def test_what_the_engine_decides_is_transparent_and_every_image_has_its_color(n_images):
    colors = color_sources(n_images).color_dict

    assert colors[0][3] == colors[None][3] == 0
    assert len({tuple(np.round(colors[number], 3)) for number in range(1, n_images + 1)}) == n_images
