"""What is measured once for a run, from one look at the stack."""

import pickle

import dask
import numpy as np
import pytest

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.config.presets import PRESETS
from qmcif_engine.errors import Cancelled
from qmcif_engine.fusing.pipeline import Pipeline
from qmcif_engine.io.input.stack_input import open_stack
from qmcif_engine.run.measurement import measure_range_and_noise, measure_run
from qmcif_engine.stack.samples import FocusRange
from qmcif_engine.stack.separate_channels import settle_channels
from qmcif_engine.stack.stack import companions_of, settle_range, stack_arrays
from tests.scenes import logged_stack, stack_of_bands

DEFAULT = FusionConfig()


def noisy(shape=(96, 112), *, n_images=3, deviation=5.0):
    generator = np.random.default_rng(0)
    return [(500 + generator.normal(0, deviation, shape)).astype(np.float32) for _ in range(n_images)]


def test_a_run_takes_one_look_at_the_stack():
    stack = logged_stack(noisy())

    _, measured = measure_run(stack, DEFAULT, None)
    _, of_paper = measure_run(stack, PRESETS["paper"], None)

    assert len(stack.read.places) == 2 * 3
    assert measured.statistics[0].is_ordered
    assert measured.statistics[0].noise > of_paper.statistics[0].noise == 0


def test_each_channel_that_decides_has_statistics_of_its_own():
    images = noisy((96, 96, 2))
    for image in images:
        image[..., 1] = 500 + 8 * (image[..., 1] - 500)

    _, measured = measure_run(settle_channels(stack_arrays(images), "each"), DEFAULT, [(0, 1000), (0, 1000)])

    assert len(measured.statistics) == len(measured.noise) == 2
    assert measured.noise[1] > 4 * measured.noise[0]
    assert len(measured.statistics[1].floors) == len(measured.statistics[0].floors) > 0


def test_noise_of_samples_is_in_their_own_unit_and_at_least_that_of_rounding():
    _, small = measure_run(stack_arrays(noisy()), DEFAULT, (0, 1000))
    _, large = measure_run(stack_arrays([100 * image for image in noisy()]), DEFAULT, (0, 1000))
    _, even = measure_run(stack_arrays([np.full((64, 64), 7, np.uint8)] * 2), DEFAULT, (0, 255), companions=stack_arrays(noisy()))

    assert large.noise[0] == pytest.approx(100 * small.noise[0], rel=1e-3)
    assert even.noise == (pytest.approx(12**-0.5),)
    assert even.companion_noise == (pytest.approx(small.noise[0]),)
    assert measure_run(stack_arrays(noisy()), DEFAULT.replaced({"noise": "off"}), None)[1].noise == (0.0,)


def test_channels_that_decided_need_no_noise_of_their_own():
    dyes = np.stack(noisy((64, 64, 4)))
    dyes[..., 0] = 500 + 8 * (dyes[..., 0] - 500)
    stack = open_stack(dyes, axes="ZYXC", channels=[2, 3])

    _, measured = measure_run(stack, DEFAULT, None, companions=companions_of(stack))

    first, *decided, last = measured.companion_noise
    assert decided == [0, 0]
    assert first > 4 * last > 0


def test_range_and_noise_alone_take_one_look():
    stack = logged_stack(noisy())

    focus_range, levels = measure_range_and_noise(stack)

    assert len(stack.read.places) == 3
    assert focus_range == settle_range(stack_arrays(noisy()), None)
    assert isinstance(focus_range, FocusRange)
    assert len(levels) == 1
    assert levels[0] > 0


# --- the coarse decision ---

SMALL_TILES = {"tile_px": 128, "chunk_px": 64}


def coarse_of(stack, config=DEFAULT, **options):
    return Pipeline.prepare(stack, config, **options).measure((0, 255)).coarse


def scene(n_images=3, shape=(160, 240)):
    return [np.rint(image).astype(np.uint8) for image in stack_of_bands(n_images, shape, noise=1.0)[0]]


@pytest.mark.parametrize("n_images", [2, 7])
def test_the_coarse_decision_is_that_of_the_whole_image_whatever_the_windows(n_images):
    (one,), (other,) = (coarse_of(stack_arrays(scene(n_images)), DEFAULT.replaced(tiling)) for tiling in ({}, SMALL_TILES))

    assert one.label.shape == (10, 15, min(n_images, 4))
    np.testing.assert_array_equal(one.label, other.label)
    np.testing.assert_allclose(one.messages.astype(float), other.messages.astype(float), atol=1e-2)


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_who_computes_changes_no_bit_of_it(scheduler):
    config = DEFAULT.replaced(SMALL_TILES)
    (expected,) = coarse_of(stack_arrays(scene()), config, workers=1)

    with dask.config.set(scheduler=scheduler):
        (found,) = coarse_of(stack_arrays(scene()), config, workers=3)

    for mine, its in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, its)


def test_each_channel_that_decides_has_a_coarse_decision_of_its_own():
    images = np.stack([np.stack([image, image[::-1, ::-1]], axis=-1) for image in scene()])

    first, second = coarse_of(stack_arrays(list(images)), channels="each")

    np.testing.assert_array_equal(first.label, coarse_of(stack_arrays(list(images[..., 0])))[0].label)
    np.testing.assert_array_equal(second.label, coarse_of(stack_arrays(list(images[..., 1])))[0].label)


def test_what_decides_is_the_guide():
    guide = stack_arrays(scene())

    np.testing.assert_array_equal(coarse_of(stack_arrays(scene()[::-1]), guide=guide)[0].label, coarse_of(guide)[0].label)


def test_each_window_of_an_image_is_read_once():
    stack = logged_stack(scene())
    coarse_of(stack, DEFAULT.replaced({"dark_border_px": 0}))
    n_measured = len(stack.read.places)
    stack.read.places.clear()
    coarse_of(stack, DEFAULT.replaced({"dark_border_px": 0, "effort": "fast"}))

    assert n_measured - len(stack.read.places) == 3


def test_tiles_take_only_their_part_of_it_to_other_processes():
    config = DEFAULT.replaced(SMALL_TILES)
    pipeline = Pipeline.prepare(stack_arrays(scene(shape=(640, 640))), config)
    task = pipeline.measure((0, 255))

    alone, tiles = task.hand_out(pipeline.plan.tiles)

    assert alone.coarse == ()
    first = next(iter(tiles))
    assert first.coarse[0].label.shape[:2] == first.padded.in_cells(16).shape
    assert len(pickle.dumps(first)) < sum(plane.nbytes for plane in task.coarse[0]) / 4


@pytest.mark.parametrize("changes", [{"effort": "fast"}, {"rule": "paper"}])
def test_some_settings_have_none(changes):
    assert coarse_of(stack_arrays(scene()), DEFAULT.replaced(changes)) == ()


def test_it_can_be_cancelled():
    with pytest.raises(Cancelled):
        Pipeline.prepare(stack_arrays(scene())).measure(is_cancelled=lambda: True)
