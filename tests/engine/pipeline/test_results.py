"""Results of slabs are a stack with what the original says of itself."""

from pathlib import Path

import numpy as np
import pytest

from qmcif_engine.io.output.windowed_image import ArrayImage
from qmcif_engine.pipeline.results import stack_slabs
from qmcif_engine.stack.image_metadata import ImageMetadata
from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.stack.window import Window
from tests.scenes import lacking_stack

WINDOW = Window(1, 0, 3, 2)


@pytest.fixture
def images():
    return list(np.arange(5 * 4 * 6, dtype=np.uint8).reshape(5, 4, 6))


def as_results(images):
    return [ArrayImage(image) for image in images]


def test_a_slab_has_the_pixels_that_any_of_its_images_has(images):
    lacking = lacking_stack(images, range(5), metadata=ImageMetadata(z_step=2.0), sources=(Path("a.tif"),))
    fused = stack_slabs(lacking, [range(1, 3), range(3, 5)], as_results(images[:2]))

    np.testing.assert_array_equal(fused.valid(0, Window(0, 0, 1, 5)), [[False, True, True, True, True]])
    np.testing.assert_array_equal(fused.valid(1, Window(0, 0, 1, 5)), [[False, False, False, True, True]])
    assert (fused.n_images, fused.metadata.z_step, fused.sources) == (2, 2.0, (Path("a.tif"),))
    np.testing.assert_array_equal(fused.read(1, WINDOW), images[1][WINDOW.slices])


def test_channels_of_slabs_go_with_them(images):
    stack = stack_arrays(images).replaced(companions=stack_arrays([image + 100 for image in images]))
    fused = stack_slabs(stack, [range(2), range(2, 5)], as_results(images[:2]), as_results(images[3:]))

    np.testing.assert_array_equal(fused.companions.read(1, WINDOW), images[4][WINDOW.slices])
    assert fused.alpha is None


def test_slabs_of_a_stack_without_gaps_have_none(images):
    assert not stack_slabs(stack_arrays(images), [range(2), range(2, 5)], as_results(images[:2])).has_validity
