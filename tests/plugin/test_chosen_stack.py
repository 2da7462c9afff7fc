"""Layers become a stack without a pixel being read, or the reason is given why they cannot."""

import dask.array as da
import numpy as np
import pytest
from napari.layers import Image, Labels

from napari_qmcif.layers_in import WORKED_WITH, choose_layers, choose_planes, guess_focus_axis
from qmcif_engine import InvalidImageError, fuse

ORIGIN = (0.0,) * 5


def gray(shape=(6, 8), dtype=np.uint8, name="a"):
    return Image(np.zeros(shape, dtype), name=name, contrast_limits=(0, 1), rgb=False)


def test_several_layers_are_the_images_in_their_order():
    layers = [Image(np.full((6, 8), value, np.uint8), name=str(value)) for value in (3, 1, 2)]

    stack = choose_layers(layers)

    assert [int(image[0, 0]) for image in stack.cut_images()] == [3, 1, 2]
    assert (stack.n_images, stack.size_px, stack.is_color, stack.title) == (3, (6, 8), False, "3 + 2")


def test_images_in_memory_are_views_not_copies():
    layer = gray((5, 6, 8))

    images = choose_planes(layer, 0, point=ORIGIN).cut_images()

    assert all(np.shares_memory(image, layer.data) for image in images)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_axis_can_be_fused_over_and_the_others_are_rows_and_columns(axis):
    samples = np.arange(3 * 4 * 5, dtype=np.uint8).reshape(3, 4, 5)

    stack = choose_planes(Image(samples), axis, point=ORIGIN)

    for number, image in enumerate(stack.cut_images()):
        np.testing.assert_array_equal(image, samples.take(number, axis=axis))


def test_further_axes_are_taken_where_the_sliders_stand():
    samples = np.arange(4 * 3 * 2 * 2, dtype=np.uint16).reshape(4, 3, 2, 2)
    layer = Image(samples, scale=(10, 1, 1, 1), axis_labels=("t", "z", "y", "x"))

    stack = choose_planes(layer, 1, point=(20.0, 0.0, 0.0, 0.0))

    np.testing.assert_array_equal(np.stack(stack.cut_images()), samples[2])
    assert stack.note == "taken where the sliders stand: axis t at 2"


def test_sliders_beyond_a_layer_stay_on_its_last_plane():
    layer = Image(np.arange(2 * 3 * 2 * 2, dtype=np.uint16).reshape(2, 3, 2, 2))

    stack = choose_planes(layer, 1, point=(99.0, 0.0, 0.0, 0.0))

    np.testing.assert_array_equal(stack.cut_images()[0], layer.data[1, 0])


def test_a_rectangle_is_cut_from_each_image():
    samples = np.arange(2 * 6 * 8, dtype=np.uint8).reshape(2, 6, 8)

    images = choose_planes(Image(samples), 0, point=ORIGIN).cut_images(slice(1, 3), slice(2, 6))

    np.testing.assert_array_equal(np.stack(images), samples[:, 1:3, 2:6])


def test_color_is_what_the_layer_says_not_what_the_shape_suggests():
    color, gray_strip = Image(np.zeros((4, 5, 6, 3), np.uint8), rgb=True), Image(np.zeros((4, 6, 3), np.uint8), rgb=False)

    assert choose_planes(color, 0, point=ORIGIN).is_color
    assert choose_planes(color, 0, point=ORIGIN).size_px == (5, 6)
    assert not choose_planes(gray_strip, 0, point=ORIGIN).is_color
    assert choose_planes(gray_strip, 0, point=ORIGIN).size_px == (6, 3)


def test_the_finest_level_of_a_pyramid_is_taken():
    levels = [np.ones((3, 16, 16), np.uint8), np.zeros((3, 8, 8), np.uint8)]

    stack = choose_planes(Image(levels, multiscale=True), 0, point=ORIGIN)

    assert stack.size_px == (16, 16)
    assert stack.cut_images()[0].min() == 1


def test_lazy_layers_stay_lazy():
    def read(block):
        pytest.fail("pixels were read")

    array = da.zeros((3, 6, 8), dtype=np.uint8, chunks=(1, 6, 8)).map_blocks(read, dtype=np.uint8, meta=np.zeros((0, 0, 0), np.uint8))
    layer = Image(array, contrast_limits=(0, 1), visible=False)

    assert [image.shape for image in choose_planes(layer, 0, point=ORIGIN).cut_images()] == [(6, 8)] * 3


def test_arrays_that_read_when_cut_are_wrapped_so_that_choosing_reads_nothing():
    class Store:
        shape, dtype, ndim = (3, 6, 8), np.dtype(np.uint8), 3

        def __init__(self):
            self.is_open = True

        def __getitem__(self, index):
            assert self.is_open, "pixels were read"
            return np.zeros(self.shape, self.dtype)[index]

        def __array__(self, dtype=None, copy=None):
            return self[:]

    store = Store()
    layer = Image(store, contrast_limits=(0, 1), rgb=False)
    store.is_open = False

    images = choose_planes(layer, 0, point=ORIGIN).cut_images()

    store.is_open = True
    assert images[0].compute().shape == (6, 8)


def test_one_image_is_refused():
    with pytest.raises(InvalidImageError, match="1 image was given; at least 2 of one scene are needed"):
        choose_layers([gray()])


def test_a_labels_layer_is_refused():
    with pytest.raises(InvalidImageError, match="'cells' is a labels layer; image layers are needed"):
        choose_layers([gray(), Labels(np.zeros((6, 8), int), name="cells")])


def test_different_shapes_are_refused():
    with pytest.raises(InvalidImageError, match=r"'a' has shape \(6, 8\) and 'b' \(6, 9\); all must be equal"):
        choose_layers([gray(), gray((6, 9), name="b")])


def test_different_types_are_refused():
    with pytest.raises(InvalidImageError, match="'a' is uint8 and 'b' uint16; all must be of one type"):
        choose_layers([gray(), gray(dtype=np.uint16, name="b")])


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_types_that_no_type_of_the_engine_holds_without_loss_are_refused(dtype):
    with pytest.raises(InvalidImageError, match=f"'counts' has samples of type {np.dtype(dtype)}; uint8, uint16, .* are supported"):
        choose_planes(Image(np.zeros((2, 6, 8), dtype), name="counts", contrast_limits=(0, 1)), 0)


@pytest.mark.parametrize(("dtype", "worked_with"), WORKED_WITH.items())
def test_other_types_are_worked_with_in_one_that_holds_all_their_values_and_come_back(dtype, worked_with):
    kind = np.dtype(dtype)
    info = None if kind.kind == "b" else np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
    extremes = np.array([False, True] if info is None else [info.min, info.max], kind)
    stack = choose_planes(Image(np.tile(extremes[:, None, None], (1, 6, 8)), contrast_limits=(0, 1), rgb=False), 0)

    images = stack.cut_images()

    assert {image.dtype.name for image in images} == {worked_with}
    np.testing.assert_array_equal(stack.restored(np.stack(images)), stack.arrays[0])
    assert f"{dtype} is worked with as {worked_with}, without loss" in stack.note


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64, np.int8, np.int16, np.uint32, bool])
def test_types_that_the_engine_takes_are_taken(dtype):
    assert fuse(np.ones((2, 6, 8), dtype)).fused.dtype == choose_layers([gray(dtype=dtype), gray(dtype=dtype)]).dtype


def test_stacks_among_several_layers_are_refused():
    with pytest.raises(InvalidImageError, match="'a' has 3 axes; images with 2 are needed: choose it alone"):
        choose_layers([gray((3, 6, 8)), gray((3, 6, 8))])


def test_an_axis_of_length_one_is_refused():
    layer = Image(np.zeros((1, 6, 8), np.uint8), name="a", axis_labels=("z", "y", "x"))

    with pytest.raises(InvalidImageError, match="axis z of 'a' has length 1; 2 or more planes are needed"):
        choose_planes(layer, 0, point=ORIGIN)


def test_a_labels_layer_is_refused_as_a_stack():
    with pytest.raises(InvalidImageError, match="is a labels layer"):
        choose_planes(Labels(np.zeros((3, 6, 8), int)), 0, point=ORIGIN)


@pytest.mark.parametrize(
    ("labels", "axis"), [(("z", "c", "y", "x"), 0), (("t", "Z", "y", "x"), 1), (("t", "focus", "y", "x"), 1), (("t", "c", "y", "x"), 1)]
)
def test_the_focus_axis_is_guessed_by_name_then_by_place(labels, axis):
    assert guess_focus_axis(Image(np.zeros((2, 2, 2, 2)), axis_labels=labels)) == axis


def test_layers_at_different_places_are_fused_with_a_note():
    here, there = gray(), Image(np.zeros((6, 8), np.uint8), translate=(0, 3), name="b")

    assert choose_layers([here, gray()]).note == ""
    assert "the layers lie at different places; they are fused pixel by pixel, at the place of 'a'" in choose_layers([here, there]).note
