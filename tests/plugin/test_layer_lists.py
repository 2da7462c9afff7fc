"""Layers are chosen out of those that fit, and stay chosen whatever they are called."""

import numpy as np
import pytest
from magicgui.widgets import Container

from napari_qmcif.layer_box import LayerComboBox, LayerSelect, is_fused_or_flat, list_layers

pytestmark = pytest.mark.viewer


@pytest.fixture
def viewer(make_napari_viewer_proxy):
    return make_napari_viewer_proxy()


@pytest.fixture
def form(viewer):
    several = LayerSelect(name="several", choices=list_layers(is_fused_or_flat, from_top=False))
    one = LayerComboBox(name="one", choices=list_layers(is_fused_or_flat))
    form = Container(widgets=[several, one])
    viewer.window.add_dock_widget(form)
    return form


def add(viewer, name, shape=(4, 5)):
    return viewer.add_image(np.zeros(shape), name=name, rgb=False)


def test_fitting_layers_are_offered_in_the_order_asked_for(viewer, form):
    below, _, above = add(viewer, "below"), add(viewer, "stack", (3, 4, 5)), add(viewer, "above")

    assert (form.several.choices, form.one.choices) == ((below, above), (above, below))

    viewer.layers.move(2, 0)
    assert (form.several.choices, form.one.choices) == ((above, below), (below, above))


def test_a_renamed_layer_stays_chosen_and_nothing_is_told(viewer, form):
    layers = [add(viewer, name) for name in "abc"]
    form.several.value, form.one.value = [layers[2], layers[0]], layers[0]
    heard = []
    form.changed.connect(heard.append)

    layers[0].name = "renamed"
    add(viewer, "d")

    assert (form.several.value, form.one.value, heard) == ([layers[0], layers[2]], layers[0], [])
    assert form.one.current_choice == "renamed"


def test_losing_a_chosen_layer_is_told(viewer, form):
    layers = [add(viewer, name) for name in "ab"]
    form.several.value, form.one.value = layers, layers[0]
    heard = []
    form.several.changed.connect(heard.append)
    form.one.changed.connect(heard.append)

    viewer.layers.remove("a")

    assert heard == [[layers[1]], layers[1]]
