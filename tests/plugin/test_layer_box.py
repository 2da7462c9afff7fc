"""One layer is chosen out of those that fit, and stays chosen."""

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image, Labels

from napari_qmcif.layer_box import LayerBox, is_index_map, is_picture, part_of


@pytest.fixture
def viewer():
    return ViewerModel()


def make_box(qtbot, viewer, **options):
    box = LayerBox(viewer, fits=is_picture, **options)
    qtbot.addWidget(box)
    return box


def test_fitting_layers_are_offered_the_topmost_first(qtbot, viewer):
    viewer.add_image(np.zeros((4, 5)), name="below")
    viewer.add_image(np.zeros((3, 4, 5)), name="stack")
    viewer.add_image(np.zeros((4, 5)), name="above")

    box = make_box(qtbot, viewer)

    assert [box.itemText(row) for row in range(box.count())] == ["above", "below"]
    assert box.layer is viewer.layers["above"]


def test_what_was_chosen_stays_chosen_under_a_new_name_and_without_a_signal(qtbot, viewer):
    first = viewer.add_image(np.zeros((4, 5)), name="first")
    box = make_box(qtbot, viewer)
    changes = []
    box.currentIndexChanged.connect(changes.append)
    viewer.add_image(np.zeros((4, 5)), name="second")
    first.name = "renamed"

    box.refresh_layers()

    assert (box.layer, box.currentText(), changes) == (first, "renamed", [])


def test_losing_the_chosen_layer_is_told(qtbot, viewer):
    viewer.add_image(np.zeros((4, 5)), name="first")
    second = viewer.add_image(np.zeros((4, 5)), name="second")
    box = make_box(qtbot, viewer)
    changes = []
    box.currentIndexChanged.connect(changes.append)

    viewer.layers.remove(second)
    box.refresh_layers()

    assert (box.currentText(), changes) == ("first", [0])


def test_nothing_can_be_chosen_where_that_is_offered(qtbot, viewer):
    viewer.add_image(np.zeros((4, 5)))

    assert make_box(qtbot, viewer, none_text="none").layer is None
    assert make_box(qtbot, viewer).layer is not None


@pytest.mark.parametrize(
    ("layer", "picture", "index"),
    [
        (Image(np.zeros((4, 5), np.uint16)), True, True),
        (Image(np.zeros((4, 5))), True, False),
        (Image(np.zeros((4, 5, 3), np.uint8), rgb=True), True, False),
        (Image(np.zeros((2, 4, 5), np.uint8)), False, False),
        (Labels(np.zeros((4, 5), int)), False, True),
        (Image(np.zeros((4, 5), np.uint16), metadata={"qmcif": {"part": "base_map"}}), False, False),
        (Image(np.zeros((4, 5), np.uint16), metadata={"qmcif": {"part": "source_index"}}), False, True),
        (Image(np.zeros((4, 5), np.uint16), metadata={"qmcif": "nonsense"}), True, True),
    ],
)
def test_pictures_and_index_maps_are_told_apart(layer, picture, index):
    assert (is_picture(layer), is_index_map(layer)) == (picture, index)


def test_the_part_of_a_result_is_read_from_its_record():
    assert part_of(Image(np.zeros((4, 5)), metadata={"qmcif": {"part": "fused"}})) == "fused"
    assert part_of(Image(np.zeros((4, 5)), metadata={"qmcif": {"part": 3}})) is None
