"""A result is traced back to what it was made from; what a stroke changed is found; images have colors of their own."""

import dask.array as da
import numpy as np
import pytest
from napari.components import ViewerModel

from napari_qmcif.layers_in import StackSeries, choose_layers, choose_planes, choose_series
from napari_qmcif.layers_out import (
    MAP_NAMES,
    add_layers,
    describe_channel,
    find_parts,
    find_place,
    find_sources,
    name_place,
    read_settings,
    record_provenance,
)
from napari_qmcif.retouch import LARGEST_PIECE_PX, color_sources, find_piece, prepare_sources
from qmcif_engine import FusionConfig, InvalidImageError

CONFIG = FusionConfig().replaced({"blend_px": 3})


@pytest.fixture
def viewer():
    return ViewerModel()


def add_result_of(viewer, stack, **images):
    shape = stack.size_px
    made = {"fused": np.zeros((*shape, 3), np.uint8), **{name: np.zeros(shape, np.uint16) for name in MAP_NAMES}, **images}
    return add_layers(
        viewer, describe_channel(StackSeries.of_one(stack), 0, made, record=record_provenance(stack, CONFIG, focus_range=(3, 250)))
    )[0]


def test_a_stack_is_found_again_with_its_axis_and_the_position_of_further_axes(viewer):
    layer = viewer.add_image(np.zeros((4, 5, 6, 8, 3), np.uint8), rgb=True, scale=(1, 2, 1, 1), axis_labels=("t", "z", "y", "x"))
    fused = add_result_of(viewer, choose_planes(layer, 1, point=(2, 0, 0, 0)))

    found = find_sources(fused, viewer.layers)

    assert (found.layers, found.axis, found.index[0]) == ((layer,), 1, 2)


def test_several_layers_are_found_again_in_their_order(viewer):
    layers = [viewer.add_image(np.zeros((6, 8, 3), np.uint8), rgb=True, name=name) for name in "ab"]
    fused = add_result_of(viewer, choose_layers(layers[::-1]))

    assert find_sources(fused, viewer.layers).layers == tuple(layers[::-1])


def test_the_index_of_the_same_run_is_found_among_several(viewer):
    layer = viewer.add_image(np.zeros((4, 6, 8, 3), np.uint8), rgb=True)
    first = add_result_of(viewer, choose_planes(layer, 0, point=(0, 0, 0)))
    first.metadata["qmcif"]["made"] = viewer.layers[-1].metadata["qmcif"]["made"] = "earlier"
    index = viewer.layers[-1]
    add_result_of(viewer, choose_planes(layer, 0, point=(0, 0, 0)))

    assert find_parts(first, viewer.layers)["source_index"] is index


@pytest.mark.parametrize("record", [{}, {"qmcif": 3}, {"qmcif": {"inputs": [{"layer": "gone"}], "axis": None, "position": {}}}])
def test_without_a_usable_record_nothing_is_found(viewer, record):
    layer = viewer.add_image(np.zeros((6, 8), np.uint8), rgb=False, metadata=record)

    assert find_sources(layer, viewer.layers) is None
    assert find_parts(layer, viewer.layers) == {}


def test_settings_and_range_come_from_the_record_or_are_the_usual_ones(viewer):
    layer = viewer.add_image(np.zeros((4, 6, 8, 3), np.uint8), rgb=True)
    stack = choose_planes(layer, 0, point=(0, 0, 0))
    fused = add_result_of(viewer, stack)
    known = read_settings(fused)
    fused.metadata.clear()

    assert known == (CONFIG, (3.0, 250.0))
    assert read_settings(fused) == (FusionConfig(), None)


@pytest.mark.parametrize(("align", "expected"), [("similarity", "similarity"), ("melted", "none")])
def test_sources_are_aligned_as_they_were_for_the_fusion(viewer, align, expected):
    layer = viewer.add_image(np.zeros((4, 6, 8, 3), np.uint8), rgb=True)
    stack = choose_planes(layer, 0, point=(0, 0, 0))
    fused = add_result_of(viewer, stack)
    fused.metadata["qmcif"]["align"] = align

    assert prepare_sources(stack, fused=fused, index=viewer.layers[-1]).align == expected


@pytest.mark.parametrize(("noted", "expected"), [(True, True), (False, False), ("perhaps", False)])
def test_sources_are_as_bright_as_they_were_for_the_fusion(viewer, noted, expected):
    layer = viewer.add_image(np.zeros((4, 6, 8, 3), np.uint8), rgb=True)
    stack = choose_planes(layer, 0, point=(0, 0, 0))
    fused = add_result_of(viewer, stack)
    fused.metadata["qmcif"]["even_exposure"] = noted

    assert prepare_sources(stack, fused=fused, index=viewer.layers[-1]).even_exposure is expected


def test_a_result_on_disk_is_refused_with_the_remedy(viewer):
    layer = viewer.add_image(np.zeros((4, 6, 8, 3), np.uint8), rgb=True)
    stack = choose_planes(layer, 0, point=(0, 0, 0))
    fused = add_result_of(viewer, stack, fused=da.zeros((6, 8, 3), np.uint8))

    with pytest.raises(InvalidImageError, match=r"'Image: fused' is on disk; .*: run the fusion without a place under Result"):
        prepare_sources(stack, fused=fused, index=viewer.layers[-1])


def test_a_missing_source_index_is_named(viewer):
    layer = viewer.add_image(np.zeros((4, 6, 8, 3), np.uint8), rgb=True)
    stack = choose_planes(layer, 0, point=(0, 0, 0))

    with pytest.raises(InvalidImageError, match="no source index is chosen; that of the result is needed: fuse a stack first"):
        prepare_sources(stack, fused=add_result_of(viewer, stack), index=None)


def test_another_size_is_refused(viewer):
    layer = viewer.add_image(np.zeros((4, 6, 8, 3), np.uint8), rgb=True)
    stack = choose_planes(layer, 0, point=(0, 0, 0))
    fused = viewer.add_image(np.zeros((6, 9, 3), np.uint8), rgb=True, name="wide")

    with pytest.raises(
        InvalidImageError, match=r"'wide' has shape \(6, 9\), 'wide' \(6, 9\) and the sources \(6, 8\); a source map of the same result"
    ):
        prepare_sources(stack, fused=fused, index=fused)


def test_equal_labels_have_no_difference():
    labels = np.ones((30, 40), np.uint8)

    assert find_piece(labels, labels.copy()) is None


def test_a_small_difference_is_one_box():
    painted, applied = np.zeros((2, 30, 40), np.uint8)
    painted[5:9, 7:20] = 2

    assert find_piece(painted, applied) == ((), (5, 7, 9, 20))


def test_a_large_difference_is_applied_piece_by_piece_until_nothing_is_left():
    painted, applied = np.ones((1100, 1300), np.uint8), np.zeros((1100, 1300), np.uint8)
    n_pieces = 0
    while (found := find_piece(painted, applied)) is not None:
        top, left, bottom, right = found[1]
        assert max(bottom - top, right - left) <= LARGEST_PIECE_PX
        applied[top:bottom, left:right] = painted[top:bottom, left:right]
        n_pieces += 1

    assert n_pieces == 9


@pytest.mark.parametrize("n_images", [2, 30])
def test_what_the_engine_decides_is_transparent_and_every_image_has_its_color(n_images):
    colors = color_sources(n_images).color_dict

    assert colors[0][3] == colors[None][3] == 0
    assert len({tuple(np.round(colors[number], 3)) for number in range(1, n_images + 1)}) == n_images


def test_the_difference_of_several_images_is_found_with_its_place():
    painted, applied = np.zeros((2, 3, 1, 30, 40), np.uint8)
    painted[2, 0, 5:9, 7:20] = 2

    assert find_piece(painted, applied) == ((2, 0), (5, 7, 9, 20))
    assert find_piece(painted, painted) is None


def test_an_index_of_another_number_of_images_is_refused(viewer):
    layer = viewer.add_image(np.zeros((4, 6, 8), np.uint8), rgb=False)
    fused = viewer.add_image(np.zeros((2, 6, 8), np.uint8), rgb=False, name="two")
    index = viewer.add_image(np.zeros((6, 8), np.uint16), rgb=False, name="one")

    with pytest.raises(InvalidImageError, match=r"'two' has shape \(2, 6, 8\), 'one' \(6, 8\) and the sources"):
        prepare_sources(choose_planes(layer, 0), fused=fused, index=index)


@pytest.mark.parametrize("time", [0, 2])
def test_the_images_of_one_time_point_are_found_for_a_result_with_several(viewer, time):
    layer = viewer.add_image(np.zeros((3, 4, 6, 8), np.uint8), rgb=False, scale=(2, 4, 1, 1), axis_labels=("t", "z", "y", "x"))
    series = choose_series([layer], "z")
    record = record_provenance(series.first, CONFIG, focus_range=(3, 250))
    parts = {"fused": np.zeros((3, 1, 6, 8), np.uint8)}
    (described,) = describe_channel(series, 0, parts, record=record, z_step=1.0)
    fused = viewer.add_image(described[0], **described[1])

    place = find_place(fused, (2 * time, 11.0, 0, 0))

    assert place == (time, 0)
    assert find_sources(fused, viewer.layers, place=place).index[0] == time
    assert name_place(fused, place) == f", t {time}"
