import pickle
from pathlib import Path

import numpy as np
import pytest

from qmcif_engine.errors import Cancelled, InvalidImageError
from qmcif_engine.slabs.parts import StackPart
from qmcif_engine.stack.alignment.transforms import IDENTITY, TransformModel, Transforms
from qmcif_engine.stack.alignment.warping import AlignedStack
from qmcif_engine.stack.exposure import CorrectedStack, ExposureCorrection
from qmcif_engine.stack.image_metadata import ImageMetadata
from qmcif_engine.stack.preparation import PreparedStack
from qmcif_engine.stack.separate_channels import EachChannel
from qmcif_engine.stack.stack import (
    N_SAMPLED_WINDOWS,
    ArrayStack,
    Stack,
    StackView,
    check_number,
    companions_of,
    sample_stack,
    settle_range,
)
from qmcif_engine.stack.window import Window


def make_images(n_images=3, shape=(300, 20, 3)):
    return list(np.random.default_rng(1).integers(0, 255, (n_images, *shape), dtype=np.uint8))


def test_arrays_are_a_stack_that_is_read_by_window():
    images = make_images()
    stack = ArrayStack(images)

    assert isinstance(stack, Stack)
    assert (stack.n_images, stack.image_shape, stack.dtype) == (3, (300, 20, 3), np.uint8)
    assert stack.names == ("image 1", "image 2", "image 3")
    np.testing.assert_array_equal(stack.read(2, Window(5, 6, 9, 11)), images[2][5:9, 6:11])


def test_names_can_be_given():
    assert ArrayStack(make_images(2), names=("near", "far")).names == ("near", "far")


def test_every_sample_of_a_small_stack_settles_its_focus_range():
    images = make_images()

    np.testing.assert_array_equal(sample_stack(ArrayStack(images)), images)


def test_windows_spread_over_all_of_a_large_stack_settle_its_focus_range():
    places = []

    class Claimed(Stack):
        n_images, image_shape, dtype, names = 40, (3000, 5000), np.dtype(np.uint8), ("image",) * 40

        def read(self, number, window):
            places.append((number, window))
            return np.zeros(window.shape, np.uint8)

    samples = sample_stack(Claimed())

    assert len(samples) == N_SAMPLED_WINDOWS
    assert {number for number, _ in places} == set(range(40))
    is_seen = np.zeros((8, 8), bool)
    for _, window in places:
        assert window.bottom <= 3000
        assert window.right <= 5000
        is_seen[window.top * 8 // 3000, window.left * 8 // 5000] = True
    assert is_seen.all()


def test_the_range_is_that_given_or_that_of_the_bits_or_that_of_the_samples():
    class Described(ArrayStack):
        metadata = ImageMetadata(significant_bits=12)

    dark = [np.full((8, 8), 100, np.uint16), np.full((8, 8), 300, np.uint16)]
    bright = [np.full((8, 8), 100, np.uint16), np.full((8, 8), 5000, np.uint16)]

    assert settle_range(Described(dark), (1, 2)) == (1, 2)
    assert settle_range(Described(dark), None) == (0, 4095)
    assert settle_range(Described(bright), None) == (100, 5000)  # the samples contradict the claim
    assert settle_range(ArrayStack(dark), None) == (100, 300)


def test_channels_recorded_one_by_one_have_a_range_each_whatever_their_bits_and_colors_share_one():
    class Dyes(ArrayStack):
        n_separate_channels = 2
        metadata = ImageMetadata(significant_bits=12)

    image = np.zeros((8, 8, 3), np.uint16)
    image[:4, :, 0], image[:4, :, 1] = 4000, 30
    images = [image, image[::-1]]

    assert settle_range(Dyes(images), None) == ((0, 4000), (0, 30))
    assert settle_range(Dyes(images), (1, 2)) == (1, 2)
    assert settle_range(Dyes(images), [(1, 2), (3, 4)]) == ((1, 2), (3, 4))
    assert settle_range(ArrayStack(images), None) == (0, 4000)
    assert settle_range(ArrayStack(images), [(0, 1), (0, 2), (0, 3)]) == ((0, 1), (0, 2), (0, 3))


def counted(images, **attributes):
    """A stack that counts how often an image is read."""

    class Counted(ArrayStack):
        n_reads = 0

        def read(self, number, window):
            self.n_reads += 1
            return super().read(number, window)

    stack = Counted(images)
    for name, value in attributes.items():
        setattr(stack, name, value)
    return stack


def test_nan_is_refused_by_name():
    flawed = [np.zeros((8, 8)), np.full((8, 8), np.nan)]

    with pytest.raises(InvalidImageError, match="far holds NaN or infinite samples"):
        sample_stack(ArrayStack(flawed, names=("near", "far")))


@pytest.mark.parametrize(("n_images", "given"), [(0, "0 images were given"), (1, "1 image was given")])
def test_fewer_than_two_images_are_refused(n_images, given):
    with pytest.raises(InvalidImageError, match=f"{given}; at least 2"):
        check_number(ArrayStack(make_images(n_images)))


def test_all_channels_follow_where_some_decide_and_otherwise_alpha_does():
    class WithPlanes(ArrayStack):
        alpha = companions = None

    stack, alpha, channels = WithPlanes(make_images()), ArrayStack(make_images()), ArrayStack(make_images())
    assert companions_of(stack) is None
    stack.alpha = alpha
    assert companions_of(stack) is alpha
    stack.companions = channels
    assert companions_of(stack) is channels
    assert companions_of(ArrayStack(make_images())) is None


def test_a_view_says_of_itself_what_the_stack_behind_it_says():
    stack = ArrayStack(make_images(), names=("near", "middle", "far"))
    view = StackView(stack)

    assert (view.n_images, view.image_shape, view.dtype, view.names) == (3, (300, 20, 3), np.uint8, ("near", "middle", "far"))


def test_a_stack_has_nothing_that_it_was_not_given():
    stack = ArrayStack(make_images())

    assert (stack.alpha, stack.companions, stack.transforms, stack.correction, stack.each_channel()) == (None,) * 5
    assert (stack.sources, stack.frame_numbers, stack.deciding_channels, stack.scratch_bytes) == ((), (), (), 0)
    assert stack.metadata == ImageMetadata()
    assert (stack.has_validity, stack.decides_each, stack.n_separate_channels) == (False, False, 0)
    assert stack.valid(0, Window(0, 0, 2, 3)).tolist() == [[True] * 3] * 2


def test_a_class_that_gives_no_samples_is_no_stack():
    class Unfinished(Stack):
        n_images, image_shape, dtype, names = 2, (4, 4), np.dtype(np.uint8), ("a", "b")

    with pytest.raises(TypeError, match=r"abstract method '?read"):
        Unfinished()


def correct(n_images, gain):
    return ExposureCorrection(gains=((gain,) * 3,) * n_images, offsets=((0.0,) * 3,) * n_images, reference=0)


def keep_still(n_images, shape):
    return Transforms(matrices=(IDENTITY,) * n_images, model=TransformModel.AFFINE, image_shape=shape[:2], reference=0)


class Full(ArrayStack):
    """A stack with everything that a stack may have."""

    def __init__(self, images):
        super().__init__(images)
        self.metadata, self.sources, self.frame_numbers = ImageMetadata(z_step=2.0), (Path("a.tif"),), tuple(range(5, 5 + len(images)))
        self.alpha, self.companions = ArrayStack([image[..., 0] // 2 for image in images]), ArrayStack([255 - image for image in images])
        self.deciding_channels, self.n_separate_channels, self.decides_each = (0, 1, 2), 3, True
        self.has_validity, self.scratch_bytes, self.whole_bytes = True, 77, 88
        self.transforms, self.correction = keep_still(len(images), images[0].shape), correct(len(images), 1.0)

    def valid(self, number, window):
        return np.full(window.shape, number == 1)


@pytest.mark.parametrize("name", sorted(Stack.__annotations__))
def test_a_view_hands_on_whatever_a_stack_declares(name):
    full = Full(make_images())
    value = getattr(full, name)

    assert value != getattr(ArrayStack(make_images()), name)  # else the test would show nothing
    assert getattr(StackView(full), name) is value


VIEWS = {
    "plain": StackView,
    "each channel": EachChannel,
    "part": lambda stack: StackPart(stack, range(1, 3)),
    "aligned": lambda stack: AlignedStack(stack, keep_still(3, stack.image_shape)),
    "corrected": lambda stack: CorrectedStack(stack, correct(3, 2.0)),
    "prepared": lambda stack: PreparedStack(stack, transforms=keep_still(3, stack.image_shape), correction=correct(3, 2.0)),
    "cut": lambda stack: stack.cut(Window.whole(stack.image_shape)),
    "watched": lambda stack: stack.watched(lambda: None),
}


@pytest.mark.parametrize("show", VIEWS.values(), ids=VIEWS)
def test_every_view_keeps_what_it_does_not_change(show):
    full = Full(make_images())
    view = pickle.loads(pickle.dumps(show(full)))  # as a cluster does
    numbers = range(1, 3) if view.n_images == 2 else range(3)

    assert (view.metadata, view.sources, view.scratch_bytes) == (full.metadata, full.sources, 77)
    assert view.frame_numbers == tuple(5 + number for number in numbers)
    assert (view.deciding_channels, view.n_separate_channels, view.decides_each, view.has_validity) == ((0, 1, 2), 3, True, True)
    window = Window.whole(full.image_shape)
    for number, original in enumerate(numbers):
        np.testing.assert_array_equal(view.alpha.read(number, window), full.alpha.read(original, window))
        assert view.companions.read(number, window).shape == full.image_shape
        assert view.valid(number, window).all() == (original == 1)


def test_every_window_of_a_watched_stack_asks_first_those_of_further_channels_too():
    full, asked = Full(make_images()), []
    watched, window = full.watched(lambda: asked.append(1)), Window(0, 0, 2, 3)

    np.testing.assert_array_equal(watched.read(1, window), full.read(1, window))
    watched.companions.read(0, window)
    watched.alpha.read(0, window)

    assert asked == [1, 1, 1]


def test_nothing_is_read_of_a_watched_stack_once_the_work_shall_end():
    def refuse():
        raise Cancelled

    with pytest.raises(Cancelled):
        ArrayStack(make_images()).watched(refuse).read(0, Window(0, 0, 1, 1))


def test_a_watched_stack_is_the_plain_one_in_another_process():
    stack = ArrayStack(make_images())

    assert type(pickle.loads(pickle.dumps(stack.watched(lambda: None)))) is ArrayStack


def test_a_rectangle_is_a_stack_of_its_own():
    full = Full(make_images())
    cut, window, behind = full.cut(Window(1, 2, 5, 8)), Window(0, 0, 2, 3), Window(1, 2, 3, 5)

    assert (cut.n_images, cut.image_shape) == (3, (4, 6, 3))
    np.testing.assert_array_equal(cut.read(1, window), full.read(1, behind))
    np.testing.assert_array_equal(cut.companions.read(1, window), full.companions.read(1, behind))
    assert cut.valid(1, window).all()


def test_channels_that_decide_are_corrected_among_all_channels():
    images = [image // 4 for image in make_images()]
    stack = ArrayStack([image[..., [2, 0]] for image in images])
    stack.companions, stack.deciding_channels = ArrayStack(images), (2, 0)
    correction = ExposureCorrection(gains=((1.0, 1.0), (3.0, 2.0), (1.0, 1.0)), offsets=((0.0, 0.0),) * 3, reference=0)

    corrected = CorrectedStack(stack, correction).companions.read(1, Window.whole(stack.image_shape))

    np.testing.assert_array_equal(corrected, images[1] * np.array([2, 1, 3], np.uint8))
