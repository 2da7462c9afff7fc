"""Layers become stacks, channels and time points without a pixel being read, and results lie where their sources lie."""

import dask.array as da
import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image, Labels

from napari_qmcif.layers_in import WORKED_WITH, Placement, choose_layers, choose_planes, choose_series, guess_focus_axis, list_axes
from qmcif_engine import InvalidImageError, fuse

AXES = ("t", "c", "z", "y", "x")


def gray(shape=(6, 8), dtype=np.uint8, name="a", **look):
    return Image(np.zeros(shape, dtype), name=name, contrast_limits=(0, 1), rgb=False, **look)


def cells(shape=(2, 3, 5, 6, 8), axes=AXES, name="cells", **look):
    return gray(shape, name=name, axis_labels=axes, **look)


def test_several_layers_are_the_images_in_their_order():
    stack = choose_layers([Image(np.full((6, 8), value, np.uint8), name=str(value)) for value in (3, 1, 2)])
    assert [int(image[0, 0]) for image in stack.cut_images()] == [3, 1, 2]
    assert (stack.n_images, stack.size_px, stack.is_color, stack.title, stack.note) == (3, (6, 8), False, "3 + 2", "")
    note = choose_layers([gray(), gray(translate=(0, 3), name="b")]).note
    assert note == "the layers lie at different places; they are fused pixel by pixel, at the place of 'a'"


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_axis_can_be_fused_over_and_the_others_are_rows_and_columns(axis):
    samples = np.arange(3 * 4 * 5, dtype=np.uint8).reshape(3, 4, 5)
    stack = choose_planes(Image(samples), axis)
    images, parts = stack.cut_images(), stack.cut_images(slice(1, 3), slice(2, 4))
    for number, (image, part) in enumerate(zip(images, parts, strict=True)):
        np.testing.assert_array_equal(image, samples.take(number, axis=axis))
        np.testing.assert_array_equal(part, image[1:3, 2:4])
        assert np.shares_memory(image, samples), "views, no copies"


def test_further_axes_are_taken_where_the_sliders_stand_also_beyond_the_layer():
    samples = np.arange(4 * 3 * 2 * 2, dtype=np.uint16).reshape(4, 3, 2, 2)
    layer = Image(samples, scale=(10, 1, 1, 1), axis_labels=("t", "z", "y", "x"))
    for point, step in ((20.0, 2), (990.0, 3)):
        stack = choose_planes(layer, 1, point=(point, 0.0, 0.0, 0.0))
        np.testing.assert_array_equal(np.stack(stack.cut_images()), samples[step])
        assert stack.note == f"taken where the sliders stand: axis t at {step}"


def test_color_and_levels_are_what_the_layer_says_not_what_the_shape_suggests():
    color, strip = Image(np.zeros((4, 5, 6, 3), np.uint8), rgb=True), Image(np.zeros((4, 6, 3), np.uint8), rgb=False)
    assert [(choose_planes(layer, 0).is_color, choose_planes(layer, 0).size_px) for layer in (color, strip)] == [
        (True, (5, 6)),
        (False, (6, 3)),
    ]
    levels = [np.ones((3, 16, 16), np.uint8), np.zeros((3, 8, 8), np.uint8)]
    assert choose_planes(Image(levels, multiscale=True), 0).cut_images()[0].min() == 1


class Store:
    """An array that reads as soon as it is cut, as a Zarr array does."""

    shape, dtype, ndim, is_open = (3, 6, 8), np.dtype(np.uint8), 3, True

    def __getitem__(self, index):
        assert self.is_open, "pixels were read"
        return np.zeros(self.shape, self.dtype)[index]

    def __array__(self, dtype=None, copy=None):
        return self[:]


def test_nothing_is_read_of_lazy_layers():
    def read(block):
        pytest.fail("pixels were read")

    lazy = da.zeros((3, 6, 8), dtype=np.uint8, chunks=(1, 6, 8)).map_blocks(read, dtype=np.uint8, meta=np.zeros((0, 0, 0), np.uint8))
    store = Store()
    layers = [Image(array, contrast_limits=(0, 1), rgb=False, visible=array is store) for array in (lazy, store)]
    store.is_open = False
    assert [[image.shape for image in choose_planes(layer, 0).cut_images()] for layer in layers] == [[(6, 8)] * 3] * 2
    images = choose_planes(layers[1], 0).cut_images()
    store.is_open = True
    assert images[0].compute().shape == (6, 8)


LABELS = Labels(np.zeros((6, 8), int), name="marks")
STACK = cells((5, 6, 8), AXES[2:], name="a")


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ([], "nothing is chosen; one stack, or two or more images of one scene, are needed"),
        ([gray()], "1 image was given; at least 2 of one scene are needed"),
        ([gray(), LABELS], "'marks' is a labels layer; image layers are needed"),
        ([LABELS, STACK], "'marks' is a labels layer"),
        ([gray(), STACK], "'a' has 3 axes; images with 2 are needed: choose it alone"),
        ([gray(), gray((6, 9), name="b")], r"'a' has shape \(6, 8\) and 'b' \(6, 9\); all must be equal"),
        ([gray(), gray(dtype=np.uint16, name="b")], "'a' is uint8 and 'b' uint16; all must be of one type"),
        ([gray((2, 6, 8), np.int64)], "'a' has samples of type int64; uint8, uint16, .* are supported"),
        ([gray((2, 6, 8), np.uint64)], "'a' has samples of type uint64"),
        ([cells((1, 6, 8), AXES[2:])], "axis z of 'cells' has length 1; 2 or more planes are needed"),
        ([STACK, cells((4, 6, 8), AXES[2:], name="b")], r"and 'b' \(4, 6, 8\); stacks that are fused together are channels of one size"),
    ],
)
def test_what_cannot_be_fused_is_refused_in_words(layers, words):
    with pytest.raises(InvalidImageError, match=words):
        choose_series(layers)


@pytest.mark.parametrize(("dtype", "worked_with"), WORKED_WITH.items())
def test_other_types_are_worked_with_in_one_that_holds_all_their_values_and_come_back(dtype, worked_with):
    kind = np.dtype(dtype)
    info = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
    extremes = np.array([info.min, info.max], kind)
    stack = choose_planes(Image(np.tile(extremes[:, None, None], (1, 6, 8)), contrast_limits=(0, 1), rgb=False), 0)
    images = stack.cut_images()
    assert {image.dtype.name for image in images} == {worked_with}
    np.testing.assert_array_equal(stack.restored(np.stack(images)), stack.arrays[0])
    assert f"{dtype} is worked with as {worked_with}, without loss" in stack.note


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64, np.int8, np.int16, np.uint32, bool])
def test_types_that_the_engine_takes_are_taken(dtype):
    assert fuse(np.ones((2, 6, 8), dtype)).fused.dtype == choose_layers([gray(dtype=dtype), gray(dtype=dtype)]).dtype


@pytest.mark.parametrize(
    ("labels", "axis"), [(("z", "c", "y", "x"), 0), (("t", "Z", "y", "x"), 1), (("t", "focus", "y", "x"), 1), (("t", "c", "y", "x"), 1)]
)
def test_the_focus_axis_is_guessed_by_name_then_by_place(labels, axis):
    assert guess_focus_axis(Image(np.zeros((2, 2, 2, 2)), axis_labels=labels)) == axis
    assert (list_axes(cells()), list_axes(gray((2, 6, 8)))) == (list(AXES), ["0", "1", "2"])


def test_a_stack_or_images_are_one_fusion_whose_result_is_one_image():
    for layers in ([STACK], [cells((6, 8), AXES[3:], name=name) for name in "ab"]):
        series = choose_series(layers)
        assert (len(series.titles), series.n_points, series.keeps_axes) == (1, 1, False)
        assert series.arrange([np.ones((6, 8))]).shape == (6, 8)


def test_channels_are_separate_and_all_points_in_time_are_there_unless_a_point_is_given():
    series = choose_series([cells()])
    assert series.titles == ("cells, c 0", "cells, c 1", "cells, c 2")
    assert (series.n_points, series.n_fusions, series.kept_shape, series.first.note) == (2, 6, (2,), "")
    assert [stack.index[:2] for stack in series.stacks[1]] == [(0, 1), (1, 1)]
    shown = choose_series([cells()], point=(1, 2, 0, 0, 0))
    assert (shown.titles, shown.n_fusions, shown.keeps_axes) == (("cells, t 1, c 2",), 1, False)
    assert "axis t at 1, axis c at 2" in shown.first.note
    unnamed = choose_series([gray((4, 2, 5, 6, 8))])
    assert (unnamed.kept_shape, unnamed.titles, unnamed.n_points) == ((4, 2), ("a",), 8)
    assert unnamed.arrange([np.full((6, 8), number) for number in range(8)]).shape == (4, 2, 1, 6, 8)
    other = choose_series([cells((2, 5, 6, 8), ("t", "z", "y", "x"))], "t")
    assert (other.first.axis, other.first.n_images, other.kept_shape) == (0, 2, (5,))


def test_several_stacks_are_channels_one_of_which_may_decide():
    layers = [cells((2, 5, 6, 8), ("t", "z", "y", "x"), name=name) for name in ("dapi", "gfp")]
    assert choose_series(layers).decided_by is None
    series = choose_series(layers, decide_by="gfp")
    assert (series.titles, series.decided_by, series.n_fusions) == (("dapi", "gfp"), 1, 2)


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
    place = choose_series([cells(scale=(1, 2, 4, 0.5, 0.5))]).place(2)
    np.testing.assert_allclose(place["translate"], (0, 2 * 2, 4 * 2, 0, 0))
    np.testing.assert_allclose(place["scale"], (1, 2, 4 * 5, 0.5, 0.5))


SPACE = {"scale": (2.0, 0.5, 0.25), "translate": (7.0, 10.0, 20.0), "units": ("um",) * 3, "axis_labels": ("z", "y", "x")}
FLAT = {key: value[1:] for key, value in SPACE.items()}


def test_a_result_lies_where_its_source_lies_without_the_stack_axis():
    placed = Image(np.zeros((4, 5)), **Placement.of_layer(Image(np.zeros((3, 4, 5)), **SPACE), (1, 2)).as_layer_arguments())
    np.testing.assert_allclose((placed.scale, placed.translate), ((0.5, 0.25), (10.0, 20.0)))
    assert ([str(unit) for unit in placed.units], placed.axis_labels) == (["micrometer"] * 2, ("y", "x"))

    source = Image(np.zeros((40, 50)), rotate=30, shear=[0.2], affine=[[1, 0.1, 3], [0, 2, 4], [0, 0, 1]], **FLAT)
    for corner in ((0, 0), (8, 16)):
        part = Image(np.zeros((4, 5)), **Placement.of_layer(source, (0, 1)).as_layer_arguments(corner))
        for point in ((0, 0), (3, 0), (1, 4)):
            np.testing.assert_allclose(part.data_to_world(point), source.data_to_world(np.add(point, corner)))
