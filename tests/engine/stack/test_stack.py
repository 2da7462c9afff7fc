import numpy as np
import pytest

from qmcif_engine.errors import InvalidImageError
from qmcif_engine.stack.noise import measure_noise, settle_range_and_noise
from qmcif_engine.stack.picture_metadata import PictureMetadata
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

    class Claimed:
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
        metadata = PictureMetadata(significant_bits=12)

    dark = [np.full((8, 8), 100, np.uint16), np.full((8, 8), 300, np.uint16)]
    bright = [np.full((8, 8), 100, np.uint16), np.full((8, 8), 5000, np.uint16)]

    assert settle_range(Described(dark), (1, 2)) == (1, 2)
    assert settle_range(Described(dark), None) == (0, 4095)
    assert settle_range(Described(bright), None) == (100, 5000)  # the samples contradict the claim
    assert settle_range(ArrayStack(dark), None) == (100, 300)


def test_channels_recorded_one_by_one_have_a_range_each_whatever_their_bits_and_colors_share_one():
    class Dyes(ArrayStack):
        n_separate_channels = 2
        metadata = PictureMetadata(significant_bits=12)

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


@pytest.mark.parametrize("given", [None, (0, 1000)])
def test_range_and_noise_are_settled_from_one_look_at_the_stack(given):
    images = [np.random.default_rng(number).normal(500, 40, (64, 64)).astype(np.float32) for number in range(3)]
    stack = counted(images)

    focus_range, noise_levels = settle_range_and_noise(stack, given)

    assert stack.n_reads == 3
    assert focus_range == settle_range(ArrayStack(images), given)
    assert noise_levels == (measure_noise(images, focus_range),)
    assert given is None or noise_levels[0] == pytest.approx(40 * 255 / 1000, rel=0.15)


def test_channels_that_are_decided_on_one_by_one_have_a_noise_each():
    generator = np.random.default_rng(0)
    images = [(500 + generator.normal(0, 1, (96, 96, 2)) * (5, 40)).astype(np.float32) for _ in range(3)]
    given = [(0, 1000), (0, 1000)]

    _, levels = settle_range_and_noise(counted(images, decides_each=True), given)
    _, one_level = settle_range_and_noise(counted(images), given)

    assert levels == pytest.approx((5 * 0.255, 40 * 0.255), rel=0.15)
    assert len(one_level) == 1


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
