"""Blends along decision edges: narrow of detail, wide of brightness where a step would show, none where nobody would see it."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.cleanup.blend_reach import reach_of_blend
from qmcif_engine.cleanup.blending import (
    LEAST_SHARE,
    LEAST_VISIBLE_CHANGE,
    blend_along_edges,
    measure_slopes,
    measure_spread,
)
from qmcif_engine.cleanup.regularization import SLOPE_FADE_PX, SLOPE_REACH_PX
from qmcif_engine.cleanup.seams import measure_seams
from qmcif_engine.cleanup.smoothness import LEAST_VISIBLE_STEP, SMOOTH_CONTRAST, measure_smoothness
from qmcif_engine.config.fusion_config import DecisionConfig
from qmcif_engine.kernels.boxes import TEXTURE_PX
from qmcif_engine.method.fusion import compose, without_invalid
from qmcif_engine.method.patches import CELL_PX, edge_band

FAR_APART = 1000.0
"""Gray levels between images, so that even the smallest share of a blend shows."""

SHARE_ROUNDINGS = 1e-5
SMOOTHNESS_ROUNDINGS = 1e-3
"""Single precision squares of gray levels, of which small differences count."""


def guided_filter(planes, guide, *, radius_px, edge_contrast):
    """Equations 5 to 8 of He, Sun and Tang 2013 over the whole image."""
    size = (*([1] * (planes.ndim - 2)), 2 * radius_px + 1, 2 * radius_px + 1)

    def mean(values):
        return ndimage.uniform_filter(values.astype(np.float64), size[-values.ndim :])

    slope = (mean(planes * guide) - mean(planes) * mean(guide)) / (mean(guide * guide) - mean(guide) ** 2 + edge_contrast**2)
    return mean(slope) * guide + mean(mean(planes) - slope * mean(guide))


def halves(shape=(24, 30), *, edge=None):
    return np.broadcast_to((np.arange(shape[1]) >= (shape[1] // 2 if edge is None else edge)).astype(np.uint16), shape).copy()


def texture(shape, seed=0):
    return np.random.default_rng(seed).uniform(0, 1, shape)


def textured_blocks(n_images, shape, *, apart=FAR_APART):
    """One texture, a little brighter in each image, and coarse enough for the step between them to make no seam."""
    pattern = 10 * max(apart, 6) * texture((3, *shape), seed=9)
    return [(pattern + apart * number).astype(np.float32) for number in range(n_images)]


def even_blocks(n_images, shape, *, apart):
    return [np.full((3, *shape), 40 + apart * number, np.float32) for number in range(n_images)]


def flat(shape):
    return np.full(shape, 0.5, np.float32)


def narrow_shares(blend, n_images):
    """The share of every image in the detail of every pixel, shape (n, h, w)."""
    return shares_of(blend, blend.weights, n_images)


def broad_shares(blend, n_images):
    """The share of every image in the brightness of every pixel, shape (n, h, w)."""
    return shares_of(blend, blend.weights + blend.brightness, n_images)


def shares_of(blend, table, n_images):
    maps = (blend.source_index == np.arange(n_images)[:, None, None]).astype(np.float64)
    maps[:, blend.band] = 0
    for row, source in zip(table.toarray(), blend.sources, strict=True):
        maps[source][blend.band] = row
    return maps


def both_shares(blend, n_images):
    """Shares in the detail and in the brightness, shape (2, n, h, w)."""
    return np.stack([narrow_shares(blend, n_images), broad_shares(blend, n_images)])


def feathered_scene(shape, n_images=4, seed=2):
    """Regions of several images: from left to right their texture fades to none, from top to bottom they differ more in brightness."""
    generator = np.random.default_rng(seed)
    index = np.kron(generator.integers(0, n_images, (5, 4)), np.ones((-(-shape[0] // 5), -(-shape[1] // 4)), int))[: shape[0], : shape[1]]
    fade, apart = np.linspace(9, 0, shape[1]), np.linspace(0, 9, shape[0])[:, None]
    blocks = [(100 + apart * n + fade * generator.normal(size=(3, *shape))).astype(np.float32) for n in range(n_images)]
    guide = (np.mean(blocks, axis=(0, 1)) / 255).astype(np.float32)
    return index.astype(np.uint16), blocks, guide


# --- shares ---


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make_blocks", [textured_blocks, even_blocks])
@pytest.mark.parametrize("n_images", [2, 3, 5])
def test_shares_in_the_band_add_up_to_one_and_none_is_negative(n_images, make_blocks, dtype):
    generator = np.random.default_rng(n_images)
    index = np.repeat(np.repeat(generator.integers(0, n_images, (5, 6)), 7, axis=0), 7, axis=1).astype(np.uint16)
    blocks = make_blocks(n_images, index.shape, apart=FAR_APART)

    blend = blend_along_edges(index, blocks, texture(index.shape).astype(dtype), DecisionConfig())

    assert blend.weights.dtype == dtype
    assert blend.weights.shape == (len(blend.sources), blend.band.sum())
    assert blend.band.any()
    assert set(blend.sources) == set(range(n_images))
    np.testing.assert_allclose(blend.weights.toarray().sum(axis=0), 1, rtol=0, atol=n_images * np.finfo(dtype).eps)
    assert blend.weights.toarray().min() >= 0
    assert blend.brightness.dtype == dtype
    assert blend.brightness.shape == blend.weights.shape
    np.testing.assert_allclose(blend.brightness.toarray().sum(axis=0), 0, rtol=0, atol=2 * n_images * np.finfo(dtype).eps)
    assert broad_shares(blend, n_images).min() >= -np.finfo(dtype).eps
    assert blend.brightness.nnz or make_blocks is textured_blocks


@pytest.mark.parametrize("make_blocks", [textured_blocks, even_blocks])
def test_index_names_the_image_with_the_largest_share(make_blocks):
    index = halves()

    blend = blend_along_edges(index, make_blocks(2, index.shape, apart=FAR_APART), texture(index.shape), DecisionConfig())

    led = blend.source_index[blend.band]
    shares = dict(zip(blend.sources, blend.weights.toarray(), strict=True))
    own = np.where(led == 0, shares[0], shares[1])
    assert (own >= 0.5 - np.finfo(np.float64).eps).all()
    np.testing.assert_array_equal(blend.source_index[~blend.band], index[~blend.band])


def test_sources_are_those_of_the_band_only():
    index = halves((20, 60)) + np.uint16(3)
    index[:, :5] = 0

    blend = blend_along_edges(index, textured_blocks(5, index.shape), flat(index.shape), DecisionConfig(blend_radius_px=1))

    assert blend.sources == (0, 3, 4)


@pytest.mark.parametrize("make_blocks", [textured_blocks, even_blocks])
@pytest.mark.parametrize(("index", "radius_px"), [(halves(), 0), (np.full((9, 9), 2, np.uint16), 2), (np.zeros((1, 1), np.uint16), 2)])
def test_there_is_no_band_without_a_radius_or_without_an_edge(index, radius_px, make_blocks):
    config = DecisionConfig(blend_radius_px=radius_px, feather_px=16)

    blend = blend_along_edges(index, make_blocks(3, index.shape, apart=FAR_APART), flat(index.shape), config)

    assert not blend.band.any()
    assert blend.sources == ()
    np.testing.assert_array_equal(blend.source_index, index)


def test_blending_leaves_its_arguments_alone():
    index, blocks, guide = feathered_scene((40, 60))
    kept = [array.copy() for array in (index, guide, *blocks)]

    blend_along_edges(index, blocks, guide, DecisionConfig())

    for array, copy in zip((index, guide, *blocks), kept, strict=True):
        np.testing.assert_array_equal(array, copy)


# --- the narrow blend ---


@pytest.mark.parametrize("radius_px", [1, 2, 4])
def test_in_texture_the_band_is_what_the_guided_filter_reaches_from_a_decision_edge(radius_px):
    index = halves((20, 60))
    config = DecisionConfig(blend_radius_px=radius_px, feather_px=16)

    blend = blend_along_edges(index, textured_blocks(2, index.shape), flat(index.shape), config)

    # the filter is two windows of that radius, one after the other
    expected = np.zeros(index.shape, bool)
    expected[:, 30 - 2 * radius_px : 30 + 2 * radius_px] = True
    np.testing.assert_array_equal(blend.band, expected)
    assert blend.brightness.nnz == 0


def test_texture_of_one_image_alone_is_enough_for_a_narrow_blend():
    """Which another one, blurred, does not have."""
    index = halves((40, 80))
    textured = textured_blocks(1, index.shape)[0]
    blurred = np.broadcast_to(textured.mean(axis=(1, 2), keepdims=True), textured.shape)

    blend = blend_along_edges(index, [textured, blurred], flat(index.shape), DecisionConfig(blend_radius_px=1, feather_px=16))

    assert set(np.flatnonzero(blend.band.any(axis=0))) == {38, 39, 40, 41}
    assert blend.brightness.nnz == 0


def test_blend_is_soft_on_a_flat_guide_and_sharp_along_an_edge_of_the_picture():
    index = halves((21, 40))
    blocks, config = textured_blocks(2, index.shape), DecisionConfig(blend_radius_px=2, blend_edge_contrast=0.05)

    soft, sharp = (blend_along_edges(index, blocks, guide, config) for guide in (flat(index.shape), index.astype(np.float64)))

    own_soft, own_sharp = (np.take_along_axis(narrow_shares(blend, 2), index[None].astype(int), axis=0) for blend in (soft, sharp))
    assert own_soft.min() < 0.65
    assert own_sharp.min() > 0.95


def test_decision_edge_moves_to_the_edge_of_the_picture_next_to_it():
    picture_edge = 20
    guide = halves((21, 40), edge=picture_edge).astype(np.float64)
    index = halves((21, 40), edge=picture_edge + 1)

    blend = blend_along_edges(index, textured_blocks(2, index.shape), guide, DecisionConfig(blend_radius_px=2, blend_edge_contrast=0.05))

    np.testing.assert_array_equal(blend.source_index[:, picture_edge], 1)


# --- the feather ---


@pytest.mark.parametrize(("feather_px", "reach_px"), [(4, 4), (7, 6), (16, 16), (17, 16), (40, 40)])
def test_on_smooth_ground_the_feather_reaches_its_width_and_rises_steadily(feather_px, reach_px):
    edge, index = 60, halves((9, 120))
    side = reach_px + 1
    kernel = np.convolve(np.ones(side), np.ones(side)) / side**2

    blend = blend_along_edges(index, even_blocks(2, index.shape, apart=100), flat(index.shape), DecisionConfig(feather_px=feather_px))

    assert set(np.flatnonzero(blend.band.any(axis=0))) == set(range(edge - reach_px, edge + reach_px))
    second = broad_shares(blend, 2)[1]
    np.testing.assert_allclose(second[:, edge - reach_px : edge + reach_px], np.tile(np.cumsum(kernel)[:-1], (9, 1)), atol=SHARE_ROUNDINGS)
    assert (np.diff(second[:, edge - reach_px : edge + reach_px], axis=1) > 0).all()
    assert (second[:, : edge - reach_px] == 0).all()
    assert (second[:, edge + reach_px :] == 1).all()
    is_far = edge_band(index, reach_px=reach_px) & ~edge_band(index, reach_px=2 * DecisionConfig().blend_radius_px)
    np.testing.assert_allclose(narrow_shares(blend, 2)[1][is_far], index[is_far], rtol=0, atol=SHARE_ROUNDINGS)


@pytest.mark.parametrize("feather_px", [0, 1])
def test_without_a_feather_smooth_ground_is_blended_as_texture_is(feather_px):
    index, config = halves((9, 120)), DecisionConfig(blend_radius_px=1, feather_px=feather_px)

    smooth, rough = (
        blend_along_edges(index, blocks(2, index.shape, apart=100), flat(index.shape), config) for blocks in (even_blocks, textured_blocks)
    )

    np.testing.assert_array_equal(smooth.band, rough.band)
    np.testing.assert_array_equal(both_shares(smooth, 2), both_shares(rough, 2))
    assert smooth.brightness.nnz == 0
    assert set(np.flatnonzero(smooth.band.any(axis=0))) == {58, 59, 60, 61}


def test_a_feather_narrower_than_the_guided_filter_does_not_narrow_the_band():
    index, config = halves((9, 120)), DecisionConfig(blend_radius_px=4, feather_px=4)

    blend = blend_along_edges(index, even_blocks(2, index.shape, apart=FAR_APART), flat(index.shape), config)

    assert set(np.flatnonzero(blend.band.any(axis=0))) == set(range(52, 68))


def test_a_feather_hides_the_step_between_two_even_images_of_different_brightness():
    index = halves((20, 120))
    images = [np.full((20, 120, 3), level, np.uint8) for level in (100, 108)]
    blocks = [np.moveaxis(image, -1, 0).astype(np.float32) for image in images]

    def largest_step(config):
        fused = compose(images, blend_along_edges(index, blocks, flat(index.shape), config))
        return np.abs(np.diff(fused.astype(int), axis=1)).max()

    assert largest_step(DecisionConfig()) <= 1
    assert largest_step(DecisionConfig(feather_px=0)) > 1


def test_a_feather_hides_the_step_between_two_even_images_of_the_same_brightness_and_different_colors():
    index = halves((20, 120))
    images = [np.full((20, 120, 3), color, np.uint8) for color in ((100, 100, 100), (112, 100, 88))]
    blocks = [np.moveaxis(image, -1, 0).astype(np.float32) for image in images]

    def largest_step(config):
        fused = compose(images, blend_along_edges(index, blocks, flat(index.shape), config))
        return np.abs(np.diff(fused.astype(int), axis=1)).max()

    assert largest_step(DecisionConfig()) <= 1
    assert largest_step(DecisionConfig(feather_px=0)) > 1


@pytest.mark.parametrize("apart", [8.0, 100.0])
def test_three_images_that_meet_on_smooth_ground_share_the_pixels_around_the_point(apart):
    index = halves((80, 80))
    index[40:] = 2
    blocks = even_blocks(3, index.shape, apart=apart)

    blend = blend_along_edges(index, blocks, flat(index.shape), DecisionConfig())

    shares = broad_shares(blend, 3)
    expected = [ndimage.uniform_filter(ndimage.uniform_filter((index == n).astype(float), 17), 17) for n in range(3)]
    np.testing.assert_allclose(shares, expected, rtol=0, atol=2 * LEAST_SHARE)
    assert (shares[:, 39, 39] > 0.2).all()
    np.testing.assert_allclose(shares.sum(axis=0), 1, rtol=0, atol=SHARE_ROUNDINGS)


# --- seams and slopes ---


def seamed_blocks(shape, *, apart):
    """One texture, much brighter in the second image."""
    pattern = 30 * texture((3, *shape), seed=9)
    return [(60 + pattern + apart * number).astype(np.float32) for number in range(2)]


def test_a_seam_in_texture_spreads_the_brightness_and_leaves_the_detail_to_the_narrow_blend():
    index, config = halves((40, 120)), DecisionConfig(blend_radius_px=1, feather_px=16)
    blocks = seamed_blocks(index.shape, apart=100)
    np.testing.assert_array_equal(measure_smoothness(index, blocks, config), 0)
    seams = measure_seams(index, blocks, edge_band(index, reach_px=16))
    np.testing.assert_array_equal(seams[:, 58:62], 1)

    blend = blend_along_edges(index, blocks, flat(index.shape), config)

    np.testing.assert_array_equal(measure_spread(index, blocks, config), seams)
    feathered = ndimage.uniform_filter(ndimage.uniform_filter((index == 1).astype(float), 17), 17)
    np.testing.assert_allclose(broad_shares(blend, 2)[1][:, 58:62], feathered[:, 58:62], rtol=0, atol=SHARE_ROUNDINGS)
    narrow = narrow_shares(blend, 2)[1]
    np.testing.assert_allclose(narrow[:, 57:63], np.tile([0, 1 / 9, 3 / 9, 6 / 9, 8 / 9, 1], (40, 1)), rtol=0, atol=SHARE_ROUNDINGS)


def test_over_a_seam_the_picture_rises_gently_and_keeps_its_texture():
    index, config = halves((60, 160)), DecisionConfig()
    first, second = seamed_blocks(index.shape, apart=60)
    images = [np.ascontiguousarray(np.moveaxis(block, 0, -1)) for block in (first, second)]

    fused = compose(images, blend_along_edges(index, [first, second], flat(index.shape), config))

    rise = (fused - images[0]).mean(axis=(0, 2))
    assert (np.diff(rise) > -0.1).all()
    assert np.diff(rise).max() < 60 / 6  # the narrow blend alone leaves a third of the step
    texture_left = (fused - rise[None, :, None])[:, 76:84]
    np.testing.assert_allclose(texture_left, images[0][:, 76:84], rtol=0, atol=0.02 * np.ptp(images[0]))


def even_everywhere(index):
    return np.ones(index.shape, bool)


def share_of(is_slope):
    """The share of pixels on a slope around each one, straightforwardly."""
    return ndimage.uniform_filter(is_slope.astype(float), 2 * SLOPE_FADE_PX + 1)


def test_a_slope_is_where_two_neighbors_of_the_stack_and_no_other_image_are_near():
    columns = np.arange(120)
    index = np.broadcast_to((columns >= 30).astype(np.uint16) + (columns >= 60) + 2 * (columns >= 90), (9, 120)).astype(np.uint16)
    is_even = even_everywhere(index)
    is_even[:, 60:] = False

    found = measure_slopes(index, is_even)

    is_slope = np.zeros(120, bool)
    is_slope[30 - SLOPE_REACH_PX : 30 + SLOPE_REACH_PX] = True
    is_slope[60 - SLOPE_REACH_PX : 60] = True
    np.testing.assert_allclose(found, share_of(np.tile(is_slope, (9, 1))), rtol=0, atol=1e-6)


def test_three_images_close_together_are_no_slope():
    """Pixels between the two borders have all of them in reach."""
    columns = np.arange(60)
    index = np.broadcast_to((columns >= 28).astype(np.uint16) + (columns >= 32), (9, 60)).astype(np.uint16)

    found = measure_slopes(index, even_everywhere(index))

    expected = np.tile(np.isin(columns, [24, 25, 26, 27, 32, 33, 34, 35]), (9, 1))
    np.testing.assert_allclose(found, share_of(expected), rtol=0, atol=1e-6)


def test_along_a_slope_brightness_is_spread_also_in_texture():
    index, config = halves((40, 120)), DecisionConfig(blend_radius_px=1, feather_px=16)
    blocks = textured_blocks(2, index.shape, apart=30)
    np.testing.assert_array_equal(measure_spread(index, blocks, config), 0)

    blend = blend_along_edges(index, blocks, flat(index.shape), config, is_even=even_everywhere(index))

    is_near = edge_band(index, reach_px=SLOPE_REACH_PX)
    ramp = ndimage.uniform_filter((index == 1).astype(float), 2 * SLOPE_REACH_PX + 1)
    narrow = narrow_shares(blend_along_edges(index, blocks, flat(index.shape), config), 2)
    np.testing.assert_array_equal(blend.band, is_near)
    expected = narrow[1] + share_of(is_near) * (ramp - narrow[1])
    np.testing.assert_allclose(broad_shares(blend, 2)[1][is_near], expected[is_near], rtol=0, atol=SHARE_ROUNDINGS)
    np.testing.assert_allclose(narrow_shares(blend, 2), narrow, rtol=0, atol=SHARE_ROUNDINGS)


def test_a_slope_that_ends_with_a_cell_leaves_no_step_there():
    """Two planes of different brightness, whose border is a slope on one side only of a line between cells."""
    index, config = np.ascontiguousarray(halves((96, 120))), DecisionConfig(blend_radius_px=1, feather_px=16)
    blocks = [np.full((3, *index.shape), level, np.float32) for level in (80, 140)]
    is_even = even_everywhere(index)
    is_even[48:] = False
    images = [np.moveaxis(block, 0, -1).astype(np.uint8) for block in blocks]

    fused = compose(images, blend_along_edges(index, blocks, flat(index.shape), config, is_even=is_even)).astype(int)

    assert np.abs(np.diff(fused[..., 0], axis=0)).max() <= 2
    assert np.abs(fused[8, :, 0] - fused[-8, :, 0]).max() > 5  # there is something to fade


# --- what nobody sees ---


@pytest.mark.parametrize(("apart", "columns"), [(6, set()), (9, {39, 40}), (30, {38, 39, 40, 41})])
def test_in_texture_a_pixel_is_blended_only_where_that_shows(apart, columns):
    index = halves((20, 80))
    config = DecisionConfig(blend_radius_px=1)
    # the guided filter of a flat guide gives the other image 3/9 next to the edge and 1/9 one pixel further
    assert 6 * 3 / 9 < LEAST_VISIBLE_CHANGE < 9 * 3 / 9
    assert 9 * 1 / 9 < LEAST_VISIBLE_CHANGE < 30 * 1 / 9

    blend = blend_along_edges(index, textured_blocks(2, index.shape, apart=apart), flat(index.shape), config)

    assert set(np.flatnonzero(blend.band.any(axis=0))) == columns
    assert set(np.flatnonzero(blend.band.all(axis=0))) == columns
    np.testing.assert_array_equal(blend.source_index, index)


def test_a_change_counts_by_its_root_mean_square_over_the_channels():
    index = halves((20, 80))
    in_one_channel = np.array([1, 0, 0], np.float32)[:, None, None]
    first = textured_blocks(1, index.shape)[0]

    def is_blended(apart):
        return blend_along_edges(
            index, [first, first + apart * in_one_channel], flat(index.shape), DecisionConfig(blend_radius_px=1)
        ).band.any()

    least = LEAST_VISIBLE_CHANGE * 3 * np.sqrt(3)  # a third of it reaches the pixel
    assert not is_blended(0.99 * least)
    assert is_blended(1.01 * least)


def test_pixels_that_are_not_blended_are_copies():
    index = halves((20, 80))
    generator = np.random.default_rng(3)
    first = generator.integers(0, 200, (20, 80, 3)).astype(np.uint8)
    images = [first, first + np.uint8(6)]
    blocks = [np.moveaxis(image, -1, 0).astype(np.float32) for image in images]

    fused = compose(images, blend_along_edges(index, blocks, flat(index.shape), DecisionConfig(blend_radius_px=1)))

    np.testing.assert_array_equal(fused, np.where(index[..., None] == 0, *images))


def test_on_smooth_ground_every_pixel_of_a_step_that_shows_is_blended():
    index = halves((20, 80))
    apart = 1.01 * LEAST_VISIBLE_STEP
    assert apart < LEAST_VISIBLE_CHANGE

    blend = blend_along_edges(index, even_blocks(2, index.shape, apart=apart), flat(index.shape), DecisionConfig())

    assert set(np.flatnonzero(blend.band.all(axis=0))) == set(range(24, 56))


def test_on_smooth_ground_a_step_that_does_not_show_is_left_alone():
    index = halves((20, 80))

    blend = blend_along_edges(index, even_blocks(2, index.shape, apart=0.99 * LEAST_VISIBLE_STEP), flat(index.shape), DecisionConfig())

    assert not blend.band.any()
    np.testing.assert_array_equal(blend.source_index, index)


def test_equal_images_are_not_blended_in_texture():
    index, _, guide = feathered_scene((60, 80))
    (block,) = textured_blocks(1, index.shape)

    blend = blend_along_edges(index, [block] * 4, guide, DecisionConfig())

    assert not blend.band.any()
    assert blend.weights.shape[1] == 0
    assert blend.sources == ()


def test_where_no_blend_shows_the_pixel_stays_with_the_image_that_was_decided():
    """A lone pixel has most of its share from others; the map knew why it chose, for example that the others do not have the pixel."""
    index = halves((30, 40))
    index[15, 10] = 1
    (block,) = textured_blocks(1, index.shape)
    is_valid = (index == 0, np.ones(index.shape, bool))

    blend = blend_along_edges(index, [block, block], flat(index.shape), DecisionConfig(blend_radius_px=1))

    np.testing.assert_array_equal(blend.source_index[~blend.band], index[~blend.band])
    led = without_invalid(blend, lambda number: is_valid[number]).source_index
    assert led[15, 10] == 1


# --- smoothness ---


def texture_of(block):
    """What a small mean leaves of an image."""
    precise = block.astype(np.float64)
    return precise - ndimage.uniform_filter(precise, (1, TEXTURE_PX, TEXTURE_PX), mode="reflect")


def smoothness_by_loops(index, blocks, *, reach_px):
    """Pixel by pixel, over the window of that reach: the channel of most texture of the images in it, where any channel differs enough."""
    pads = [(reach_px, reach_px)] * 2
    near_index = np.pad(index, pads, mode="symmetric")
    levels = [np.pad(block.astype(np.float64), [(0, 0), *pads], mode="symmetric") for block in blocks]
    textures = [np.pad(texture_of(block), [(0, 0), *pads], mode="symmetric") for block in blocks]
    result = np.zeros(index.shape)
    for row, column in np.ndindex(index.shape):
        window = np.s_[row : row + 2 * reach_px + 1, column : column + 2 * reach_px + 1]
        sources = np.unique(near_index[window])
        if len(sources) > 1:
            contrast = max(np.sqrt((textures[source][:, *window] ** 2).mean(axis=(1, 2))).max() for source in sources)
            step = np.ptp([levels[source][:, *window].mean(axis=(1, 2)) for source in sources], axis=0).max()
            low, high = SMOOTH_CONTRAST
            result[row, column] = min(max((high - contrast) / (high - low), 0), 1) if step >= LEAST_VISIBLE_STEP else 0
    return result


@pytest.mark.parametrize(("feather_px", "reach_px"), [(2, 2), (5, 4), (6, 6)])
def test_smoothness_agrees_with_a_computation_pixel_by_pixel(feather_px, reach_px):
    index, blocks, _ = feathered_scene((45, 64))

    smoothness = measure_smoothness(index, blocks, DecisionConfig(feather_px=feather_px))

    expected = smoothness_by_loops(index, blocks, reach_px=reach_px)
    assert smoothness.dtype == np.float32
    assert (np.histogram(expected, [-1, 0.01, 0.5, 0.99, 2])[0] > 20).all()  # every kind of ground occurs
    np.testing.assert_allclose(smoothness, expected, rtol=0, atol=SMOOTHNESS_ROUNDINGS)


def test_texture_of_colors_of_the_same_brightness_is_not_smooth():
    index = halves((20, 80))
    grain = 30 * texture(index.shape)
    red_and_green = np.stack([100 + grain, 130 - grain, np.full(index.shape, 60.0)]).astype(np.float32)
    assert np.ptp(red_and_green.mean(axis=0)) < 1e-4

    smoothness = measure_smoothness(index, [red_and_green, red_and_green + 8], DecisionConfig())

    np.testing.assert_array_equal(smoothness, 0)


@pytest.mark.parametrize("direction", [0, 1])
def test_a_steep_ramp_is_smooth_ground_and_texture_that_varies_as_much_is_not(direction):
    """A slope or a soft shadow hides no step."""
    index = halves((60, 120))
    ramp = 2.0 * np.indices(index.shape)[direction]
    grain = texture(index.shape)
    grain = (grain - grain.mean()) * ramp.std() / grain.std()
    assert ramp.std() > 10 * SMOOTH_CONTRAST[1]

    sloping, rough = (
        measure_smoothness(index, [np.tile(level + pattern, (3, 1, 1)).astype(np.float32) for level in (40, 48)], DecisionConfig())
        for pattern in (ramp, grain)
    )

    # reflection bends the ramp at the border of the picture, which leaves a little texture there
    np.testing.assert_array_equal(sloping[20:40, 44:76], 1)
    np.testing.assert_array_equal(rough, 0)


@pytest.mark.parametrize(("factor", "smoothness"), [(0.98, 1.0), (1.02, 0.98), (1.35 / 0.7, 0.5)])
def test_texture_counts_by_its_root_mean_square(factor, smoothness):
    """A checkerboard of one level up, one down: the mean over an odd window leaves all of it but a 25th."""
    index = halves((40, 120))
    blocks = even_blocks(2, index.shape, apart=8)
    checkers = np.where(np.indices(index.shape).sum(axis=0) % 2, 1, -1).astype(np.float32)
    blocks[1][1] += np.float32(factor * SMOOTH_CONTRAST[0] / (1 - 1 / TEXTURE_PX**2)) * checkers

    measured = measure_smoothness(index, blocks, DecisionConfig())

    np.testing.assert_allclose(measured[18:22, 58:62], smoothness, rtol=0, atol=0.02)


@pytest.mark.parametrize("channel", range(3))
def test_texture_of_one_channel_counts_whole(channel):
    """As a mean over the channels it would pass for smooth."""
    index = halves((20, 80))
    blocks = even_blocks(2, index.shape, apart=8)
    blocks[0][channel] += np.where(np.indices(index.shape).sum(axis=0) % 2, 1.2, -1.2) * np.float32(SMOOTH_CONTRAST[1])
    assert blocks[0].mean(axis=0).std() < 0.5 * sum(SMOOTH_CONTRAST)

    np.testing.assert_array_equal(measure_smoothness(index, blocks, DecisionConfig()), 0)


@pytest.mark.parametrize(
    "change", [(12, 0, -12), (1.1 * LEAST_VISIBLE_STEP, 0, 0), (0, -1.1 * LEAST_VISIBLE_STEP, 0), (0, 0, 1.1 * LEAST_VISIBLE_STEP)]
)
def test_a_step_of_any_channel_shows_on_smooth_ground(change):
    index = halves((20, 80))
    first = even_blocks(1, index.shape, apart=0)[0]

    smoothness = measure_smoothness(index, [first, first + np.array(change, np.float32)[:, None, None]], DecisionConfig())

    np.testing.assert_array_equal(smoothness[:, 24:56], 1)
    np.testing.assert_array_equal(smoothness[:, :24], 0)
    np.testing.assert_array_equal(smoothness[:, 56:], 0)


@pytest.mark.parametrize("offset", [0, -1000, 1000])
def test_smoothness_does_not_depend_on_how_bright_the_images_are(offset):
    """Samples beyond the focus range lie below 0 or above 255."""
    index = halves((20, 80))
    seen, unseen = (even_blocks(2, index.shape, apart=factor * LEAST_VISIBLE_STEP) for factor in (1.1, 0.9))

    assert (measure_smoothness(index, [block + np.float32(offset) for block in seen], DecisionConfig())[:, 24:56] == 1).all()
    assert (measure_smoothness(index, [block + np.float32(offset) for block in unseen], DecisionConfig()) == 0).all()


@pytest.mark.parametrize("config", [DecisionConfig(blend_radius_px=0), DecisionConfig(feather_px=0), DecisionConfig(feather_px=1)])
def test_where_no_feather_is_wanted_no_brightness_is_spread(config):
    """Not on smooth ground, not over a seam and not along a slope."""
    index = halves()
    blocks, is_even = even_blocks(2, index.shape, apart=50), np.ones(index.shape, bool)
    assert measure_spread(index, blocks, DecisionConfig()).any()

    np.testing.assert_array_equal(measure_spread(index, blocks, config), 0)
    assert blend_along_edges(index, blocks, flat(index.shape), config, is_even=is_even).brightness.nnz == 0


@pytest.mark.parametrize("start", [1, 40, CELL_PX - 30, CELL_PX - 1])
def test_texture_of_a_third_image_counts_where_that_image_is_in_reach_and_not_beyond(start):
    """Wherever the edges lie in the cells that the image is cut into."""
    reach_px, width = 16, 30
    first_edge, second_edge = start + 40, start + 40 + width
    columns = np.arange(280)
    index = np.broadcast_to((columns >= first_edge).astype(np.uint16) + (columns >= second_edge), (150, 280)).copy()
    blocks = [*even_blocks(2, index.shape, apart=8), textured_blocks(1, index.shape)[0]]

    smoothness = measure_smoothness(index, blocks, DecisionConfig(feather_px=reach_px))

    sees_third = second_edge - reach_px  # the first column from which it is in reach
    assert first_edge < sees_third < first_edge + reach_px
    np.testing.assert_array_equal(smoothness[:, first_edge - reach_px : sees_third], 1)
    np.testing.assert_array_equal(smoothness[:, sees_third:], 0)
    np.testing.assert_array_equal(smoothness[:, : first_edge - reach_px], 0)


def test_texture_of_an_image_that_is_nowhere_in_reach_does_not_matter():
    index = halves((40, 90))
    index[:, 80:] = 2
    blocks = [*even_blocks(2, index.shape, apart=8), textured_blocks(1, index.shape)[0]]

    smoothness = measure_smoothness(index, blocks, DecisionConfig(feather_px=16))

    np.testing.assert_array_equal(smoothness[:, 29:61], 1)
    np.testing.assert_array_equal(smoothness[:, 64:], 0)


# --- large maps and parts of them ---


def shares_over_the_whole_picture(index, blocks, guide, config):
    """The definition, without cells: both shares of all images, and by how much the blend changes each pixel of texture."""
    reach_px, numbers = config.feather_px // 2 * 2, np.arange(len(blocks))[:, None, None]
    membership = (index == numbers).astype(np.float64)
    spread = measure_spread(index, blocks, config)
    narrow = guided_filter(membership, guide.astype(np.float64), radius_px=config.blend_radius_px, edge_contrast=config.blend_edge_contrast)
    size = (1, reach_px + 1, reach_px + 1)
    feathered = ndimage.uniform_filter(ndimage.uniform_filter(membership, size), size)
    shares = np.clip([narrow, narrow + spread * (feathered - narrow)], 0, 1)
    band = edge_band(index, reach_px=2 * config.blend_radius_px) | (spread > 0)
    shares = np.where(band, shares / shares.sum(axis=1, keepdims=True), membership)
    own = np.take_along_axis(np.array(blocks), index[None, None].astype(int), axis=0)[0]
    change = np.sqrt(((np.einsum("nhw,nchw->chw", shares[0], blocks) - own) ** 2).mean(axis=0))
    is_hidden = (spread == 0) & (change < LEAST_VISIBLE_CHANGE)
    return np.where(is_hidden, membership, shares), change


@pytest.mark.parametrize("radius_px", [1, 2])
def test_shares_of_a_large_map_are_those_computed_over_the_whole_picture(radius_px):
    """Longer and wider than a cell, with edges across and along its borders."""
    index, blocks, guide = feathered_scene((300, 280))
    assert min(index.shape) > 2 * CELL_PX
    config = DecisionConfig(blend_radius_px=radius_px)
    expected, change = shares_over_the_whole_picture(index, blocks, guide, config)

    shares = both_shares(blend_along_edges(index, blocks, guide, config), 4)

    is_clear = np.abs(change - LEAST_VISIBLE_CHANGE) > 1e-3
    assert is_clear.mean() > 0.999
    np.testing.assert_allclose(shares[..., is_clear], expected[..., is_clear], rtol=0, atol=3 * LEAST_SHARE)


def test_shares_that_a_strong_guide_drives_beyond_one_are_clipped_before_they_are_added_up():
    index = np.kron(np.random.default_rng(4).integers(0, 4, (24, 24)), np.ones((5, 5), int)).astype(np.uint16)
    blocks, guide, config = (
        textured_blocks(4, index.shape),
        texture(index.shape),
        DecisionConfig(blend_radius_px=1, blend_edge_contrast=0.001),
    )
    raw = guided_filter((index == np.arange(4)[:, None, None]).astype(np.float64), guide, radius_px=1, edge_contrast=0.001)
    is_driven = (raw > 1.003).any(axis=0) & ((raw > 0.003).sum(axis=0) > 1)
    assert is_driven.any()
    expected, _ = shares_over_the_whole_picture(index, blocks, guide, config)

    shares = both_shares(blend_along_edges(index, blocks, guide, config), 4)

    np.testing.assert_allclose(shares[..., is_driven], expected[..., is_driven], rtol=0, atol=LEAST_SHARE)


@pytest.mark.parametrize("corner", [(0, 0), (17, 33), (128, 90)])
def test_a_part_of_a_map_gives_the_shares_of_the_whole_away_from_its_border(corner):
    index, blocks, guide = feathered_scene((300, 280))
    config = DecisionConfig()
    reach_px, side_px = reach_of_blend(config) + TEXTURE_PX // 2, 150
    part = tuple(slice(start, start + side_px) for start in corner)
    inner = tuple(slice(start and reach_px, side_px - reach_px) for start in corner)  # a border of the picture itself stays one

    whole = blend_along_edges(index, blocks, guide, config)
    cut = blend_along_edges(index[part], [block[:, *part] for block in blocks], guide[part], config)

    np.testing.assert_array_equal(cut.band[inner], whole.band[part][inner])
    np.testing.assert_array_equal(cut.source_index[inner], whole.source_index[part][inner])
    np.testing.assert_allclose(
        both_shares(cut, 4)[:, :, *inner], both_shares(whole, 4)[:, :, *part][:, :, *inner], rtol=0, atol=SHARE_ROUNDINGS
    )


def test_the_names_of_the_images_do_not_matter():
    index, blocks, guide = feathered_scene((150, 160))
    renamed = np.array([2, 0, 3, 1], np.uint16)

    shares = both_shares(blend_along_edges(index, blocks, guide, DecisionConfig()), 4)
    again = both_shares(blend_along_edges(renamed[index], [blocks[n] for n in np.argsort(renamed)], guide, DecisionConfig()), 4)

    np.testing.assert_allclose(again[:, renamed], shares, rtol=0, atol=SHARE_ROUNDINGS)


def test_a_turned_picture_has_turned_shares():
    index, blocks, guide = feathered_scene((150, 160))

    shares = both_shares(blend_along_edges(index, blocks, guide, DecisionConfig()), 4)
    turned = both_shares(
        blend_along_edges(*(np.rot90(index), [np.rot90(block, axes=(1, 2)) for block in blocks]), np.rot90(guide), DecisionConfig()), 4
    )

    np.testing.assert_allclose(np.rot90(turned, -1, axes=(2, 3)), shares, rtol=0, atol=SHARE_ROUNDINGS)


def test_edges_that_lie_to_the_pixel_are_not_blended():
    index = halves((40, 60))
    blocks = textured_blocks(2, index.shape)
    is_exact = np.zeros(index.shape, bool)
    is_exact[20:] = True

    blend = blend_along_edges(index, blocks, flat(index.shape), DecisionConfig(), is_exact=is_exact)

    assert not blend.band[20:].any()
    assert blend.band[:20].any(axis=1).all()


def test_a_step_on_smooth_ground_is_blended_also_where_the_edge_lies_to_the_pixel():
    index = halves((60, 90))
    blocks = even_blocks(2, index.shape, apart=8)

    as_ever, exact = (
        blend_along_edges(index, blocks, flat(index.shape), DecisionConfig(), is_exact=is_exact)
        for is_exact in (None, np.ones(index.shape, bool))
    )

    assert as_ever.band.any()
    np.testing.assert_array_equal(exact.band, as_ever.band)
    np.testing.assert_array_equal(exact.brightness.toarray(), as_ever.brightness.toarray())
