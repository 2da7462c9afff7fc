"""Advice to even out exposure: given where images differ as a whole, and not where light comes and goes with depth."""

from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.comparison.datasets import find_dataset
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.stack.exposure import measure_exposure, suggest_even_exposure
from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.stack.synthetic import make_focus_stack
from qmcif_engine.stack.window import Window
from tests.scenes import logged_stack

SHAPE = (120, 160)
SHARED = Path(__file__).parents[4] / "shared" / "data"


def make_bright_stack(n_images=5, *, gains=None, offset=60.0):
    """A focus stack on bright ground, each image and channel multiplied by its gain."""
    images = offset + 0.6 * make_focus_stack(n_images=n_images, shape=SHAPE, seed=2).images.astype(float)
    factors = np.ones((n_images, 1)) if gains is None else np.asarray(gains, float).reshape(n_images, -1)
    return stack_arrays([(image * gain).astype(np.uint8) for image, gain in zip(images, factors, strict=True)])


def test_a_slow_drift_of_one_color_is_told():
    suggestion = suggest_even_exposure(make_bright_stack(gains=[(1, 1, gain) for gain in (1, 0.96, 0.92, 0.88, 0.84)]))

    assert 0.05 < suggestion.difference < 0.3
    percent = f"{100 * suggestion.difference:.0f} %"
    assert suggestion.message == f"the images of this stack differ in brightness or color by about {percent}: try --even-exposure"


def test_one_flash_that_was_weaker_is_told():
    assert suggest_even_exposure(make_bright_stack(gains=(1, 1, 0.8, 1, 1))) is not None


@pytest.mark.parametrize("gains", [None, (1, 0.99, 1, 1.01, 1)])
def test_an_even_stack_gets_no_advice(gains):
    assert suggest_even_exposure(make_bright_stack(gains=gains)) is None


def test_two_images_are_told_where_most_of_their_colors_differ():
    assert suggest_even_exposure(make_bright_stack(2, gains=[(1, 1, 1), (0.85, 0.85, 1)])) is not None
    assert suggest_even_exposure(make_bright_stack(2, gains=[(1, 1, 1), (0.85, 1, 1)])) is None
    assert suggest_even_exposure(make_bright_stack(2)) is None


def test_two_images_without_colors_are_not_judged():
    pair = make_bright_stack(2, gains=(1, 0.8))
    assert suggest_even_exposure(pair) is not None

    assert suggest_even_exposure(stack_arrays([pair.read(number, Window.whole(SHAPE))[..., 0] for number in range(2)])) is None


def test_channels_recorded_one_by_one_are_not_judged():
    stack = make_bright_stack(gains=(1, 0.95, 0.9, 0.85, 0.8))
    assert suggest_even_exposure(stack) is not None

    assert suggest_even_exposure(stack.replaced(n_separate_channels=3)) is None


def make_depths(shape=SHAPE, n_images=7):
    """Bright spots, each in focus at its own depth, on dark ground: what a fluorescence microscope sees."""
    generator = np.random.default_rng(4)
    planes = []
    depths, rows, columns = generator.uniform(0, n_images, 40), generator.integers(0, shape[0], 40), generator.integers(0, shape[1], 40)
    for number in range(n_images):
        plane = np.zeros(shape)
        np.add.at(plane, (rows, columns), np.exp(-((depths - number) ** 2) / 2))
        planes.append(ndimage.gaussian_filter(plane, 5))
    whole = np.stack(planes)
    return (whole / whole.max() * 60000).astype(np.uint16)


def test_light_that_comes_and_goes_with_depth_gets_no_advice():
    assert suggest_even_exposure(stack_arrays(list(make_depths()))) is None


def test_light_that_fills_the_picture_at_some_depths_gets_no_advice():
    fading = np.array([0.3, 0.7, 1, 0.5, 0.2])
    filled = [((30000 + 0.4 * plane) * share).astype(np.uint16) for plane, share in zip(make_depths(n_images=5), fading, strict=True)]

    assert suggest_even_exposure(stack_arrays(filled)) is None


@pytest.mark.parametrize(
    "images",
    [np.zeros((4, 40, 50), np.uint8), np.full((3, 40, 50, 3), 7.0), np.full((3, 40, 50), 1e300), np.arange(3 * 2 * 2.0).reshape(3, 2, 2)],
    ids=["black", "flat", "huge", "tiny"],
)
def test_what_cannot_be_judged_gets_no_advice_and_ends_nothing(images):
    assert suggest_even_exposure(stack_arrays(list(images))) is None


def test_images_spread_over_a_deep_stack_are_compared_each_with_each():
    stack = logged_stack([np.zeros((40, 50, 3), np.uint8) + np.arange(50, dtype=np.uint8)[:, None]] * 21)

    measured = measure_exposure(stack)

    assert sorted({number for number, _ in stack.read.places}) == [0, 5, 10, 15, 20]
    assert [len(channel) for channel in measured] == [10, 10, 10]


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.exists(), reason="the shared pictures are not beside this checkout")
def test_of_the_real_stacks_only_the_uneven_ones_get_advice():
    folders = sorted(folder for folder in (SHARED / "stacks").glob("*") if folder.is_dir() and "20mpx" not in folder.name)
    files = sorted((SHARED / "microscopy").glob("*.tif"))

    advised = [entry.name for entry in (*folders, *files) if suggest_even_exposure(open_stack(entry)) is not None]

    # the ground of the smear changes by 4 to 5 gray levels from the first image to the last
    assert advised == ["blood_smear_left", "exposure_6"]


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.exists(), reason="the shared pictures are not beside this checkout")
def test_of_the_real_pairs_only_the_uneven_ones_get_advice():
    pairs = [(name, pair) for name in ("lytro", "mffw", "mfi_whu", "nyu_d") for pair in find_dataset(SHARED / name).sets]

    advised = [(name, pair.name) for name, pair in pairs if suggest_even_exposure(open_stack(list(pair.sources))) is not None]

    assert advised == [("mffw", "02"), ("mffw", "04"), ("mffw", "06"), ("mffw", "07")]
