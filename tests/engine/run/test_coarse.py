"""What is measured once for a run: of the whole stack, from one look at it, and the same however it is read."""

import numpy as np
import pytest
from qmcif_engine.decision.coarse import CELL_PX, coarsen

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.config.presets import PRESETS
from qmcif_engine.errors import Cancelled, InvalidImageError
from qmcif_engine.run import coarse as coarse_module
from qmcif_engine.run.measurement import measure_range_and_noise, measure_run
from qmcif_engine.stack.samples import FocusRange, to_planes
from qmcif_engine.stack.separate_channels import settle_channels
from qmcif_engine.stack.stack import ArrayStack, settle_range
from qmcif_engine.stack.window import Window

DEFAULT = FusionConfig()


class Counted(ArrayStack):
    def __init__(self, images):
        super().__init__(list(images))
        self.n_reads = 0

    def read(self, number, window):
        self.n_reads += 1
        return super().read(number, window)


def noisy(shape=(96, 112), *, n_images=3, deviation=5.0):
    generator = np.random.default_rng(0)
    return [(500 + generator.normal(0, deviation, shape)).astype(np.float32) for _ in range(n_images)]


@pytest.mark.parametrize("shape", [(96, 112), (90, 101, 3), (17, 300)])
def test_the_coarse_copy_is_that_of_whole_images_whatever_the_bands(monkeypatch, shape):
    images = np.random.default_rng(1).integers(0, 256, (3, *shape), dtype=np.uint8)
    monkeypatch.setattr(coarse_module, "LARGEST_BAND_PX", 16 * shape[1])

    bounds, measured = measure_run(ArrayStack(list(images)), DEFAULT, (0, 255))

    copy = measured.statistics[0].coarse
    for number, image in enumerate(images):
        planes = to_planes(image, bounds, representation=DEFAULT.method.representation)
        means, detail, clipped = coarsen(planes, highest=255.0, inner=Window.whole(shape))
        np.testing.assert_allclose(copy.means[number], means, rtol=1e-5)
        np.testing.assert_allclose(copy.detail[number], detail, rtol=1e-4, atol=1e-3)
        np.testing.assert_array_equal(copy.clipped[number], clipped)


def test_a_cell_is_the_mean_of_its_pixels():
    image = np.random.default_rng(2).integers(0, 256, (64, 96)).astype(np.uint8)

    _, measured = measure_run(ArrayStack([image, image[::-1]]), DEFAULT, (0, 255))

    means = measured.statistics[0].coarse.means
    expected = image.reshape(64 // CELL_PX, CELL_PX, 96 // CELL_PX, CELL_PX).mean(axis=(1, 3))
    np.testing.assert_allclose(means[0, 0], expected, rtol=1e-5)


@pytest.mark.parametrize("workers", [1, 4])
def test_the_number_of_workers_changes_nothing(monkeypatch, workers):
    images = noisy()
    monkeypatch.setattr(coarse_module, "LARGEST_BAND_PX", 16)
    _, alone = measure_run(ArrayStack(images), DEFAULT, None, workers=1)

    _, measured = measure_run(ArrayStack(images), DEFAULT, None, workers=workers)

    assert (measured.noise, measured.statistics[0].noise) == (alone.noise, alone.statistics[0].noise)
    np.testing.assert_array_equal(measured.statistics[0].coarse.means, alone.statistics[0].coarse.means)


def test_the_paper_looks_at_a_subsample_only():
    stack = Counted(noisy())

    _, measured = measure_run(stack, PRESETS["paper"], None)

    assert stack.n_reads == 3
    assert measured.statistics[0].coarse is None
    assert measured.statistics[0].is_ordered


def test_each_channel_that_decides_has_statistics_of_its_own():
    images = noisy((96, 96, 2))
    for image in images:
        image[..., 1] = 500 + 8 * (image[..., 1] - 500)

    _, measured = measure_run(settle_channels(ArrayStack(images), "each"), DEFAULT, [(0, 1000), (0, 1000)])

    assert len(measured.statistics) == len(measured.noise) == 2
    assert measured.noise[1] > 4 * measured.noise[0]
    assert measured.statistics[0].coarse.means.shape == (3, 1, 6, 6)


def test_noise_of_samples_is_in_their_own_unit_and_at_least_that_of_rounding():
    _, small = measure_run(ArrayStack(noisy()), DEFAULT, (0, 1000))
    _, large = measure_run(ArrayStack([100 * image for image in noisy()]), DEFAULT, (0, 1000))
    _, even = measure_run(ArrayStack([np.full((64, 64), 7, np.uint8)] * 2), DEFAULT, (0, 255), companions=ArrayStack(noisy()))

    assert large.noise[0] == pytest.approx(100 * small.noise[0], rel=1e-3)
    assert even.noise == (pytest.approx(12**-0.5),)
    assert even.companion_noise == pytest.approx(small.noise[0])
    assert measure_run(ArrayStack(noisy()), DEFAULT.replaced({"noise": "off"}), None)[1].noise == (0.0,)


def test_samples_at_the_limit_of_their_type_are_counted_and_floats_have_none():
    image = np.zeros((64, 64), np.uint8)
    image[:16, :8] = 255
    _, measured = measure_run(ArrayStack([image, image]), DEFAULT, (0, 255))
    _, without = measure_run(ArrayStack([image.astype(np.float32)] * 2), DEFAULT, (0, 255))

    assert measured.statistics[0].coarse.clipped[0, 0, 0] == pytest.approx(0.5)
    assert without.statistics[0].coarse.clipped is None


def test_large_copies_lie_in_a_file_and_are_the_same(monkeypatch):
    images = noisy()
    _, expected = measure_run(ArrayStack(images), DEFAULT, None)
    monkeypatch.setattr(coarse_module, "LARGEST_IN_MEMORY_BYTES", 8)

    _, measured = measure_run(ArrayStack(images), DEFAULT, None)

    assert isinstance(measured.statistics[0].coarse.means, np.memmap)
    np.testing.assert_array_equal(measured.statistics[0].coarse.means, expected.statistics[0].coarse.means)


def test_it_can_be_cancelled_and_refuses_what_is_no_number():
    def refuse():
        msg = "enough"
        raise Cancelled(msg)

    with pytest.raises(Cancelled, match="enough"):
        measure_run(ArrayStack(noisy()), DEFAULT, None, check_cancelled=refuse)
    images = noisy()
    images[1][5, 5] = np.nan
    with pytest.raises(InvalidImageError, match="image 2 holds NaN"):
        measure_run(ArrayStack(images), DEFAULT, None)


def test_range_and_noise_alone_take_one_look():
    stack = Counted(noisy())

    focus_range, levels = measure_range_and_noise(stack)

    assert stack.n_reads == 3
    assert focus_range == settle_range(ArrayStack(noisy()), None)
    assert isinstance(focus_range, FocusRange)
    assert len(levels) == 1
    assert levels[0] > 0
