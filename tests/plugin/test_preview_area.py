"""The area of a preview is what is seen, or what was drawn, in pixels of the image."""

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_qmcif.layers_in import choose_planes
from napari_qmcif.preview import find_drawn_area, find_middle, find_visible_area
from qmcif_engine import InvalidImageError, Window


@pytest.fixture
def viewer():
    return ViewerModel()


def add_stack(viewer, shape=(3, 60, 80), axis=0, **options):
    layer = viewer.add_image(np.zeros(shape, np.uint8), rgb=False, **options)
    return choose_planes(layer, axis, point=(0,) * len(shape))


def see(viewer, stack):
    return find_visible_area(stack, viewer.dims)


def test_the_whole_image_is_seen_at_first(viewer):
    stack = add_stack(viewer)

    assert see(viewer, stack) == Window(0, 0, 60, 80)


def test_the_seen_part_is_what_the_layer_says_with_its_last_pixel(viewer):
    stack = add_stack(viewer)
    stack.layers[0].corner_pixels = np.array([[0, 10, 20], [0, 29, 49]])

    assert see(viewer, stack) == Window(10, 20, 30, 50)


def test_the_seen_part_of_a_coarse_level_is_counted_in_pixels_of_the_finest(viewer):
    levels = [np.zeros((3, side, side), np.uint8) for side in (64, 16)]
    stack = choose_planes(viewer.add_image(levels, multiscale=True, rgb=False), 0, point=(0, 0, 0))
    layer = stack.layers[0]
    layer.data_level = 1
    layer.corner_pixels = np.array([[0, 2, 4], [0, 7, 11]])

    assert see(viewer, stack) == Window(8, 16, 32, 48)


def test_a_layer_of_fewer_axes_than_the_viewer_is_found(viewer):
    viewer.add_image(np.zeros((2, 3, 60, 80), np.uint8), rgb=False)

    assert see(viewer, add_stack(viewer)) == Window(0, 0, 60, 80)


def test_other_axes_than_those_of_the_image_are_refused(viewer):
    stack = add_stack(viewer)
    viewer.dims.order = (1, 0, 2)

    with pytest.raises(InvalidImageError, match="the viewer shows other axes than rows and columns"):
        see(viewer, stack)


def test_the_three_dimensional_view_is_refused(viewer):
    stack = add_stack(viewer)
    viewer.dims.ndisplay = 3

    with pytest.raises(InvalidImageError, match="go back to the 2-D view"):
        see(viewer, stack)


def test_a_drawn_rectangle_is_found_through_scale_and_translation(viewer):
    stack = add_stack(viewer, scale=(1, 0.5, 0.5), translate=(0, 100, 200))
    corners = np.array([[105.0, 210.0], [105.0, 220.0], [115.0, 220.0], [115.0, 210.0]])

    assert find_drawn_area(stack, viewer.add_shapes([corners], shape_type="rectangle")) == Window(10, 20, 30, 40)


def test_the_selected_shape_counts_and_else_the_last(viewer):
    stack = add_stack(viewer)
    squares = [np.array([[0, 0], [0, side], [side, side], [side, 0]], dtype=float) for side in (10, 20, 30)]
    shapes = viewer.add_shapes(squares, shape_type="rectangle")
    shapes.selected_data = set()
    assert find_drawn_area(stack, shapes) == Window(0, 0, 30, 30)

    shapes.selected_data = {1}

    assert find_drawn_area(stack, shapes) == Window(0, 0, 20, 20)


def test_a_rectangle_over_the_border_is_cut(viewer):
    stack = add_stack(viewer)
    shapes = viewer.add_shapes([np.array([[-5.0, -5.0], [-5, 7], [9, 7], [9, -5]])], shape_type="rectangle")

    assert find_drawn_area(stack, shapes) == Window(0, 0, 9, 7)


def test_an_empty_shapes_layer_is_refused(viewer):
    stack = add_stack(viewer)

    with pytest.raises(InvalidImageError, match="'Shapes' holds no shape; a rectangle is needed"):
        find_drawn_area(stack, viewer.add_shapes(name="Shapes"))


def test_a_rectangle_beside_the_image_is_refused(viewer):
    stack = add_stack(viewer)
    shapes = viewer.add_shapes([np.array([[500.0, 0.0], [500, 9], [509, 9], [509, 0]])], shape_type="rectangle")

    with pytest.raises(InvalidImageError, match="the area to preview covers 0 x 9 pixels of the image; more is needed"):
        find_drawn_area(stack, shapes)


def test_of_a_large_area_the_middle_remains_in_the_same_proportions():
    middle = find_middle(Window(0, 0, 2000, 4000), 2_000_000)

    assert middle == Window(500, 1000, 1500, 3000)
    assert find_middle(Window(3, 4, 13, 24), 2_000_000) == Window(3, 4, 13, 24)
