import pickle

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.stack.alignment.transforms import IDENTITY, TransformModel, Transforms, identity_transforms
from qmcif_engine.stack.alignment.warping import align_stack
from qmcif_engine.stack.stack import Stack, stack_arrays
from qmcif_engine.stack.window import Window

SHAPE = (90, 130)
WHOLE = Window(0, 0, *SHAPE)
TURNED = ((1.01, 0.02, 3.3), (-0.02, 1.01, -2.6), IDENTITY[2])
TILTED = ((1.01, 0.02, 3.3), (-0.02, 1.01, -2.6), (2e-4, -1e-4, 1.0))
WHOLE_SHIFT = ((1.0, 0.0, -7.0), (0.0, 1.0, 12.0), IDENTITY[2])
KERNEL_ERROR = 0.004  # of the range: what a Lanczos kernel leaves on detail of this size


def make_image(dtype=np.uint8, channels=()):
    scene = np.random.default_rng(3).random((*SHAPE, *channels))
    scene = ndimage.gaussian_filter(scene, (2, 2) + (0,) * len(channels))
    scene = (scene - scene.min()) / np.ptp(scene)
    return (scene * (np.iinfo(dtype).max if np.dtype(dtype).kind == "u" else 1000)).astype(dtype)


def align(*matrices, image=None):
    images = [make_image() if image is None else image] * (1 + len(matrices))
    model = TransformModel.HOMOGRAPHY if TILTED in matrices else TransformModel.AFFINE
    transforms = Transforms(matrices=(IDENTITY, *matrices), model=model, image_shape=SHAPE, reference=0)
    return align_stack(stack_arrays(images, names=[f"frame {number}" for number in range(len(images))]), transforms)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
@pytest.mark.parametrize("channels", [(), (3,), (5,)])
def test_an_aligned_stack_has_the_form_of_its_source(dtype, channels):
    image = make_image(dtype, channels)
    stack = align(TURNED, image=image)

    assert isinstance(stack, Stack)
    assert (stack.n_images, stack.image_shape, stack.dtype) == (2, image.shape, dtype)
    assert stack.names == ("frame 0", "frame 1")
    samples = stack.read(1, Window(5, 7, 40, 60))
    assert (samples.shape, samples.dtype) == ((35, 53, *channels), dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
@pytest.mark.parametrize("matrix", [TURNED, TILTED])
def test_resampling_agrees_with_a_spline(dtype, matrix):
    image = make_image(dtype)
    stack = align(matrix, image=image)
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]].astype(float)
    distance = matrix[2][0] * x + matrix[2][1] * y + 1
    places = [(-0.02 * x + 1.01 * y - 2.6) / distance, (1.01 * x + 0.02 * y + 3.3) / distance]
    expected = ndimage.map_coordinates(image.astype(float), places, order=5, mode="nearest")
    if np.dtype(dtype).kind == "u":
        expected = np.clip(expected, 0, np.iinfo(dtype).max)

    error = np.abs(stack.read(1, WHOLE).astype(float) - expected)[stack.valid(1, WHOLE)]

    assert error.max() <= KERNEL_ERROR * expected.max() + 0.5


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
@pytest.mark.parametrize("matrix", [TURNED, TILTED, WHOLE_SHIFT, ((1.0, 0.0, 0.5), (0.0, 1.0, 0.25), IDENTITY[2])])
def test_a_pixel_is_the_same_in_every_window(dtype, matrix):
    stack = align(matrix, image=make_image(dtype, (3,)))
    samples, is_valid = stack.read(1, WHOLE), stack.valid(1, WHOLE)

    for window in (Window(0, 0, 1, 1), Window(13, 29, 71, 100), Window(80, 100, 90, 130), Window(40, 0, 41, 130)):
        np.testing.assert_array_equal(stack.read(1, window), samples[window.slices])
        np.testing.assert_array_equal(stack.valid(1, window), is_valid[window.slices])


def test_slopes_are_exact_and_blocks_leave_no_seam():
    shape = (300, 1100)
    slope = np.add.outer(np.arange(shape[0]), np.arange(shape[1])).astype(np.float64)
    matrix = ((1.0, 0.001, 0.3), (-0.001, 1.0, 0.7), IDENTITY[2])
    transforms = Transforms(matrices=(IDENTITY, matrix), model=TransformModel.AFFINE, image_shape=shape, reference=0)
    stack = align_stack(stack_arrays([slope, slope]), transforms)
    y, x = np.mgrid[: shape[0], : shape[1]]

    window = Window(0, 0, *shape)
    error = np.abs(stack.read(1, window) - (x + 0.001 * y + 0.3 + y - 0.001 * x + 0.7))

    assert stack.valid(1, window).mean() > 0.95
    assert error[stack.valid(1, window)].max() <= 2 / 4096  # positions are rounded, in x and in y


def test_images_that_stay_are_handed_on_sample_by_sample():
    image = make_image(np.float32)
    stack = align(IDENTITY, image=image)

    np.testing.assert_array_equal(stack.read(1, WHOLE), image)
    assert stack.valid(1, WHOLE).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_whole_pixels_copy_samples_and_repeat_the_edge(dtype):
    image = make_image(dtype, (3,))
    stack = align(WHOLE_SHIFT, image=image)
    samples, is_valid = stack.read(1, WHOLE), stack.valid(1, WHOLE)

    np.testing.assert_array_equal(samples[:-12, 7:], image[12:, :-7])
    np.testing.assert_array_equal(samples[:-12, :7], np.broadcast_to(image[12:, :1], (78, 7, 3)))
    assert is_valid[:-12, 7:].all()
    assert is_valid.sum() == 78 * 123


def test_only_pixels_with_all_their_samples_are_valid():
    stack = align(((1.0, 0.0, 0.5), (0.0, 1.0, 0.0), IDENTITY[2]))
    is_valid = stack.valid(1, WHOLE)

    # six samples along a row, two before and three after; along a column none in between
    expected = np.zeros(SHAPE, bool)
    expected[:, 2:-3] = True
    np.testing.assert_array_equal(is_valid, expected)


def test_a_flat_image_stays_flat_and_has_no_edge_outside():
    image = np.full(SHAPE, 200, np.uint8)
    far = ((1.0, 0.0, 300.25), (0.0, 1.0, -200.5), IDENTITY[2])
    stack = align(TURNED, far, image=image)

    for number in (1, 2):
        np.testing.assert_array_equal(stack.read(number, WHOLE), image)
    assert not stack.valid(2, WHOLE).any()


def test_an_aligned_stack_can_be_aligned_again():
    half = ((1.0, 0.0, 0.5), (0.0, 1.0, 0.0), IDENTITY[2])
    inner = align(WHOLE_SHIFT)
    stack = align_stack(inner, Transforms(matrices=(IDENTITY, half), model=TransformModel.AFFINE, image_shape=SHAPE, reference=0))

    is_valid = stack.valid(1, WHOLE)

    assert is_valid[3:-16, 10:-4].all()
    assert not is_valid[:, :9].any()
    assert not is_valid[-12:].any()
    assert stack.valid(0, WHOLE).all()


def test_an_aligned_stack_can_be_sent_to_another_process():
    stack = align(TURNED)
    copy = pickle.loads(pickle.dumps(stack))

    np.testing.assert_array_equal(copy.read(1, WHOLE), stack.read(1, WHOLE))
    assert copy.transforms == stack.transforms


@pytest.mark.parametrize("transforms", [identity_transforms(3, SHAPE), identity_transforms(2, (90, 131))])
def test_transforms_of_another_stack_are_refused(transforms):
    with pytest.raises(InvalidConfigError, match=r"the transforms are for \d images of \d+ x 90 px and the stack has 2 of 130 x 90 px"):
        align_stack(stack_arrays([make_image()] * 2), transforms)
