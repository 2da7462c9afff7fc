from __future__ import annotations

import pytest

from qmcif_engine.errors import InvalidConfigError, InvalidImageError
from qmcif_engine.io.input.frame_source import FramePosition
from qmcif_engine.io.metadata.axes import name_axes, plan_axes


@pytest.mark.parametrize(
    ("axes", "shape", "stack", "n_frames", "n_times", "n_channels"),
    [
        ("ZYX", (5, 8, 9), "Z", 5, 1, 1),
        ("TZCYX", (2, 5, 3, 8, 9), "Z", 5, 2, 3),
        ("CTZYXS", (2, 4, 5, 8, 9, 3), "Z", 5, 4, 6),
        ("TYX", (7, 8, 9), "T", 7, 1, 1),
        ("TZYX", (7, 1, 8, 9), "T", 7, 1, 1),
        ("QYXS", (7, 8, 9, 3), "Q", 7, 1, 3),
        ("IZYX", (1, 6, 8, 9), "Z", 6, 1, 1),
        ("CYX", (3, 8, 9), "", 1, 1, 3),
    ],
)
def test_z_is_the_stack_and_else_the_only_long_axis(axes, shape, stack, n_frames, n_times, n_channels):
    plan = plan_axes("it", axes, shape)
    assert (plan.stack_axis, plan.n_frames, plan.n_times, plan.n_channels) == (stack, n_frames, n_times, n_channels)


@pytest.mark.parametrize(("axes", "shape"), [("TQYX", (2, 3, 8, 9)), ("QZYX", (2, 3, 8, 9)), ("RQYX", (2, 3, 8, 9))])
def test_two_axes_that_might_be_the_stack_are_refused(axes, shape):
    with pytest.raises(InvalidImageError, match=r"it has the axes .* x Y 8 x X 9; one axis to fuse along is needed: name them with axes="):
        plan_axes("it", axes, shape)


@pytest.mark.parametrize("axes", ["ZY", "ZZYX", "YYX"])
def test_axes_without_an_image_are_refused(axes):
    with pytest.raises(InvalidImageError, match="images along Y and X, each axis named once, are needed"):
        plan_axes("it", axes, (2, 3, 4, 5)[: len(axes)])


def test_an_empty_axis_is_refused():
    with pytest.raises(InvalidImageError, match="it has the axes Z 0 x Y 4 x X 5; at least one sample is needed"):
        plan_axes("it", "ZYX", (0, 4, 5))


def test_planes_are_numbered_in_the_order_they_are_stored():
    plan = plan_axes("it", "CTZYX", (2, 3, 4, 8, 9))
    assert plan.n_planes == 24
    assert plan.plane_number(FramePosition(time=2, number=3), 1) == 1 * 12 + 2 * 4 + 3
    assert plan.planes_at(1) == [4, 16, 5, 17, 6, 18, 7, 19]


def test_axes_named_by_the_user_go_before_those_found():
    assert name_axes("it", shape=(5, 8, 9), found="CYX", wanted="zyx") == ("ZYX", (5, 8, 9))
    assert name_axes("it", shape=(5, 8, 9), found="CYX", wanted=None) == ("CYX", (5, 8, 9))


def test_axes_of_length_one_need_not_be_named():
    axes, shape = name_axes("it", shape=(1, 5, 1, 8, 9, 1), found="TZCYXS", wanted="ZYX")

    assert shape == (1, 5, 1, 8, 9, 1)  # all are kept, for whoever reads a block
    assert axes[1] + axes[3:5] == "ZYX"
    assert len(set(axes)) == 6
    assert not set(axes) & set("TCS")


@pytest.mark.parametrize("wanted", ["Z", "ZYXY", "Z-YX", "", "ZÝX"])
def test_senseless_names_of_axes_are_refused(wanted):
    with pytest.raises(InvalidConfigError, match="are not usable; each axis once, Y and X among them, is needed: give for example 'ZYX'"):
        name_axes("it", shape=(5, 8, 9), found="CYX", wanted=wanted)


def test_a_wrong_number_of_names_is_refused():
    with pytest.raises(InvalidConfigError, match=r"it has shape \(5, 8, 9\) and 'TCZYX' names 5 axes; one letter for each axis is needed"):
        name_axes("it", shape=(5, 8, 9), found="CYX", wanted="TCZYX")


def test_frames_are_numbered_from_one_in_messages():
    assert plan_axes("it", "ZYX", (2, 8, 9)).name_frames("it") == ("image 1 of it", "image 2 of it")
    assert plan_axes("it", "YX", (8, 9)).name_frames("it") == ("it",)


def test_more_images_than_a_map_can_number_are_refused():
    assert plan_axes("it", "ZYX", (65535, 4, 5)).n_frames == 65535
    with pytest.raises(InvalidImageError, match="it has the axes Z 65536 x Y 4 x X 5; at most 65535 images are needed"):
        plan_axes("it", "ZYX", (65536, 4, 5))
