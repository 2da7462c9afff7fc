"""Result layers look and lie like their sources, say how they came about, and lead back to what they were made from."""

import json

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image

import qmcif_engine
from napari_qmcif.layers_in import StackSeries, choose_layers, choose_planes, choose_series
from napari_qmcif.layers_out import (
    ALIGNMENTS,
    MAP_NAMES,
    add_layers,
    describe_channel,
    find_parts,
    find_place,
    find_sources,
    name_part,
    name_place,
    number_run,
    prepare_alike,
    read_settings,
    record_provenance,
)
from qmcif_engine import FusionConfig
from qmcif_engine.stack.alignment.transforms import TransformModel

CONFIG = FusionConfig().replaced({"blend_px": 3})


@pytest.fixture
def viewer():
    return ViewerModel()


def add_result_of(viewer, stack, **further):
    """Add an empty result with all maps; return its layers from the top of the list."""
    shape = (*stack.size_px, *(3,) * stack.is_color)
    made = {"fused": np.zeros(shape, np.uint8), **{name: np.zeros(shape[:2], np.uint16) for name in MAP_NAMES}}
    record = record_provenance(stack, CONFIG, focus_range=(3, 250)) | further
    return add_layers(viewer, describe_channel(StackSeries.of_one(stack), 0, made, record=record))[::-1]


def test_maps_come_hidden_above_the_image_with_the_record_and_show_all_images(viewer):
    stack = choose_planes(viewer.add_image(np.zeros((5, 6, 8, 3), np.uint8), rgb=True, name="leaf"), 0)
    layers = add_result_of(viewer, stack)
    expected = ["leaf: fused", "leaf: confidence", "leaf: detail scale", "leaf: base scale", "leaf: source map"]
    assert [layer.name for layer in viewer.layers[1:]] == [layer.name for layer in layers[::-1]] == expected
    assert [(layer.visible, layer.rgb, layer.ndim) for layer in layers] == [(False, False, 2)] * 4 + [(True, True, 2)]
    parts = ["source_index", "base_map", "detail_map", "confidence", "fused"]
    assert [layer.metadata["qmcif"]["part"] for layer in layers] == parts
    assert {layer.metadata["qmcif"]["version"] for layer in layers} == {qmcif_engine.__version__}
    assert [tuple(layers[number].contrast_limits) for number in (0, 3)] == [(0, 4), (0, 1)]


def test_gray_result_looks_like_its_sources(viewer):
    look = {"colormap": "magma", "gamma": 0.7}
    sources = [Image(np.zeros((6, 8), np.uint16), contrast_limits=limits, **look) for limits in ((100, 900), (50, 800))]
    fused = add_result_of(viewer, choose_layers(sources))[-1]
    assert (tuple(fused.contrast_limits), fused.colormap.name, fused.gamma) == ((50, 900), "magma", 0.7)


@pytest.mark.parametrize("is_color", [False, True])
def test_pyramids_become_multiscale_layers(viewer, is_color):
    channels = (3,) * is_color
    source = viewer.add_image(np.zeros((2, 16, 16, *channels), np.uint8), rgb=is_color)
    levels = {"fused": [np.zeros((side, side, *channels), np.uint8) for side in (16, 8)]}
    levels |= {name: [np.zeros((side, side), np.uint16) for side in (16, 8)] for name in MAP_NAMES}
    layers = add_layers(viewer, describe_channel(StackSeries.of_one(choose_planes(source, 0)), 0, levels, record={}))
    assert all(layer.multiscale for layer in layers)
    assert layers[0].rgb == is_color


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


def test_the_record_has_what_makes_the_result_again_in_plain_values():
    layer = Image(np.zeros((2, 3, 4, 5), np.uint8), name="cells", axis_labels=("t", "z", "y", "x"))
    record = record_provenance(choose_planes(layer, 1, point=(1, 0, 0, 0)), CONFIG, focus_range=(np.float64(2.0), 250.0))
    assert json.loads(json.dumps(record)) == record
    assert FusionConfig.from_dict(record["settings"]) == CONFIG
    assert [(entry["layer"], entry["path"]) for entry in record["inputs"]] == [("cells", None)]
    assert (record["n_images"], record["axis"], record["position"], record["focus_range"]) == (3, "z", {"t": 1}, [2.0, 250.0])
    flat = record_provenance(choose_layers([Image(np.zeros((4, 5)), name=name) for name in "ab"]), CONFIG, focus_range=(0, 1))
    assert (flat["axis"], flat["position"]) == (None, {})


def test_sources_and_parts_are_found_again(viewer):
    series = viewer.add_image(np.zeros((4, 5, 6, 8, 3), np.uint8), rgb=True, scale=(1, 2, 1, 1), axis_labels=("t", "z", "y", "x"))
    found = find_sources(add_result_of(viewer, choose_planes(series, 1, point=(2, 0, 0, 0)))[-1], viewer.layers)
    assert (found.layers, found.axis, found.index[0]) == ((series,), 1, 2)
    frames = [viewer.add_image(np.zeros((6, 8, 3), np.uint8), rgb=True, name=name) for name in "ab"]
    stack = choose_layers(frames[::-1])
    first = add_result_of(viewer, stack, made="earlier")
    add_result_of(viewer, stack, made="later")
    assert find_sources(first[-1], viewer.layers).layers == tuple(frames[::-1])
    assert find_parts(first[-1], viewer.layers)["source_index"] is first[0], "that of the same run"


@pytest.mark.parametrize("record", [{}, {"qmcif": 3}, {"qmcif": {"inputs": [{"layer": "gone"}], "axis": None, "position": {}}}])
def test_without_a_usable_record_nothing_is_found(viewer, record):
    layer = viewer.add_image(np.zeros((6, 8), np.uint8), rgb=False, metadata=record)
    assert (find_sources(layer, viewer.layers), find_parts(layer, viewer.layers)) == (None, {})
    assert read_settings(layer) == (FusionConfig(), None)


@pytest.mark.parametrize(
    ("noted", "expected"),
    [({"align": "similarity"}, ("similarity", False)), ({"align": "melted"}, ("none", False))]
    + [({"even_exposure": value}, ("none", value is True)) for value in (True, False, "perhaps")],
)
def test_sources_are_prepared_as_they_were_for_the_fusion(viewer, noted, expected):
    stack = choose_planes(viewer.add_image(np.zeros((4, 6, 8, 3), np.uint8), rgb=True), 0)
    fused = add_result_of(viewer, stack, **noted)[-1]
    alike = prepare_alike(stack, fused)
    assert (alike.align, alike.even_exposure) == expected
    assert read_settings(fused) == (CONFIG, (3.0, 250.0))


@pytest.mark.parametrize("time", [0, 2])
def test_the_images_of_one_time_point_are_found_for_a_result_with_several(viewer, time):
    layer = viewer.add_image(np.zeros((3, 4, 6, 8), np.uint8), rgb=False, scale=(2, 4, 1, 1), axis_labels=("t", "z", "y", "x"))
    series = choose_series([layer], "z")
    record = record_provenance(series.first, CONFIG, focus_range=(3, 250))
    (fused,) = add_layers(viewer, describe_channel(series, 0, {"fused": np.zeros((3, 1, 6, 8), np.uint8)}, record=record))
    place = find_place(fused, (2 * time, 11.0, 0, 0))
    assert (place, name_place(fused, place)) == ((time, 0), f", t {time}")
    assert find_sources(fused, viewer.layers, place=place).index[0] == time


def test_the_form_offers_every_model_of_the_engine():
    assert tuple(TransformModel) == ALIGNMENTS
