from __future__ import annotations

import pickle

import dask
import dask.array as da
import numpy as np
import pytest
from dask.callbacks import Callback

from qmcif_engine.errors import InvalidImageError
from qmcif_engine.io.input.array_source import guess_axes
from qmcif_engine.io.input.open import open_stack
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


WINDOW = Window(3, 5, 17, 20)


def deep_noise(*shape: int) -> np.ndarray:
    return (np.random.default_rng(0).random(shape) * 250).astype(np.uint16)


@pytest.mark.parametrize("chunks", [(1, 20, 24), (5, 20, 24), (2, 7, 11), (5, 1, 24)])
def test_windows_are_those_of_the_array_whatever_its_chunks(chunks):
    array = deep_noise(5, 20, 24)
    stack = open_stack(da.from_array(array, chunks=chunks))
    assert stack.n_images == 5
    for number in range(5):
        np.testing.assert_array_equal(stack.read(number, WINDOW), array[number, 3:17, 5:20])


def test_a_list_of_arrays_is_a_stack():
    array = deep_noise(3, 20, 24, 3)
    stack = open_stack([da.from_array(image, chunks=(10, 10, 3)) for image in array])
    assert stack.names == ("image 1", "image 2", "image 3")
    np.testing.assert_array_equal(stack.read(2, WINDOW), array[2, 3:17, 5:20])


def test_only_blocks_that_a_window_touches_are_computed_and_none_at_opening():
    computed = []

    def block(block_info=None):
        computed.append(block_info[None]["chunk-location"])
        return np.zeros((1, 10, 10), np.uint8)

    array = da.map_blocks(block, chunks=((1,) * 4, (10,) * 3, (10,) * 3), dtype=np.uint8, meta=np.empty((0, 0, 0), np.uint8))
    computed.clear()
    stack = open_stack(array)
    assert computed == []
    stack.read(2, Window(5, 12, 9, 18))
    assert computed == [(2, 0, 1)]


def test_callbacks_and_schedulers_of_the_user_are_left_alone():
    started = []
    stack = open_stack(da.from_array(deep_noise(3, 20, 24), chunks=10))
    with Callback(start=lambda _graph: started.append(1)), dask.config.set(scheduler=None):
        stack.read(0, WINDOW)
    assert started == []


def test_a_copy_computes_the_same():
    array = deep_noise(3, 20, 24)
    copy = pickle.loads(pickle.dumps(open_stack(da.from_array(array, chunks=10))))
    np.testing.assert_array_equal(copy.read(1, WINDOW), array[1, 3:17, 5:20])


def test_axes_are_named_by_the_user():
    array = deep_noise(3, 2, 4, 20, 24)
    stack = open_stack(da.from_array(array, chunks=10), axes="CTZYX", time=1)
    assert stack.n_times == 2
    np.testing.assert_array_equal(stack.read(3, WINDOW), array[:, 1, 3, 3:17, 5:20].transpose(1, 2, 0))


def test_unknown_lengths_are_refused():
    array = da.from_array(deep_noise(5, 20, 24), chunks=10)
    with pytest.raises(
        InvalidImageError, match=r"a dask array of unknown shape .* was given; known lengths are needed: call compute_chunk"
    ):
        open_stack(array[array[:, 0, 0] > 1000])
