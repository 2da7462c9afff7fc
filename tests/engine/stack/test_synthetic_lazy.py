"""A stack of any size, generated block by block."""

import pickle

import numpy as np
import pytest

from qmcif_engine import InvalidConfigError, make_lazy_focus_stack
from qmcif_engine.stack.synthetic_lazy import BLOCK_SIDE_PX


def measure_detail(picture):
    """How much neighboring pixels differ, in blocks of 64 px."""
    steps = np.abs(np.diff(picture[..., 1].astype(float), axis=1))[:, : picture.shape[1] // 64 * 64 - 64]
    return steps.reshape(picture.shape[0] // 64, 64, -1, 64).mean(axis=(1, 3))


def test_a_gigapixel_stack_is_described_at_once_and_any_corner_of_it_can_be_asked_for():
    stack = make_lazy_focus_stack(shape=(32768, 32768), n_images=2)

    assert (stack.shape, stack.dtype, stack.chunksize) == ((2, 32768, 32768, 3), np.uint8, (1, 1024, 1024, 3))
    assert len(pickle.dumps(stack)) < 1_000_000
    assert stack[1, -5:, -7:].compute().shape == (5, 7, 3)


def test_the_same_seed_gives_the_same_samples_and_another_seed_others():
    first, again, other = (make_lazy_focus_stack(shape=(40, 50), seed=seed).compute() for seed in (3, 3, 4))

    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.5


def test_samples_do_not_depend_on_the_size_of_the_picture_and_go_on_across_blocks():
    small, large = (make_lazy_focus_stack(shape=(height, BLOCK_SIDE_PX + 8))[:, :30] for height in (30, 60))
    np.testing.assert_array_equal(small.compute(), large.compute())

    steps = np.abs(np.diff(small.compute().astype(int), axis=2)).mean(axis=(0, 1, 3))
    assert steps[BLOCK_SIDE_PX - 1] < 2 * steps.mean()


def test_everything_is_textured_and_what_is_sharp_in_one_image_is_blurred_in_the_other():
    first, second = make_lazy_focus_stack(shape=(1024, 1024)).compute()
    detail_first, detail_second = measure_detail(first), measure_detail(second)

    assert np.maximum(detail_first, detail_second).min() > 4
    assert (detail_first > 1.5 * detail_second).mean() > 0.2
    assert (detail_second > 1.5 * detail_first).mean() > 0.2
    assert (first.min(), first.max()) > (0, 200)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"shape": (4, 9)}, r"shape=\(4, 9\) was given; height and width of 8 to 1048576 px are needed"),
        ({"shape": (64,)}, r"shape=\(64,\) was given; height and width"),
        ({"n_images": 1}, "n_images=1 was given; 2 to 1024 is needed"),
        ({"n_images": True}, "n_images=True was given"),
        ({"seed": -1}, "seed=-1 was given; a whole number that is not negative is needed"),
    ],
)
def test_what_cannot_be_made_is_refused_with_the_bounds(wrong, message):
    with pytest.raises(InvalidConfigError, match=message):
        make_lazy_focus_stack(**wrong)


@pytest.mark.parametrize("step", [2, 3, 8])
def test_a_step_gives_what_slicing_gives(step):
    whole = make_lazy_focus_stack(shape=(1100, 1300), n_images=3, seed=5)

    coarse = make_lazy_focus_stack(shape=(1100, 1300), n_images=3, seed=5, step=step)

    np.testing.assert_array_equal(coarse, whole[:, ::step, ::step])


@pytest.mark.parametrize("step", [0, -1, 1.5, True])
def test_a_senseless_step_is_refused(step):
    with pytest.raises(InvalidConfigError, match="a whole number from 1 to"):
        make_lazy_focus_stack(step=step)
