"""What is measured once for a run, from one look at the stack."""

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import PRESETS, FusionConfig
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.run.measurement import measure_range_and_noise, measure_run
from qmcif_engine.stack.deciding import choose_deciding_channels, choose_focus_range
from qmcif_engine.stack.samples import FocusRange
from qmcif_engine.stack.stack import stack_arrays
from tests.scenes import logged_stack

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

    _, measured = measure_run(choose_deciding_channels(stack_arrays(images), "each"), DEFAULT, [(0, 1000), (0, 1000)])

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

    _, measured = measure_run(stack, DEFAULT, None, companions=stack.further_planes)

    first, *decided, last = measured.companion_noise
    assert decided == [0, 0]
    assert first > 4 * last > 0


def test_range_and_noise_alone_take_one_look():
    stack = logged_stack(noisy())

    focus_range, levels = measure_range_and_noise(stack)

    assert len(stack.read.places) == 3
    assert focus_range == choose_focus_range(stack_arrays(noisy()), None)
    assert isinstance(focus_range, FocusRange)
    assert len(levels) == 1
    assert levels[0] > 0
