"""A worker gets from layers what the engine gives from arrays."""

from dataclasses import replace

import dask.array as da
import numpy as np
import pytest
from napari.layers import Image

from napari_qmcif import layer_fusing
from napari_qmcif.chosen_stack import choose_layers, choose_planes
from napari_qmcif.layer_fusing import MARGIN_PX, FusionRequest, fuse_area, fuse_series
from napari_qmcif.layers import MAP_NAMES
from napari_qmcif.stack_series import Channel, StackSeries, choose_series
from qmcif_engine import (
    Cancelled,
    FusionConfig,
    InvalidImageError,
    QmcifError,
    Window,
    fuse,
    load_transforms,
    make_focus_stack,
    open_stack,
    prepare_stack,
)

CONFIG = FusionConfig().replaced({"iterations": 1})


def request(stack, **options):
    series = stack if isinstance(stack, StackSeries) else StackSeries(channels=(Channel(title=stack.title, stacks=(stack,)),))
    return FusionRequest(series=series, config=CONFIG, **options)


def fuse_layers(stack, config, *, job):
    return fuse_series(request(stack), job=job)[0]


def fuse_to_disk(stack, config, *, target, job):
    return fuse_series(request(stack, target=target), job=job)[0]


@pytest.mark.parametrize("kind", ["arrays", "dask", "pyramid"])
def test_any_kind_of_layer_gives_what_the_engine_gives(kind, images, job):
    if kind == "arrays":
        stack = choose_layers([Image(image, rgb=True) for image in images])
    elif kind == "dask":
        stack = choose_planes(Image(da.from_array(images, chunks=(1, 32, 32, 3)), rgb=True), 0, point=(0, 0, 0))
    else:
        stack = choose_planes(Image([images, images[:, ::2, ::2]], rgb=True, multiscale=True), 0, point=(0, 0, 0))
    expected = fuse(images, CONFIG, with_maps=True)

    outcome = fuse_layers(stack, CONFIG, job=job)

    np.testing.assert_array_equal(outcome.parts["fused"], expected.fused)
    for name in MAP_NAMES:
        np.testing.assert_array_equal(outcome.parts[name], getattr(expected, name))
    assert outcome.focus_range == tuple(expected.focus_range)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
def test_gray_stacks_keep_their_type(dtype, images, job):
    layer = Image(images[..., 1].astype(dtype), rgb=False)

    fused = fuse_layers(choose_planes(layer, 0, point=(0, 0, 0)), CONFIG, job=job).parts["fused"]

    assert (fused.dtype, fused.shape) == (dtype, images.shape[1:3])


def test_opacity_follows_the_decisions_without_taking_part(images, job):
    opacity = np.arange(len(images), dtype=np.uint8)[:, None, None, None] * np.ones((*images.shape[:3], 1), np.uint8)
    layer = Image(np.concatenate((images, opacity), axis=-1), rgb=True)
    expected = fuse(images, CONFIG, companions=list(opacity))

    fused = fuse_layers(choose_planes(layer, 0, point=(0, 0, 0)), CONFIG, job=job).parts["fused"]

    np.testing.assert_array_equal(fused[..., :3], expected.fused)
    np.testing.assert_array_equal(fused[..., 3:], expected.companions)


def test_missing_samples_are_refused_in_the_words_of_the_engine(job):
    samples = np.zeros((2, 16, 16), np.float32)
    samples[1, 3, 4] = np.nan

    with pytest.raises(InvalidImageError, match="holds NaN or infinite samples"):
        fuse_layers(choose_planes(Image(samples, contrast_limits=(0, 1)), 0, point=(0, 0, 0)), CONFIG, job=job)


def test_cancel_while_images_are_read_reads_no_further(images, job, monkeypatch):
    def read(block):
        job.cancel()
        reads.append(1)
        return block

    reads = []
    layers = [Image(da.from_array(image).map_blocks(read, meta=image), rgb=True, visible=False) for image in images]
    monkeypatch.setattr(layer_fusing, "hint_at_preparation", lambda stack, *, job: "")
    reads.clear()

    with pytest.raises(Cancelled, match="the work was cancelled"):
        fuse_layers(choose_layers(layers), CONFIG, job=job)

    assert len(reads) == 1


def test_a_part_is_fused_with_its_surroundings_and_has_its_own_size(job):
    images = make_focus_stack(n_images=2, shape=(240, 320), seed=1).images
    stack = choose_planes(Image(images, rgb=True), 0, point=(0, 0, 0))
    area = Window(70, 80, 110, 140)
    outer = area.grown(MARGIN_PX, (240, 320))

    outcome = fuse_area(stack, CONFIG, area=area, job=job)

    expected = fuse(images[:, outer.top : outer.bottom, outer.left : outer.right], CONFIG).fused
    assert outcome.parts["fused"].shape == (40, 60, 3)
    np.testing.assert_array_equal(outcome.parts["fused"], expected[MARGIN_PX : MARGIN_PX + 40, MARGIN_PX : MARGIN_PX + 60])


@pytest.mark.parametrize("is_color", [False, True])
def test_on_disk_lies_what_memory_would_hold_and_is_opened_lazily(is_color, job, tmp_path):
    images = make_focus_stack(n_images=2, shape=(300, 600), seed=1).images
    images = images if is_color else images[..., 0]
    stack = choose_planes(Image(da.from_array(images), rgb=is_color), 0, point=(0, 0, 0))
    expected = fuse(images, CONFIG, with_maps=True)

    outcome = fuse_to_disk(stack, CONFIG, target=tmp_path / "leaf.ome.zarr", job=job)

    levels = outcome.parts["fused"]
    assert len(levels) > 1
    assert all(isinstance(level, da.Array) for level in levels)
    np.testing.assert_array_equal(levels[0].compute(), expected.fused)
    for name in MAP_NAMES:
        np.testing.assert_array_equal(outcome.parts[name].compute(), getattr(expected, name))
    assert outcome.focus_range == tuple(expected.focus_range)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["leaf-maps", "leaf.ome.zarr"]


def test_on_disk_opacity_follows_the_decisions_too(images, job, tmp_path):
    opacity = np.arange(len(images), dtype=np.uint8)[:, None, None, None] * np.ones((*images.shape[:3], 1), np.uint8)
    stack = choose_planes(Image(np.concatenate((images, opacity), axis=-1), rgb=True), 0, point=(0, 0, 0))

    outcome = fuse_to_disk(stack, CONFIG, target=tmp_path / "leaf.ome.zarr", job=job)

    np.testing.assert_array_equal(outcome.parts["fused"][0].compute(), fuse_layers(stack, CONFIG, job=job).parts["fused"])


@pytest.fixture
def moved():
    """Two images of one scene, the second 5 pixels lower, with opacity."""
    scene = make_focus_stack(n_images=2, shape=(300, 400), seed=3).images
    opacity = np.full((2, 300, 400, 1), 200, np.uint8)
    images = np.concatenate([np.stack([scene[0], np.roll(scene[1], 5, axis=0)]), opacity], axis=-1)
    return replace(choose_planes(Image(images, rgb=True), 0, point=(0, 0, 0)), align="translation")


def test_aligned_images_give_what_the_engine_gives_in_memory_and_on_disk(moved, job, tmp_path):
    prepared = prepare_stack(open_stack([image[..., :3] for image in moved.cut_images()]), align="translation")
    expected = fuse(prepared, CONFIG)

    in_memory = fuse_layers(moved, CONFIG, job=job).parts
    on_disk = fuse_to_disk(moved, CONFIG, target=tmp_path / "leaf.ome.zarr", job=job).parts

    assert in_memory["fused"].shape == (300, 400, 4)
    np.testing.assert_array_equal(in_memory["fused"][..., :3], expected.fused)
    np.testing.assert_array_equal(in_memory["source_index"], expected.source_index)
    np.testing.assert_array_equal(on_disk["fused"][0].compute(), in_memory["fused"])


def test_a_preview_of_aligned_images_shows_what_the_run_will_give(moved, job):
    whole = fuse_layers(moved, CONFIG, job=job).parts["fused"].astype(int)

    part = fuse_area(moved, CONFIG, area=Window(120, 150, 180, 250), job=job).parts["fused"]

    assert part.shape == (60, 100, 4)
    assert np.abs(part - whole[120:180, 150:250]).mean() < 1
    assert np.abs(part - whole[125:185, 150:250]).mean() > 5  # as if nothing had been aligned


def test_exposure_is_evened_out_in_memory_on_disk_and_in_a_preview(moved, job, tmp_path):
    dark = np.stack(moved.cut_images())
    dark[1, ..., :3] = dark[1, ..., :3] * 0.8
    stack = replace(choose_planes(Image(dark, rgb=True), 0, point=(0, 0, 0)), even_exposure=True)
    expected = fuse(prepare_stack(open_stack(list(dark[..., :3])), even_exposure=True), CONFIG).fused

    in_memory = fuse_layers(stack, CONFIG, job=job).parts["fused"]
    on_disk = fuse_to_disk(stack, CONFIG, target=tmp_path / "leaf.ome.zarr", job=job).parts["fused"]
    part = fuse_area(stack, CONFIG, area=Window(120, 150, 180, 250), job=job).parts["fused"]

    np.testing.assert_array_equal(in_memory[..., :3], expected)
    np.testing.assert_array_equal(in_memory[..., 3], 200)
    np.testing.assert_array_equal(on_disk[0].compute(), in_memory)
    assert np.abs(part - in_memory[120:180, 150:250].astype(int)).mean() < 1


def test_on_disk_nothing_that_exists_is_replaced(images, job, tmp_path):
    (tmp_path / "leaf.ome.zarr").mkdir()
    stack = choose_planes(Image(images, rgb=True), 0, point=(0, 0, 0))

    with pytest.raises(QmcifError, match="exists"):
        fuse_to_disk(stack, CONFIG, target=tmp_path / "leaf.ome.zarr", job=job)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int16, np.int32, np.uint32, np.float16])
def test_samples_come_back_in_the_type_of_their_layer(dtype, images, job):
    samples = images[..., 1] > 100 if dtype is bool else images[..., 1].astype(np.int64) // 2 - (20 if np.dtype(dtype).kind == "i" else 0)
    stack = choose_planes(Image(samples.astype(dtype), rgb=False, contrast_limits=(0, 1)), 0)
    worked = fuse(list(samples.astype(np.uint8 if dtype is bool else np.float64)), CONFIG)

    fused = fuse_layers(stack, CONFIG, job=job).parts["fused"]

    assert fused.dtype == dtype
    expected = worked.fused if dtype is np.float16 else np.rint(worked.fused)
    np.testing.assert_array_equal(fused, expected.astype(dtype))
    assert ("without loss" in stack.note) == (dtype in (np.int32, np.float16))


@pytest.fixture
def acquisition():
    """Two time points, two channels and three planes of 40 x 48 pixels."""
    scenes = [make_focus_stack(n_images=3, shape=(40, 48), seed=seed, is_color=False).images for seed in range(4)]
    return np.stack(scenes).reshape(2, 2, 3, 40, 48)


def test_all_points_in_time_and_all_channels_are_fused_in_one_run(acquisition, job):
    layer = Image(acquisition, rgb=False, name="cells", axis_labels=("t", "c", "z", "y", "x"))
    series = choose_series([layer])

    outcome = fuse_series(request(series), job=job)

    assert [channel.title for channel in series.channels] == ["cells, c 0", "cells, c 1"]
    for number, found in enumerate(outcome):
        assert found.parts["fused"].shape == (2, 1, 1, 40, 48)
        for time in range(2):
            expected = fuse(list(acquisition[time, number]), CONFIG)
            np.testing.assert_array_equal(found.parts["fused"][time, 0, 0], expected.fused)
            np.testing.assert_array_equal(found.parts["source_index"][time, 0, 0], expected.source_index)
    fused_steps = [step for step in job.steps if step[1] == 4 * 4]
    assert fused_steps[-1] == (16, 16), "one progress for all four fusions"


@pytest.mark.parametrize("is_on_disk", [False, True])
def test_one_channel_decides_for_all_where_that_is_wanted(acquisition, job, tmp_path, is_on_disk):
    layers = [Image(acquisition[:, number], rgb=False, name=f"dye {number}", axis_labels=("t", "z", "y", "x")) for number in range(2)]
    series = choose_series(layers, decide_by="dye 1")

    outcome = fuse_series(request(series, target=tmp_path / "cells.ome.zarr" if is_on_disk else None), job=job)

    first, second = outcome
    for time in range(2):
        expected = fuse(list(acquisition[time, 1]), CONFIG, companions=list(acquisition[time, 0]))
        for found, plane in ((first, expected.companions), (second, expected.fused)):
            image = found.parts["fused"][0] if is_on_disk else found.parts["fused"]
            np.testing.assert_array_equal(np.asarray(image)[time, 0], plane)
    assert "source_index" in second.parts
    assert "source_index" not in first.parts


def test_heights_come_in_the_unit_of_the_axis(images, job):
    layer = Image(images, rgb=True, scale=(4, 0.5, 0.5), units=("um",) * 3)
    expected = fuse(images, CONFIG, with_position=True)

    outcome = fuse_series(request(choose_planes(layer, 0), with_height=True), job=job)[0]

    np.testing.assert_allclose(outcome.parts["height"], 4 * expected.position, rtol=1e-6)


def test_slabs_and_heights_lie_beside_the_target(images, job, tmp_path):
    stack = choose_planes(Image(np.concatenate([images, images[:2]]), rgb=True), 0)

    outcome = fuse_series(request(stack, target=tmp_path / "leaf.ome.zarr", with_height=True, slab_size=3), job=job)[0]

    assert (tmp_path / "leaf-slabs").is_dir()
    assert outcome.parts["height"].shape == images.shape[1:3]


def test_images_that_are_left_out_take_no_part(images, job):
    stack = replace(choose_planes(Image(images, rgb=True), 0), left_out=(1,))

    np.testing.assert_array_equal(fuse_layers(stack, CONFIG, job=job).parts["fused"], fuse(list(images[[0, 2]]), CONFIG).fused)


def test_a_cluster_computes_the_same(images, job):
    distributed = pytest.importorskip("distributed")
    expected = fuse(images, CONFIG).fused
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster:
        outcome = fuse_series(request(choose_planes(Image(images, rgb=True), 0), scheduler=cluster.scheduler_address), job=job)

    np.testing.assert_array_equal(outcome[0].parts["fused"], expected)
    assert any("dashboard: http://" in note for note in job.notes), "while it computes there is something to look at"


def test_what_the_alignment_found_is_written_and_used_again(moved, job, tmp_path):
    target = tmp_path / "found.json"
    first = fuse_series(request(moved, transforms_target=target), job=job)[0].parts["fused"]

    again = replace(moved, align="none", transforms=load_transforms(target))

    np.testing.assert_array_equal(fuse_layers(again, CONFIG, job=job).parts["fused"], first)
