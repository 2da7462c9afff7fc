import numpy as np
import pytest

from qmcif_engine.stack import ArrayStack, Stack
from qmcif_engine.window import Window


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


@pytest.mark.parametrize("change", ["sample", "order", "type", "shape"])
def test_the_fingerprint_changes_with_the_samples_and_only_with_them(change):
    images = make_images()
    before = ArrayStack(images).fingerprint()
    assert ArrayStack([image.copy() for image in images], names=("a", "b", "c")).fingerprint() == before

    changed = [image.copy() for image in images]
    if change == "sample":
        changed[1][299, 19, 2] ^= 1
    elif change == "order":
        changed = changed[::-1]
    elif change == "type":
        changed = [image.view(np.uint16) if image.shape[-1] % 2 == 0 else image.astype(np.uint16) for image in changed]
    else:
        changed = [image.reshape(20, 300, 3) for image in changed]
    assert ArrayStack(changed).fingerprint() != before
