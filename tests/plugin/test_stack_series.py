"""What is chosen becomes one stack for each time point and channel, and results lie where they belong."""

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image, Labels

from napari_qmcif.layers_in import choose_series, list_axes
from qmcif_engine import InvalidImageError

AXES = ("t", "c", "z", "y", "x")


def make_layer(shape=(2, 3, 5, 6, 8), axes=AXES, name="cells", **options):
    return Image(np.zeros(shape, np.uint8), rgb=False, axis_labels=axes, name=name, **options)


def test_a_stack_or_images_are_one_fusion_whose_result_is_one_image():
    for layers in ([make_layer((5, 6, 8), AXES[2:])], [make_layer((6, 8), AXES[3:], name=name) for name in "ab"]):
        series = choose_series(layers)
        assert (len(series.titles), series.n_points, series.keeps_axes) == (1, 1, False)
        assert series.arrange([np.ones((6, 8))]).shape == (6, 8)


def test_channels_are_told_apart_and_all_points_in_time_are_there():
    series = choose_series([make_layer()])

    assert list(series.titles) == ["cells, c 0", "cells, c 1", "cells, c 2"]
    assert (series.n_points, series.n_fusions, series.kept_shape) == (2, 6, (2,))
    assert [stack.index[:2] for stack in series.stacks[1]] == [(0, 1), (1, 1)]
    assert series.first.note == ""


def test_where_the_sliders_stand_is_one_image_named_by_its_place():
    layer = make_layer()

    series = choose_series([layer], point=(1, 2, 0, 0, 0))

    assert (series.titles[0], series.n_fusions, series.keeps_axes) == ("cells, t 1, c 2", 1, False)
    assert "axis t at 1, axis c at 2" in series.first.note


def test_axes_without_names_are_all_kept():
    series = choose_series([Image(np.zeros((4, 2, 5, 6, 8), np.uint8), rgb=False, name="a")])

    assert (series.kept_shape, len(series.titles), series.n_points) == ((4, 2), 1, 8)
    assert series.arrange([np.full((6, 8), number) for number in range(8)]).shape == (4, 2, 1, 6, 8)


def test_several_stacks_are_channels_one_of_which_may_decide():
    layers = [make_layer((2, 5, 6, 8), ("t", "z", "y", "x"), name=name) for name in ("dapi", "gfp")]

    assert choose_series(layers).decided_by is None
    series = choose_series(layers, decide_by="gfp")

    assert (list(series.titles), series.decided_by, series.n_fusions) == (["dapi", "gfp"], 1, 2)


def test_stacks_of_different_size_are_refused():
    layers = [make_layer((5, 6, 8), AXES[2:], name="a"), make_layer((4, 6, 8), AXES[2:], name="b")]

    with pytest.raises(InvalidImageError, match=r"'a' has shape \(5, 6, 8\) and 'b' \(4, 6, 8\); stacks that are fused together are"):
        choose_series(layers)


def test_nothing_and_other_layers_are_refused():
    with pytest.raises(InvalidImageError, match="nothing is chosen; one stack, or two or more images of one scene, are needed"):
        choose_series([])
    with pytest.raises(InvalidImageError, match="'marks' is a labels layer"):
        choose_series([Labels(np.zeros((6, 8), int), name="marks"), make_layer((5, 6, 8), AXES[2:])])


def test_another_axis_can_be_fused_along():
    series = choose_series([make_layer((2, 5, 6, 8), ("t", "z", "y", "x"))], "t")

    assert (series.first.axis, series.first.n_images, series.kept_shape) == (0, 2, (5,))


@pytest.mark.parametrize("focus", [0, 1])
def test_sliders_show_each_result_at_its_place_wherever_the_focus_slider_stands(focus):
    viewer = ViewerModel()
    shape, axes = ((2, 5, 6, 8), ("t", "z", "y", "x")) if focus else ((5, 2, 6, 8), ("z", "t", "y", "x"))
    scale = (1, 4, 0.5, 0.5) if focus else (4, 1, 0.5, 0.5)
    layer = viewer.add_image(np.zeros(shape, np.uint8), rgb=False, axis_labels=axes, scale=scale, translate=(3, 3, 10, 20))
    series = choose_series([layer])
    fused = viewer.add_image(series.arrange([np.full((6, 8), time + 1, np.uint8) for time in range(2)]), rgb=False, **series.place(0))

    assert tuple(fused.axis_labels) == axes
    for time in range(2):
        for plane in range(5):
            step = (time, plane) if focus else (plane, time)
            viewer.dims.set_current_step((0, 1), step)
            np.testing.assert_allclose(viewer.dims.point[:2], np.array(step) * scale[:2] + 3)
            assert fused._slice.image.raw.ravel()[0] == time + 1, (time, plane)


def test_a_result_lies_at_its_channel():
    layer = make_layer(scale=(1, 2, 4, 0.5, 0.5))
    series = choose_series([layer])

    place = series.place(2)

    np.testing.assert_allclose(place["translate"], (0, 2 * 2, 4 * 2, 0, 0))
    np.testing.assert_allclose(place["scale"], (1, 2, 4 * 5, 0.5, 0.5))


def test_axes_are_called_by_their_names_or_numbers():
    assert list_axes(make_layer()) == list(AXES)
    assert list_axes(Image(np.zeros((2, 6, 8)), rgb=False)) == ["0", "1", "2"]
