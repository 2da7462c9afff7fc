import pickle

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.stack.alignment.transforms import IDENTITY, TransformModel, Transforms
from qmcif_engine.stack.alignment.warping import align_stack
from qmcif_engine.stack.exposure import ExposureCorrection, correct_stack, estimate_exposure
from qmcif_engine.stack.stack import Stack, stack_arrays
from qmcif_engine.stack.synthetic import make_focus_stack
from qmcif_engine.stack.window import Window

SHAPE = (160, 200)
WHOLE = Window(0, 0, *SHAPE)
GAIN_ERROR = 0.01


@pytest.fixture(scope="module")
def scene():
    """A focus stack as floats from 0.1 to 0.8, shape (4, H, W, 3)."""
    return 0.1 + 0.7 * make_focus_stack(n_images=4, shape=SHAPE, dtype=np.float32).images.astype(np.float64)


def correct(gains, offsets=None):
    return ExposureCorrection(gains=gains, offsets=offsets or tuple((0.0,) * len(row) for row in gains), reference=0)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_gains_of_each_channel_are_found_although_the_focus_differs(scene, dtype):
    gains = np.array([(1.1, 1.1, 1.1), (1, 1, 1), (0.9, 0.8, 0.95), (0.7, 1, 1)])
    full = 1 if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max
    stack = stack_arrays([(image * gain * full).astype(dtype) for image, gain in zip(scene, gains, strict=True)])

    correction = estimate_exposure(stack, reference=1)

    np.testing.assert_allclose(correction.gains, 1 / gains, rtol=GAIN_ERROR)
    assert correction.warnings == ()


def test_an_offset_is_found_where_there_is_one(scene):
    image = scene[0]
    stack = stack_arrays([image, 0.8 * image + 0.2])

    correction = estimate_exposure(stack, reference=0)

    np.testing.assert_allclose(correction.gains[1], 1 / 0.8, rtol=1e-3)
    np.testing.assert_allclose(correction.offsets[1], -0.2 / 0.8, atol=1e-3)


def test_clipped_highlights_do_not_mislead(scene):
    image = np.rint(scene[0] * 300)
    stack = stack_arrays([np.minimum(image * gain, 255).astype(np.uint8) for gain in (1.0, 1.3)])

    correction = estimate_exposure(stack, reference=0)

    np.testing.assert_allclose(correction.gains[1], 1 / 1.3, rtol=0.05)


def test_an_object_that_appears_does_not_mislead(scene):
    changed = scene[0] * 0.9
    changed[20:70, 30:90] = 0.85
    correction = estimate_exposure(stack_arrays([scene[0], changed]), reference=0)

    np.testing.assert_allclose(correction.gains[1], 1 / 0.9, rtol=0.02)


def test_an_even_stack_keeps_its_samples(scene):
    stack = stack_arrays([(image * 255).astype(np.uint8) for image in scene[[0, 0, 0]]])
    corrected = correct_stack(stack, estimate_exposure(stack))

    for number in range(3):
        np.testing.assert_array_equal(corrected.read(number, WHOLE), stack.read(number, WHOLE))


def test_a_plane_of_one_value_keeps_its_samples(scene):
    gains = (1.0, 0.8, 1.0, 0.9)
    images = [np.dstack([image[..., :2] * gain, np.zeros(SHAPE)]).astype(np.float32) for image, gain in zip(scene, gains, strict=True)]

    correction = estimate_exposure(stack_arrays(images), reference=0)

    np.testing.assert_array_equal(np.array(correction.gains)[:, 2], 1)
    np.testing.assert_allclose(np.array(correction.gains)[:, 0], 1 / np.array(gains), rtol=GAIN_ERROR)


def test_the_middle_image_is_the_reference(scene):
    correction = estimate_exposure(stack_arrays(list(scene)))

    assert correction.reference == 2
    assert correction.is_identity(2)


def test_correction_evens_out_a_flickering_stack(scene):
    stack = stack_arrays([(image * gain * 255).astype(np.uint8) for image, gain in zip(scene, (1.1, 1.0, 0.8, 0.95), strict=True)])
    corrected = correct_stack(stack, estimate_exposure(stack))

    def spread(source):
        means = [ndimage.uniform_filter(source.read(number, WHOLE).astype(float), (61, 61, 0)).mean() for number in range(4)]
        return np.ptp(means)

    assert spread(corrected) < 0.15 * spread(stack)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
@pytest.mark.parametrize("channels", [(), (3,)])
def test_samples_are_scaled_rounded_and_clipped_once(dtype, channels):
    image = (np.random.default_rng(1).random((*SHAPE, *channels)) * 255).astype(dtype)
    n_channels = channels[0] if channels else 1
    gains = tuple(1.25 + 0.25 * channel for channel in range(n_channels))
    stack = correct_stack(stack_arrays([image, image]), correct(((1.0,) * n_channels, gains), ((0.0,) * n_channels, (-3.5,) * n_channels)))
    expected = image.astype(np.float64) * (np.array(gains) if channels else gains[0]) - 3.5
    if np.dtype(dtype).kind == "u":
        expected = np.clip(np.rint(expected), 0, np.iinfo(dtype).max)

    samples = stack.read(1, WHOLE)

    assert isinstance(stack, Stack)
    assert (samples.dtype, samples.shape) == (dtype, image.shape)
    np.testing.assert_array_equal(samples, expected.astype(dtype))
    np.testing.assert_array_equal(stack.read(0, WHOLE), image)
    window = Window(11, 7, 60, 130)
    np.testing.assert_array_equal(stack.read(1, window), samples[window.slices])


def test_wrappers_compose_either_way_and_can_be_sent_away():
    image = np.random.default_rng(4).integers(0, 200, (*SHAPE, 3), dtype=np.uint8)
    source = stack_arrays([image, image], names=("a", "b"))
    shift = ((1.0, 0.0, 5.0), (0.0, 1.0, -3.0), IDENTITY[2])
    transforms = Transforms(matrices=(IDENTITY, shift), model=TransformModel.TRANSLATION, image_shape=SHAPE, reference=0)
    correction = correct(((1.0,) * 3, (1.1,) * 3))
    one, other = correct_stack(align_stack(source, transforms), correction), align_stack(correct_stack(source, correction), transforms)

    np.testing.assert_array_equal(one.read(1, WHOLE), other.read(1, WHOLE))
    np.testing.assert_array_equal(one.valid(1, WHOLE), other.valid(1, WHOLE))
    assert one.valid(1, WHOLE).sum() == (160 - 3) * (200 - 5)
    assert one.names == other.names == ("a", "b")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(one)).read(1, WHOLE), one.read(1, WHOLE))


def test_images_with_nothing_in_common_are_told():
    dark, bright = np.zeros((40, 50)), np.ones((40, 50))
    correction = estimate_exposure(stack_arrays([dark, bright], names=("dark", "bright")))

    assert correction.gains == ((1.0,), (1.0,))
    (warning,) = correction.warnings
    assert warning.startswith("dark and bright have too little in common to compare their exposure; they are taken as equally exposed")


@pytest.mark.parametrize("reference", [-1, 4])
def test_a_reference_outside_the_stack_is_refused(scene, reference):
    with pytest.raises(InvalidConfigError, match=f"image {reference} was given as the reference, counted from 0; the stack has 4"):
        estimate_exposure(stack_arrays(list(scene)), reference=reference)


@pytest.mark.parametrize(
    ("gains", "offsets"),
    [
        (((0.0,),), ((0.0,),)),
        (((np.nan,),), ((0.0,),)),
        (((1.0,),), ((np.inf,),)),
        (((1.0,),), ((0.0, 0.0),)),
        (((1.0,), (1.0, 1.0)), ((0.0,), (0.0, 0.0))),
    ],
)
def test_numbers_that_are_no_exposure_are_refused(gains, offsets):
    with pytest.raises(InvalidConfigError, match="as many finite offsets as positive gains, for each image and channel one, are needed"):
        ExposureCorrection(gains=gains, offsets=offsets, reference=0)


@pytest.mark.parametrize("gains", [((1.0,) * 3,), ((1.0,), (1.0,))])
def test_a_correction_of_another_stack_is_refused(scene, gains):
    with pytest.raises(InvalidConfigError, match=r"the correction is for \d images with \d channels and the stack has 2 with 3"):
        correct_stack(stack_arrays(list(scene[:2])), correct(gains))


def test_a_channel_of_one_value_stays_as_it_is(scene):
    stack = [np.dstack([image[..., 0], np.zeros(SHAPE)]) * gain for image, gain in zip(scene[:2], (1.0, 0.8), strict=True)]

    correction = estimate_exposure(stack_arrays(stack), reference=0)

    assert correction.warnings == ()
    assert (correction.gains[1][1], correction.offsets[1][1]) == (1, 0)
    np.testing.assert_allclose(correction.gains[1][0], 1 / 0.8, rtol=GAIN_ERROR)


def test_a_correction_can_be_spread_over_more_channels():
    correction = ExposureCorrection(gains=((1, 1, 1), (2, 3, 1)), offsets=((0, 0, 0), (4, 5, 0)), reference=0)

    spread = correction.for_channels((3, 0, -1), 4)

    assert spread.gains == ((1, 1, 1, 1), (3, 1, 1, 2))
    assert spread.offsets == ((0, 0, 0, 0), (5, 0, 0, 4))


def test_an_image_without_contrast_is_compared_by_its_brightness_alone():
    ramp = np.broadcast_to(np.linspace(0.1, 0.9, SHAPE[1]), SHAPE)
    flat = np.full(SHAPE, 0.5)

    correction = estimate_exposure(stack_arrays([ramp, flat, 0.9 * flat]), reference=1)

    np.testing.assert_allclose(correction.gains[2], 1 / 0.9, rtol=GAIN_ERROR)
    assert np.isfinite(correction.gains).all()


def test_images_without_light_are_taken_as_equally_exposed(scene):
    dark = np.zeros((*SHAPE, 3))

    correction = estimate_exposure(stack_arrays([scene[0] - 0.5, dark, dark]), reference=1)

    assert correction.gains[2] == (1, 1, 1)
    assert len(correction.warnings) >= 1
