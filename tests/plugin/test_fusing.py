"""Fusions of layers give what the engine gives, in memory and on disk, for every time point and channel; advice; refusals."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import dask.array as da
import numpy as np
import psutil
import pytest
from napari.layers import Image

from napari_qmcif import aligning, fusing
from napari_qmcif.aligning import Advice, advise, align_images
from napari_qmcif.fusing import (
    MAP_PIXEL_BYTES,
    MARGIN_PX,
    FusionRequest,
    choose_images,
    choose_target,
    estimate_bytes,
    fuse_area,
    fuse_series,
)
from napari_qmcif.layers_in import StackSeries, choose_layers, choose_planes, choose_series
from napari_qmcif.layers_out import ALIGNMENTS, MAP_NAMES
from napari_qmcif.preferences import Preferences, RunOptions
from qmcif_engine import (
    Cancelled,
    FusionConfig,
    InvalidConfigError,
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


def request(stack, *, target=None, **options):
    series = stack if isinstance(stack, StackSeries) else StackSeries.of_one(stack)
    wanted = RunOptions(**{"confidence": True, "scale_maps": True, **options})
    return FusionRequest(series=series, config=CONFIG, options=wanted, target=target)


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


def test_cancel_while_images_are_read_reads_no_further(images, job):
    def read(block):
        job.cancel()
        reads.append(1)
        return block

    reads = []
    layers = [Image(da.from_array(image).map_blocks(read, meta=image), rgb=True, visible=False) for image in images]
    reads.clear()

    with pytest.raises(Cancelled, match="the work was cancelled"):
        fuse_layers(choose_layers(layers), CONFIG, job=job)

    assert len(reads) == 1


def test_a_part_is_fused_with_its_surroundings_and_has_its_own_size(job):
    images = make_focus_stack(n_images=2, shape=(240, 320), seed=1).images
    stack = choose_planes(Image(images, rgb=True), 0, point=(0, 0, 0))
    area = Window(70, 80, 110, 140)
    outer = area.grown(MARGIN_PX, (240, 320))

    outcome = fuse_area(stack, CONFIG, area, job=job)

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

    part = fuse_area(moved, CONFIG, Window(120, 150, 180, 250), job=job).parts["fused"]

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
    part = fuse_area(stack, CONFIG, Window(120, 150, 180, 250), job=job).parts["fused"]

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
    worked = fuse(list(samples if dtype is bool else samples.astype(np.float64)), CONFIG)

    fused = fuse_layers(stack, CONFIG, job=job).parts["fused"]

    assert fused.dtype == dtype
    expected = worked.fused if dtype in (bool, np.float16) else np.rint(worked.fused)
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

    assert list(series.titles) == ["cells, c 0", "cells, c 1"]
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

    outcome = fuse_series(request(choose_planes(layer, 0), height=True), job=job)[0]

    np.testing.assert_allclose(outcome.parts["height"], 4 * expected.position, rtol=1e-6)


def test_slabs_and_heights_lie_beside_the_target(images, job, tmp_path):
    stack = choose_planes(Image(np.concatenate([images, images[:2]]), rgb=True), 0)

    outcome = fuse_series(request(stack, target=tmp_path / "leaf.ome.zarr", height=True, slab=3), job=job)[0]

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
    first = fuse_series(request(moved, transforms=target), job=job)[0].parts["fused"]

    again = replace(moved, align="none", transforms=load_transforms(target))

    np.testing.assert_array_equal(fuse_layers(again, CONFIG, job=job).parts["fused"], first)


@pytest.fixture
def layer():
    scene = make_focus_stack(n_images=2, shape=(200, 240), seed=3).images
    return Image(np.stack([scene[0], np.roll(scene[1], 5, axis=1)]), rgb=True)


def choose(layer, align="none"):
    return replace(choose_planes(layer, 0, point=(0, 0, 0)), align=align)


def test_a_stack_that_visibly_moved_gets_advice(layer, job):
    layer.data = np.stack([layer.data[0], np.roll(layer.data[1], 7, axis=1)])

    assert advise(choose(layer), job=job) == Advice("neighboring images moved by about 12 px", {"align": "translation"})


def test_a_stack_that_is_aligned_anyway_or_did_not_move_gets_none(layer, job):
    still = Image(make_focus_stack(n_images=2, shape=(200, 240), seed=3).images, rgb=True)

    assert advise(choose(layer, "affine"), job=job) == Advice("", {})
    assert advise(choose(still), job=job) == Advice("", {})


@pytest.fixture
def uneven():
    """Four images that become darker, blue the most."""
    scene = 60 + 0.7 * make_focus_stack(n_images=4, shape=(120, 160), seed=3).images
    drift = np.linspace(1, [0.95, 0.9, 0.8], 4)[:, None, None]
    return Image((scene * drift).astype(np.uint8), rgb=True)


def test_a_stack_of_uneven_brightness_gets_advice_unless_it_is_evened_out_anyway(uneven, job):
    hint = advise(choose(uneven), job=job)

    assert re.fullmatch(r"brightness or color differ by about \d+ %", hint.text)
    assert hint.changes == {"even_exposure": True}
    assert advise(replace(choose(uneven), even_exposure=True), job=job) == Advice("", {})


def test_a_failing_judgment_is_no_advice(uneven, job, monkeypatch):
    def refuse(stack):
        msg = "damaged"
        raise QmcifError(msg)

    monkeypatch.setattr(aligning, "suggest_even_exposure", refuse)

    assert advise(choose(uneven), job=job) == Advice("", {})


def test_brightness_is_compared_once_and_evened_out(uneven, job, monkeypatch):
    stack = replace(choose(uneven), even_exposure=True)
    calls = []

    def count(*arguments, **options):
        calls.append(options)
        return prepare_stack(*arguments, **options)

    monkeypatch.setattr(aligning, "prepare_stack", count)
    first, second = (align_images(stack.cut_images(), stack, job=job) for _ in range(2))

    assert [options.get("even_exposure", False) for options in calls] == [True, False, False]
    assert first.correction == second.correction
    assert first.correction.gains[3][2] > first.correction.gains[3][0] > 1


def test_looking_at_the_images_can_be_cancelled(layer, job):
    job.cancel()

    with pytest.raises(Cancelled):
        advise(choose(layer), job=job)


def test_images_that_are_not_to_be_aligned_are_only_opened(layer, job):
    stack = choose(layer)

    assert align_images(stack.cut_images(), stack, job=job).transforms is None


def test_what_moved_is_estimated_once_until_the_images_change(layer, job, monkeypatch):
    estimated = []

    def prepare(opened, **arguments):
        if "align" in arguments:
            estimated.append(arguments["align"])
        return prepare_stack(opened, **arguments)

    monkeypatch.setattr(aligning, "prepare_stack", prepare)
    for align in ("translation", "translation", "similarity", "translation"):
        stack = choose(layer, align)
        align_images(stack.cut_images(), stack, job=job)
    assert estimated == ["translation", "similarity"]
    assert job.notes == ["aligning 2 images"] * 2

    layer.data = layer.data.copy()
    stack = choose(layer, "translation")
    align_images(stack.cut_images(), stack, job=job)
    assert estimated == ["translation", "similarity", "translation"]


def test_aligning_can_be_cancelled(layer, job):
    stack = choose(layer, "translation")
    job.cancel()

    with pytest.raises(Cancelled, match="the work was cancelled"):
        align_images(stack.cut_images(), stack, job=job)


def test_the_widget_offers_every_model_of_the_engine():
    from qmcif_engine.stack.alignment.transforms import TransformModel

    assert tuple(TransformModel) == ALIGNMENTS


@pytest.fixture
def series():
    return choose_series([Image(np.zeros((3, 40, 50), np.uint16), name="leaf")])


@pytest.fixture
def full_memory(monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))


def test_memory_counts_the_results_and_what_is_still_to_be_loaded():
    array = np.zeros((4, 40, 50, 3), np.uint8)
    lazy = Image(da.from_array(array), rgb=True)
    times = Image(np.zeros((5, 4, 40, 50), np.uint8), rgb=False)
    some_lazy = [Image(array[0], rgb=True), Image(da.from_array(array[1]), rgb=True)]

    assert estimate_bytes(choose_series([Image(array, rgb=True)])) == 40 * 50 * (3 + MAP_PIXEL_BYTES)
    assert estimate_bytes(choose_series([lazy])) == 40 * 50 * (3 * 5 + MAP_PIXEL_BYTES)
    assert estimate_bytes(choose_series(some_lazy)) == 40 * 50 * (3 * 3 + MAP_PIXEL_BYTES)
    assert estimate_bytes(choose_series([times])) == 5 * 40 * 50 * (1 + MAP_PIXEL_BYTES)


def test_a_small_result_stays_in_memory(series):
    assert choose_target(RunOptions(), series) is None


def test_a_result_beyond_the_free_memory_needs_a_place_on_disk(series, full_memory):
    with pytest.raises(InvalidImageError, match=r"images and result take 0.0 GB and 0.0 GB may be used; a place on disk is needed"):
        choose_target(RunOptions(), series)


def test_the_scratch_folder_of_preferences_takes_what_does_not_fit_into_memory(series, full_memory, monkeypatch, tmp_path):
    monkeypatch.setattr(fusing, "read_preferences", lambda: Preferences(scratch_folder=tmp_path))

    assert choose_target(RunOptions(), series) == tmp_path / "leaf.ome.zarr"


@pytest.mark.parametrize("name", ["leaf", "leaf.ome.zarr"])
def test_the_suffix_is_added_where_it_is_missing(series, tmp_path, name):
    assert choose_target(RunOptions(destination=tmp_path / name), series) == tmp_path / "leaf.ome.zarr"


def test_slabs_need_a_place(series, tmp_path):
    with pytest.raises(InvalidConfigError, match=r"slabs were asked for .* name a place under Result"):
        choose_target(RunOptions(slab=3), series)

    assert choose_target(RunOptions(slab=3, destination=tmp_path / "leaf"), series) is not None


def test_a_missing_file_of_transforms_needs_something_to_write_into_it(tmp_path):
    layer = Image(np.zeros((3, 40, 50), np.uint16))

    with pytest.raises(InvalidConfigError, match=r"'found.json' holds no transforms and nothing is aligned; .* set Align"):
        choose_images([layer], RunOptions(transforms=tmp_path / "found.json"))

    assert choose_images([layer], RunOptions(align="affine", transforms=tmp_path / "found.json")).first.align == "affine"


def test_the_transforms_of_several_stacks_do_not_overwrite_each_other(tmp_path):
    layer = Image(np.zeros((2, 3, 40, 50), np.uint16), rgb=False)

    with pytest.raises(InvalidConfigError, match=r"2 stacks are aligned and 'found.json' holds the transforms of one: set Series"):
        choose_images([layer], RunOptions(align="affine", transforms=tmp_path / "found.json"))


MISSING = Path("missing").absolute()


@pytest.mark.parametrize(
    ("wishes", "reason"),
    [
        ({"leave_out": "7"}, r"'7' names no images of this stack; numbers from 1 to 3 are needed"),
        ({"leave_out": "two"}, r"'two' names no images"),
        ({"leave_out": "1-2"}, r"1 of 3 images are left; at least 2 are needed"),
        ({"leave_out": "1-3", "reference": 9}, r"0 of 3 images are left; at least 2 are needed: leave fewer out"),
        ({"leave_out": "2", "reference": 2}, r"image 2 is left out and is the reference too"),
        ({"reference": 9}, r"image 9 was given as the reference; the stack has 3"),
        ({"transforms": MISSING / "found.json"}, r"the folder '.*missing' does not exist; an existing one is needed"),
        ({"destination": MISSING / "sharp"}, r"the folder '.*missing' does not exist; an existing one is needed"),
    ],
)
def test_wishes_that_cannot_be_fulfilled_are_refused_in_words(wishes, reason):
    layer, options = Image(np.zeros((3, 40, 50), np.uint16), name="leaf"), RunOptions(**wishes)

    with pytest.raises(InvalidConfigError, match=reason):
        choose_target(options, choose_images([layer], options))
