"""Result layers look and lie like their sources."""

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image

from napari_qmcif.layers_in import StackSeries, choose_layers, choose_planes
from napari_qmcif.layers_out import MAP_NAMES, add_layers, describe_channel, name_part, number_run


def make_parts(fused):
    maps = {name: np.zeros(fused.shape[:2], np.uint16) for name in MAP_NAMES}
    return {"fused": fused, **maps}


def test_maps_come_hidden_above_the_image_so_that_they_are_seen_where_they_are_switched_on():
    viewer = ViewerModel()
    stack = choose_planes(viewer.add_image(np.zeros((5, 6, 8, 3), np.uint8), rgb=True, name="leaf"), 0, point=(0, 0, 0))

    layers = add_layers(
        viewer, describe_channel(StackSeries.of_one(stack), 0, make_parts(np.zeros((6, 8, 3), np.uint8)), record={"version": "1"})
    )[::-1]

    expected = ["leaf: fused", "leaf: confidence", "leaf: detail scale", "leaf: base scale", "leaf: source map"]
    assert [layer.name for layer in layers] == [layer.name for layer in viewer.layers[:0:-1]]
    assert [layer.name for layer in viewer.layers[1:]] == expected
    assert [layer.visible for layer in layers] == [False] * 4 + [True]
    assert [layer.rgb for layer in layers] == [False] * 4 + [True]
    assert [layer.ndim for layer in layers] == [2] * 5


def test_every_layer_carries_the_record_and_its_part():
    viewer = ViewerModel()
    stack = choose_planes(viewer.add_image(np.zeros((2, 6, 8), np.uint8)), 0, point=(0, 0, 0))

    layers = add_layers(
        viewer, describe_channel(StackSeries.of_one(stack), 0, make_parts(np.zeros((6, 8), np.uint8)), record={"version": "1"})
    )[::-1]

    assert [layer.metadata["qmcif"] for layer in layers] == [
        {"version": "1", "part": part} for part in ("source_index", "base_map", "detail_map", "confidence", "fused")
    ]


def test_gray_result_looks_like_its_sources():
    sources = [
        Image(np.zeros((6, 8), np.uint16), contrast_limits=limits, colormap="magma", gamma=0.7) for limits in ((100, 900), (50, 800))
    ]

    fused = add_layers(
        ViewerModel(), describe_channel(StackSeries.of_one(choose_layers(sources)), 0, make_parts(np.zeros((6, 8), np.uint16)), record={})
    )[0]

    assert tuple(fused.contrast_limits) == (50, 900)
    assert (fused.colormap.name, fused.gamma) == ("magma", 0.7)


def test_maps_show_first_to_last_image_and_confidence_from_none_to_full():
    viewer = ViewerModel()
    stack = choose_planes(viewer.add_image(np.zeros((5, 6, 8), np.uint8)), 0, point=(0, 0, 0))

    layers = {
        layer.name: layer
        for layer in add_layers(viewer, describe_channel(StackSeries.of_one(stack), 0, make_parts(np.zeros((6, 8), np.uint8)), record={}))[
            ::-1
        ]
    }

    assert tuple(layers["Image: source map"].contrast_limits) == (0, 4)
    assert tuple(layers["Image: confidence"].contrast_limits) == (0, 1)


@pytest.mark.parametrize("is_color", [False, True])
def test_pyramids_become_multiscale_layers(is_color):
    channels = (3,) * is_color
    viewer = ViewerModel()
    source = viewer.add_image(np.zeros((2, 16, 16, *channels), np.uint8), rgb=is_color)
    levels = [np.zeros((side, side, *channels), np.uint8) for side in (16, 8)]
    maps = {name: [np.zeros((side, side), np.uint16) for side in (16, 8)] for name in MAP_NAMES}

    layers = add_layers(
        viewer, describe_channel(StackSeries.of_one(choose_planes(source, 0, point=(0, 0, 0))), 0, {"fused": levels, **maps}, record={})
    )[::-1]

    assert all(layer.multiscale for layer in layers)
    assert layers[-1].rgb == is_color


def test_further_runs_are_numbered_at_the_end():
    taken = []
    for _ in range(3):
        taken.append(name_part("leaf", "fused", number_run(["leaf"], taken=taken)))

    assert taken == ["leaf: fused", "leaf: fused 2", "leaf: fused 3"]


@pytest.mark.parametrize(("z_step", "limits"), [(2.5, (0, 10)), (-2.5, (-10, 0))])
def test_heights_show_the_first_to_the_last_image_whichever_way_the_stack_runs(z_step, limits):
    series = StackSeries.of_one(choose_planes(Image(np.zeros((5, 6, 8), np.uint8), rgb=False), 0))
    parts = {name: np.zeros((6, 8), np.uint8) for name in ("fused", "height")}

    (_, (_, look, _)) = describe_channel(series, 0, parts, record={}, z_step=z_step)

    assert look["contrast_limits"] == limits
