"""Views of a stack: one that asks before it reads, and one that shows a part."""

import pickle

import numpy as np
import pytest

from napari_qmcif.preview_area import Area
from napari_qmcif.stack_views import CutStack, WatchedStack
from qmcif_engine import Cancelled, Window, open_stack


@pytest.fixture
def stack():
    samples = np.arange(2 * 6 * 8 * 4, dtype=np.uint16).reshape(2, 6, 8, 4)
    return open_stack(list(samples), axes="YXS", channels=[1, 2, 3])


def test_every_window_asks_first_those_of_further_channels_too(stack):
    asked = []
    watched = WatchedStack(stack, lambda: asked.append(1))

    np.testing.assert_array_equal(watched.read(1, Window(0, 0, 2, 3)), stack.read(1, Window(0, 0, 2, 3)))
    watched.companions.read(0, Window(0, 0, 1, 1))

    assert asked == [1, 1]


def test_nothing_is_read_once_the_work_shall_end(stack):
    def refuse():
        raise Cancelled

    with pytest.raises(Cancelled):
        WatchedStack(stack, refuse).read(0, Window(0, 0, 1, 1))


def test_in_another_process_it_is_the_plain_stack(stack):
    sent = pickle.loads(pickle.dumps(WatchedStack(stack, lambda: None)))

    assert type(sent) is type(stack)
    np.testing.assert_array_equal(sent.read(1, Window(0, 0, 2, 3)), stack.read(1, Window(0, 0, 2, 3)))


def test_a_part_is_a_stack_of_its_own(stack):
    cut = CutStack(stack, Area(1, 2, 5, 8))

    assert (cut.n_images, cut.image_shape) == (2, (4, 6, 3))
    np.testing.assert_array_equal(cut.read(1, Window(0, 0, 2, 3)), stack.read(1, Window(1, 2, 3, 5)))
    np.testing.assert_array_equal(cut.companions.read(1, Window(0, 0, 2, 3)), stack.companions.read(1, Window(1, 2, 3, 5)))
    assert cut.valid(0, Window(0, 0, 2, 3)).shape == (2, 3)
