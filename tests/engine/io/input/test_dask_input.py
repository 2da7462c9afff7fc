from __future__ import annotations

import pickle

import dask
import dask.array as da
import numpy as np
import pytest
from dask.callbacks import Callback

from qmcif_engine.errors import InvalidImageError
from qmcif_engine.io.input.stack_input import open_stack
from qmcif_engine.stack.window import Window

WINDOW = Window(3, 5, 17, 20)


def noise(*shape: int) -> np.ndarray:
    return (np.random.default_rng(0).random(shape) * 250).astype(np.uint16)


@pytest.mark.parametrize("chunks", [(1, 20, 24), (5, 20, 24), (2, 7, 11), (5, 1, 24)])
def test_windows_are_those_of_the_array_whatever_its_chunks(chunks):
    array = noise(5, 20, 24)
    stack = open_stack(da.from_array(array, chunks=chunks))
    assert stack.n_images == 5
    for number in range(5):
        np.testing.assert_array_equal(stack.read(number, WINDOW), array[number, 3:17, 5:20])


def test_a_list_of_arrays_is_a_stack():
    array = noise(3, 20, 24, 3)
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
    stack = open_stack(da.from_array(noise(3, 20, 24), chunks=10))
    with Callback(start=lambda _graph: started.append(1)), dask.config.set(scheduler=None):
        stack.read(0, WINDOW)
    assert started == []


def test_a_copy_computes_the_same():
    array = noise(3, 20, 24)
    copy = pickle.loads(pickle.dumps(open_stack(da.from_array(array, chunks=10))))
    np.testing.assert_array_equal(copy.read(1, WINDOW), array[1, 3:17, 5:20])


def test_axes_are_named_by_the_user():
    array = noise(3, 2, 4, 20, 24)
    stack = open_stack(da.from_array(array, chunks=10), axes="CTZYX", time=1)
    assert stack.n_times == 2
    np.testing.assert_array_equal(stack.read(3, WINDOW), array[:, 1, 3, 3:17, 5:20].transpose(1, 2, 0))


def test_unknown_lengths_are_refused():
    array = da.from_array(noise(5, 20, 24), chunks=10)
    with pytest.raises(
        InvalidImageError, match=r"a dask array of unknown shape .* was given; known lengths are needed: call compute_chunk"
    ):
        open_stack(array[array[:, 0, 0] > 1000])
