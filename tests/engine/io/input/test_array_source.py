from __future__ import annotations

import numpy as np
import pytest

from qmcif_engine.errors import InvalidImageError
from qmcif_engine.io.input.array_source import guess_axes
from qmcif_engine.io.input.stack_input import open_stack
from qmcif_engine.stack.window import Window

WINDOW = Window(3, 5, 17, 20)


def noise(*shape: int) -> np.ndarray:
    return (np.random.default_rng(0).random(shape) * 250).astype(np.uint8)


def test_one_array_is_a_stack_along_its_first_axis():
    array = noise(4, 20, 24, 3)
    stack = open_stack(array)
    assert stack.names[1] == "image 2 of the array"
    np.testing.assert_array_equal(stack.read(1, WINDOW), array[1, 3:17, 5:20])


def test_what_is_read_is_no_view_of_the_array():
    array = noise(4, 20, 24)
    stack = open_stack(array)
    stack.read(1, WINDOW)[...] = 0
    assert stack.read(1, WINDOW).any()


@pytest.mark.parametrize("axes", ["ZCSYX", "YXCSZ", "SYZXC"])
def test_axes_may_be_in_any_order(axes):
    lengths = {"Z": 4, "C": 3, "S": 2, "Y": 20, "X": 24}
    array = noise(*(lengths[axis] for axis in axes))
    plain = array.transpose([axes.index(axis) for axis in "ZYXCS"]).reshape(4, 20, 24, 6)
    stack = open_stack(array, axes=axes, channels=[6, 1, 4])
    np.testing.assert_array_equal(stack.read(2, WINDOW), plain[2, 3:17, 5:20][..., [5, 0, 3]])
    assert stack.companions is not None
    np.testing.assert_array_equal(stack.companions.read(2, WINDOW), plain[2, 3:17, 5:20])


@pytest.mark.parametrize(
    ("shape", "is_image", "axes"),
    [((4, 20, 24), False, "QYX"), ((4, 20, 24, 3), False, "QYXS"), ((20, 24), True, "YX"), ((20, 24, 3), True, "YXS")],
)
def test_axes_follow_from_the_shape_where_it_is_clear(shape, is_image, axes):
    assert guess_axes("it", shape, is_image=is_image) == axes


@pytest.mark.parametrize(
    ("shape", "is_image"),
    [((20, 24, 3), False), ((20, 24), False), ((2, 3, 4, 20, 24), False), ((4, 20, 24), True), ((5,), True), ((), False)],
)
def test_other_shapes_need_names(shape, is_image):
    with pytest.raises(InvalidImageError, match=r"it has shape .* is needed: name the axes with axes=, for example axes='TCZYX'"):
        guess_axes("it", shape, is_image=is_image)


def test_what_is_no_array_is_refused():
    with pytest.raises(InvalidImageError, match="image 2 is a float; a path, a NumPy array or a dask array is needed: convert it"):
        open_stack([noise(20, 24), 3.5])


def test_big_endian_arrays_are_read_in_native_order():
    array = noise(3, 20, 24).astype(">u2")
    stack = open_stack(array)
    assert stack.dtype.isnative
    samples = stack.read(0, WINDOW)
    assert samples.dtype.isnative
    np.testing.assert_array_equal(samples, array[0, 3:17, 5:20])
