"""A stack as one lazy array."""

import pickle

import numpy as np
import pytest

from qmcif_engine import make_focus_stack, open_stack, write_image
from qmcif_engine.stack import lazy_stack
from qmcif_engine.stack.stack import ArrayStack


@pytest.mark.parametrize("is_color", [True, False])
def test_the_array_holds_the_samples_of_the_files_in_order(tmp_path, monkeypatch, is_color):
    monkeypatch.setattr(lazy_stack, "CHUNK_SIDE_PX", 16)
    images = make_focus_stack(n_images=3, shape=(20, 33), is_color=is_color, dtype=np.uint16).images
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for path, image in zip(paths, images, strict=True):
        write_image(path, image)

    array = open_stack(paths).to_dask()

    assert array.chunks[:3] == ((1, 1, 1), (16, 4), (16, 16, 1))
    assert array.dtype == np.uint16
    np.testing.assert_array_equal(array.compute(), images)


def test_only_the_windows_that_are_asked_for_are_read(monkeypatch):
    monkeypatch.setattr(lazy_stack, "CHUNK_SIDE_PX", 16)
    read = []

    class Watched(ArrayStack):
        def read(self, number, window):
            read.append((number, *window))
            return super().read(number, window)

    array = Watched(list(np.zeros((3, 40, 40), np.uint8))).to_dask()
    assert read == []

    array[1, 16:20, 0:5].compute()

    assert read == [(1, 16, 0, 32, 16)]


def test_the_array_can_be_sent_to_another_process(tmp_path):
    images = make_focus_stack(shape=(16, 16)).images
    for number, image in enumerate(images):
        write_image(tmp_path / f"{number}.tif", image)

    sent = pickle.loads(pickle.dumps(open_stack(tmp_path).to_dask()))

    np.testing.assert_array_equal(sent.compute(), images)
