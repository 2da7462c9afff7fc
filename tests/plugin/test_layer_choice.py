"""The list follows the viewer's layers, and one stack shows its axes."""

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_qmcif.layer_choice import LayerChoice, is_source
from qmcif_engine import InvalidImageError


@pytest.fixture
def viewer():
    return ViewerModel()


@pytest.fixture
def choice(viewer, qtbot):
    choice = LayerChoice(viewer)
    qtbot.addWidget(choice)
    for events in (viewer.layers.events.inserted, viewer.layers.events.removed, viewer.layers.events.renamed):
        events.connect(choice.refresh_layers)
    return choice


def listed(choice):
    return [choice.list.item(row).text() for row in range(choice.list.count())]


def add(viewer, name, shape=(6, 8), **options):
    return viewer.add_image(np.zeros(shape, np.uint8), name=name, rgb=False, **options)


def test_image_layers_are_listed_as_they_come_and_go(viewer, choice):
    add(viewer, "a")
    viewer.add_labels(np.zeros((6, 8), int))
    add(viewer, "b")
    assert listed(choice) == ["a", "b"]

    viewer.layers.remove("a")

    assert listed(choice) == ["b"]


def test_our_own_maps_and_previews_are_no_sources_but_fused_pictures_are(viewer, choice):
    for part in ("fused", "source_index", "preview"):
        add(viewer, part, metadata={"qmcif": {"part": part}})
    add(viewer, "foreign", metadata={"qmcif": "something else"})

    assert listed(choice) == ["fused", "foreign"]
    assert not is_source(viewer.layers["preview"])


def test_chosen_layers_stay_chosen_when_others_come_and_under_a_new_name(viewer, choice):
    layers = [add(viewer, name) for name in "abc"]
    choice.select_layers(layers[:2])

    add(viewer, "d")
    layers[0].name = "renamed"

    assert choice.selected_layers() == tuple(layers[:2])


def test_a_removed_layer_is_chosen_no_more(viewer, choice):
    layers = [add(viewer, name) for name in "abc"]
    choice.select_layers(layers)

    viewer.layers.remove("b")

    assert [layer.name for layer in choice.choose().layers] == ["a", "c"]


def test_use_selected_layers_takes_the_selection_of_the_viewer_in_the_order_of_the_list(viewer, choice):
    layers = [add(viewer, name) for name in "abc"]
    viewer.layers.selection = {layers[2], layers[0]}

    choice.use_selected_button.click()

    assert choice.choose().layers == (layers[0], layers[2])


def test_use_selected_layers_says_so_when_one_is_no_image_until_something_else_is_chosen(viewer, choice):
    layers = [add(viewer, name) for name in "ab"]
    labels = viewer.add_labels(np.zeros((6, 8), int), name="cells")
    viewer.layers.selection = {*layers, labels}

    choice.use_selected_button.click()

    with pytest.raises(InvalidImageError, match="'cells' is a labels layer"):
        choice.choose()
    choice.select_layers(layers)
    assert choice.choose().n_images == 2


def test_a_refused_layer_that_is_removed_is_forgotten(viewer, choice):
    labels = viewer.add_labels(np.zeros((6, 8), int))
    viewer.layers.selection = {labels}
    choice.use_selected_button.click()

    viewer.layers.remove(labels)

    with pytest.raises(InvalidImageError, match="nothing is chosen; two or more image layers, or one stack, are needed"):
        choice.choose()


def test_one_stack_shows_its_axes_and_starts_with_the_focus_axis(viewer, choice):
    stack = add(viewer, "stack", (2, 5, 6, 8), axis_labels=("t", "z", "y", "x"))

    choice.select_layers([stack])

    assert [choice.axis_box.itemText(row) for row in range(choice.axis_box.count())] == ["t (2)", "z (5)", "y (6)", "x (8)"]
    assert choice.axis_box.isVisibleTo(choice)
    assert (choice.choose().axis, choice.choose().n_images) == (1, 5)


def test_another_axis_can_be_chosen_and_stays_when_layers_come(viewer, choice):
    choice.select_layers([add(viewer, "stack", (2, 5, 6, 8))])
    choice.axis_box.setCurrentIndex(0)

    add(viewer, "other")

    assert choice.choose().axis == 0


def test_axes_of_a_pyramid_are_those_of_its_finest_level(viewer, choice):
    levels = [np.zeros((5, side, side), np.uint8) for side in (16, 8)]
    choice.select_layers([viewer.add_image(levels, multiscale=True, rgb=False)])

    assert choice.axis_box.itemText(1) == "1 (16)"


def test_pictures_show_no_axis(viewer, choice):
    choice.select_layers([add(viewer, "a"), add(viewer, "b")])

    assert not choice.axis_box.isVisibleTo(choice)


def test_a_click_chooses_and_is_told(viewer, choice, qtbot):
    add(viewer, "a")

    with qtbot.waitSignal(choice.changed):
        choice.list.item(0).setSelected(True)

    assert [layer.name for layer in choice.selected_layers()] == ["a"]
