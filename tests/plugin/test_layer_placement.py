"""A result lies where its source lies: scale, translation, rotation, affine, units and labels survive without the stack axis."""

import numpy as np
from napari.layers import Image

from napari_qmcif.layers_in import Placement

SPACE = {"scale": (2.0, 0.5, 0.25), "translate": (7.0, 10.0, 20.0), "units": ("um", "um", "um"), "axis_labels": ("z", "y", "x")}
FLAT = {key: value[1:] for key, value in SPACE.items()}


def place(layer, axes):
    return Image(np.zeros((4, 5)), **Placement.of_layer(layer, axes).as_layer_arguments())


def test_result_of_a_stack_keeps_scale_translate_units_and_labels_of_rows_and_columns():
    placed = place(Image(np.zeros((3, 4, 5)), **SPACE), (1, 2))

    np.testing.assert_allclose(placed.scale, (0.5, 0.25))
    np.testing.assert_allclose(placed.translate, (10.0, 20.0))
    assert [str(unit) for unit in placed.units] == ["micrometer", "micrometer"]
    assert placed.axis_labels == ("y", "x")


def test_rotated_sheared_and_affine_layers_are_followed_point_by_point():
    source = Image(np.zeros((4, 5)), rotate=30, shear=[0.2], affine=[[1, 0.1, 3], [0, 2, 4], [0, 0, 1]], **FLAT)

    placed = place(source, (0, 1))

    for point in ((0, 0), (3, 0), (1, 4)):
        np.testing.assert_allclose(placed.data_to_world(point), source.data_to_world(point))


def test_a_part_lies_where_the_whole_has_its_first_pixel():
    source = Image(np.zeros((40, 50)), rotate=30, **FLAT)

    part = Image(np.zeros((4, 5)), **Placement.of_layer(source, (0, 1)).as_layer_arguments((8, 16)))

    for row, column in ((0, 0), (3, 4)):
        np.testing.assert_allclose(part.data_to_world((row, column)), source.data_to_world((row + 8, column + 16)))
