"""Of a deep stack only images that can win are measured, and that changes next to no decision."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine import FusionConfig, fuse, make_focus_stack
from qmcif_engine.method.cell_grid import cell_grid
from qmcif_engine.stack.window import Window
from qmcif_engine.tiles import cell_stages
from qmcif_engine.tiles.contenders import HOPELESS_RATIO, find_contenders, look_quickly

GRID = (12, 24)
BLOCK_CELLS = 12
LEFT = Window(0, 0, 12, 12)
WINDOW_PX = 9
FARTHEST_CELLS = 2
"""How far from a cell the others lie that the window and what is measured beside a contender reach, together."""

SINGLE_ROUNDING = 64 * float(np.finfo(np.float32).eps)


def found(levels, *, n_beside=0, is_whole=None):
    """Which images can win in the left and in the right block, for curvatures of one value per image and block, or of every cell."""
    curvatures = [np.broadcast_to(np.asarray(level, np.float32), GRID).copy() for level in levels]
    is_wanted = find_contenders(curvatures, block_cells=BLOCK_CELLS, window_px=WINDOW_PX, n_beside=n_beside, is_whole=is_whole)
    assert is_wanted.shape == (len(levels), 1, 2)
    return is_wanted[:, 0].T


def left_and_right(left, right):
    return np.where(np.arange(GRID[1]) < LEFT.right, left, right)


def test_image_that_is_sharp_nowhere_is_left_out():
    is_wanted = found([100.0, 0.9 * 100 / HOPELESS_RATIO, 60.0])

    assert is_wanted.tolist() == [[True, False, True]] * 2


def test_image_just_above_the_ratio_is_a_contender():
    assert found([100.0, 1.1 * 100 / HOPELESS_RATIO]).all()


def test_image_that_is_sharp_in_one_block_is_a_contender_there_and_where_windows_see_it_only():
    curvatures = [np.repeat(np.float32([100 if block == sharp else 1 for block in range(3)]), BLOCK_CELLS)[None] for sharp in range(3)]
    curvatures = [np.repeat(curvature, BLOCK_CELLS, axis=0) for curvature in curvatures]

    is_wanted = find_contenders(curvatures, block_cells=BLOCK_CELLS, window_px=WINDOW_PX, n_beside=0)

    assert is_wanted[:, 0].tolist() == [[True, True, False], [True, True, True], [False, True, True]]


def test_one_sharp_cell_makes_a_contender_of_a_part():
    spot = np.ones(GRID)
    spot[6, 18] = 500

    assert found([100.0, spot]).tolist() == [[True, False], [True, True]]


@pytest.mark.parametrize(
    ("n_beside", "expected"),
    [(0, [3]), (1, [2, 3, 4]), (2, [1, 2, 3, 4, 5]), (7, [0, 1, 2, 3, 4, 5, 6])],
    ids=["none", "one", "two", "all"],
)
def test_neighbors_of_a_contender_are_taken_along(n_beside, expected):
    levels = [1.0] * 7
    levels[3] = 100.0

    is_wanted = found(levels, n_beside=n_beside)

    assert [list(np.flatnonzero(part)) for part in is_wanted] == [expected] * 2


@pytest.mark.parametrize("number", [0, 6])
def test_neighbors_end_with_the_stack(number):
    levels = [1.0] * 7
    levels[number] = 100.0

    is_wanted = found(levels, n_beside=2)

    assert [list(np.flatnonzero(part)) for part in is_wanted] == [[0, 1, 2] if number == 0 else [4, 5, 6]] * 2


def test_stack_that_the_quick_look_finds_even_keeps_all_images_in_every_part():
    assert found([0.0] * 5).all()


def test_part_that_the_quick_look_finds_even_keeps_all_images_while_others_keep_theirs():
    is_far = np.arange(GRID[1]) < LEFT.right - FARTHEST_CELLS
    is_wanted = found([np.where(is_far, 100, 0), np.where(is_far, 1, 0)])

    assert is_wanted.tolist() == [[True, False], [True, True]]


def test_image_that_does_not_have_a_part_keeps_no_other_from_winning_there():
    has_all, has_left = np.ones(GRID, bool), np.arange(GRID[1]) < LEFT.right - FARTHEST_CELLS
    levels = [left_and_right(100, 100), left_and_right(1, 10), left_and_right(1, 9)]
    is_whole = [np.broadcast_to(has_left, GRID), has_all, has_all]

    is_wanted = found(levels, is_whole=is_whole.__getitem__)

    assert is_wanted[:, 0].tolist() == [True, False]
    assert is_wanted[1].tolist() == [False, True, True]


@pytest.mark.parametrize("shape", [(23, 30), (8, 8), (3, 5)])
def test_quick_look_is_the_mean_curvature(shape):
    planes = np.random.default_rng(0).uniform(0, 60, (3, *shape)).astype(np.float32)

    curvature = look_quickly(planes)

    brightness, level = planes.astype(np.float64).sum(axis=0), np.zeros(shape)
    level[1:-1] += np.abs(np.diff(brightness, n=2, axis=0))
    level[:, 1:-1] += np.abs(np.diff(brightness, n=2, axis=1))
    expected = [[level[y : y + 4, x : x + 4].mean() / 3 for x in range(0, shape[1], 4)] for y in range(0, shape[0], 4)]
    assert curvature.shape == cell_grid(shape)
    np.testing.assert_allclose(curvature, expected, rtol=0, atol=255 * SINGLE_ROUNDING)


def test_gray_plane_looks_like_three_equal_ones():
    plane = np.random.default_rng(0).uniform(0, 255, (1, 20, 24)).astype(np.float32)

    one, three = (look_quickly(planes) for planes in (plane, np.repeat(plane, 3, axis=0)))

    np.testing.assert_allclose(one, three, rtol=0, atol=255 * SINGLE_ROUNDING)


@pytest.mark.parametrize(("contrast", "grain_px"), [(2, 1.5), (3, 3), (6, 3)])
@pytest.mark.parametrize("tile_px", [512, 2048])  # in a part of its own, and in one with the strong texture
def test_faint_texture_is_decided_on_beside_strong_texture_of_another_image(contrast, grain_px, tile_px):

    def texture(sigma, seed):
        noise = blurred(np.random.default_rng(seed).normal(size=(128, 384, 3)), sigma)
        return noise / noise.std()

    def blurred(picture, sigma):
        return ndimage.gaussian_filter(picture, (sigma, sigma, 0)) if sigma else picture

    strong, faint = 128 + 40 * texture(1, 0), 128 + contrast * texture(grain_px, 1)
    is_strong = (np.arange(384) < 100)[:, None]
    pictures = [np.where(is_strong, blurred(strong, 1.5 * number), blurred(faint, abs(number - 4))) for number in range(6)]
    images = [(np.clip(picture, 0, 255) * 257).astype(np.uint16) for picture in pictures]

    index = fuse(images, FusionConfig().replaced({"tile_px": tile_px})).source_index

    assert np.mean(index[:, 256:] == 4) >= 0.95


def test_blurred_image_looks_less_sharp_everywhere():
    sharp = np.random.default_rng(0).uniform(0, 255, (3, 40, 48)).astype(np.float32)

    near, far = (look_quickly(planes) for planes in (sharp, ndimage.gaussian_filter(sharp, (0, 2, 2))))

    assert (HOPELESS_RATIO * far < near).all()


LEAST_AGREEMENT = 0.999
"""Share of pixels whose decision may not depend on whether hopeless images are measured."""


@pytest.mark.parametrize("is_color", [True, False])
def test_decisions_are_those_of_measuring_every_image(monkeypatch, is_color):
    images = make_focus_stack(n_images=12, shape=(256, 320), is_color=is_color, blur_px=2.0).images
    config = FusionConfig().replaced({"tile_px": 256})
    shares = []

    def watched(*arguments, **options):
        shares.append(find_contenders(*arguments, **options).mean())
        return find_contenders(*arguments, **options)

    monkeypatch.setattr(cell_stages, "find_contenders", watched)
    with_contenders = fuse(images, config)
    monkeypatch.setattr(cell_stages, "find_contenders", lambda *arguments, **options: np.ones_like(find_contenders(*arguments, **options)))
    with_all = fuse(images, config)

    assert max(shares) < 1  # some images were left out in every tile
    assert np.mean(with_contenders.source_index == with_all.source_index) >= LEAST_AGREEMENT
