"""The plain measure: closed forms, a brute-force twin, and what noise and borders ask for."""

import numpy as np
import pytest
from qmcif_engine.method.focus_measures import MeasuringTask
from qmcif_engine.method.focus_measures.laplacian_measure import measure_by_laplacian
from qmcif_engine.stack.noise import NoiseAdaptation
from scipy import ndimage

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import Cancelled
from qmcif_engine.method.focus import Borders

PLAIN = FusionConfig().replaced({"border_px": 0})
SHAPE = (40, 52)


def block_of(seed=0, shape=SHAPE):
    return np.random.default_rng(seed).uniform(0, 255, (3, *shape)).astype(np.float32)


def test_levels_are_roots_of_the_mean_energy_of_each_window():
    block = block_of()
    brightness = np.pad(block.astype(np.float64).mean(axis=0), 1, mode="edge")
    laplacian = brightness[:-2, 1:-1] + brightness[2:, 1:-1] + brightness[1:-1, :-2] + brightness[1:-1, 2:] - 4 * brightness[1:-1, 1:-1]
    energy = np.pad(laplacian**2, 4, mode="symmetric")

    levels = measure_by_laplacian(block, PLAIN, MeasuringTask(detail_patch_px=9))

    for row, column in ((0, 0), (17, 30), (39, 51), (3, 49)):
        for level, half in ((levels.detail, 4), (levels.fine, 2)):
            window = energy[row + 4 - half : row + 5 + half, column + 4 - half : column + 5 + half]
            assert level[row, column] == pytest.approx(7 / 255 * np.sqrt(window.mean()), rel=1e-5)
    assert levels.base[1, 2] == pytest.approx(np.sqrt((laplacian[8:16, 16:24] ** 2).sum()), rel=1e-5)
    assert levels.base.shape == (5, 7)
    assert levels.layers is None


def test_flat_ground_has_no_focus_and_blur_takes_it_away():
    flat = np.full((3, *SHAPE), 77.7, np.float32)
    sharp = block_of()
    blurred = ndimage.gaussian_filter(sharp, (0, 1.5, 1.5))

    task = MeasuringTask(detail_patch_px=9)
    of_flat, of_sharp, of_blurred = (measure_by_laplacian(block, PLAIN, task) for block in (flat, sharp, blurred))

    assert not of_flat.detail.any()
    assert not of_flat.base.any()
    assert (of_sharp.detail > 3 * of_blurred.detail).all()
    assert (of_sharp.fine > of_blurred.fine).all()
    assert (of_sharp.base > 3 * of_blurred.base).all()


def test_a_slope_of_brightness_is_no_focus():
    slope = np.broadcast_to(np.arange(SHAPE[1], dtype=np.float32) * 2, (3, *SHAPE))

    levels = measure_by_laplacian(slope, PLAIN, MeasuringTask(detail_patch_px=5))

    assert not levels.detail[:, 4:-4].any()


def test_levels_near_a_border_of_the_image_mirror_the_interior_and_others_do_not():
    block = block_of()
    block[:, :, :3] = 0
    block[:, :, 3] = 255

    mirrored, plain = (
        measure_by_laplacian(block, FusionConfig(), MeasuringTask(detail_patch_px=3, borders=borders)).detail
        for borders in (Borders(), Borders(left=False))
    )

    assert mirrored[20, 3] < plain[20, 3]
    np.testing.assert_array_equal(mirrored[:, 20:], plain[:, 20:])


def test_the_finest_window_grows_for_noise_and_loses_what_is_faint():
    block = block_of()
    task = MeasuringTask(detail_patch_px=9, adaptation=NoiseAdaptation(window_growth_px=4, faint_level=0.5))

    adapted, plain = (measure_by_laplacian(block, PLAIN, each) for each in (task, MeasuringTask(detail_patch_px=9)))

    np.testing.assert_allclose(adapted.fine, np.maximum(plain.detail - 0.5, 0), rtol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_levels_have_the_precision_that_is_asked_for_and_the_block_is_left_alone(precision):
    block = block_of()
    before = block.copy()

    levels = measure_by_laplacian(block, PLAIN.replaced({"precision": precision}), MeasuringTask(detail_patch_px=9))

    assert {levels.detail.dtype, levels.fine.dtype} == {np.dtype(precision)}
    np.testing.assert_array_equal(block, before)


def test_it_can_be_cancelled():
    def cancel():
        msg = "enough"
        raise Cancelled(msg)

    with pytest.raises(Cancelled, match="enough"):
        measure_by_laplacian(block_of(), PLAIN, MeasuringTask(detail_patch_px=9, check_cancelled=cancel))
