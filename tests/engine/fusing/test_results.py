"""Parts of a stack, and results of parts, are stacks that keep what the original says."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from qmcif_engine.fusing.results import FusedSlabs, StackPart
from qmcif_engine.io.output.windowed_image import ArrayImage
from qmcif_engine.stack.image_metadata import ImageMetadata
from qmcif_engine.stack.stack import ArrayStack, Stack
from qmcif_engine.stack.window import Window

WINDOW = Window(1, 0, 3, 2)


class Moved(ArrayStack):
    """Has pixels that are missing: image n lacks the first n columns."""

    metadata = ImageMetadata(z_step=2.0)
    sources = (Path("a.tif"),)
    has_validity = True

    def valid(self, number, window):
        return np.arange(window.left, window.right)[None] >= number * np.ones((window.shape[0], 1))


@pytest.fixture
def images():
    return list(np.arange(5 * 4 * 6, dtype=np.uint8).reshape(5, 4, 6))


def test_a_part_shows_its_images_under_new_numbers(images):
    part = StackPart(ArrayStack(images), range(2, 5))

    assert isinstance(part, Stack)
    assert (part.n_images, part.image_shape, part.dtype) == (3, (4, 6), np.uint8)
    assert part.names == ("image 3", "image 4", "image 5")
    np.testing.assert_array_equal(part.read(0, WINDOW), images[2][WINDOW.slices])
    assert not part.has_validity


def test_what_goes_with_the_images_is_cut_too(images):
    stack = Moved(images)
    stack.companions = ArrayStack([image + 100 for image in images])
    part = pickle.loads(pickle.dumps(StackPart(stack, range(1, 3))))  # as a cluster does

    np.testing.assert_array_equal(part.companions.read(1, WINDOW), images[2][WINDOW.slices] + 100)
    np.testing.assert_array_equal(part.valid(0, Window(0, 0, 1, 3)), [[False, True, True]])
    assert part.alpha is None
    assert (part.metadata.z_step, part.sources) == (2.0, (Path("a.tif"),))


def as_results(images):
    return [ArrayImage(image) for image in images]


def test_a_slab_has_the_pixels_that_any_of_its_images_has(images):
    fused = FusedSlabs(Moved(images), [range(1, 3), range(3, 5)], as_results(images[:2]))

    np.testing.assert_array_equal(fused.valid(0, Window(0, 0, 1, 5)), [[False, True, True, True, True]])
    np.testing.assert_array_equal(fused.valid(1, Window(0, 0, 1, 5)), [[False, False, False, True, True]])
    assert (fused.n_images, fused.metadata.z_step, fused.sources) == (2, 2.0, (Path("a.tif"),))
    np.testing.assert_array_equal(fused.read(1, WINDOW), images[1][WINDOW.slices])


def test_channels_of_slabs_go_with_them(images):
    stack = ArrayStack(images)
    stack.companions = ArrayStack([image + 100 for image in images])
    fused = FusedSlabs(stack, [range(2), range(2, 5)], as_results(images[:2]), as_results(images[3:]))

    np.testing.assert_array_equal(fused.companions.read(1, WINDOW), images[4][WINDOW.slices])
    assert fused.alpha is None


def test_slabs_of_a_stack_without_gaps_have_none(images):
    assert not FusedSlabs(ArrayStack(images), [range(2), range(2, 5)], as_results(images[:2])).has_validity
