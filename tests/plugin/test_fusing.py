"""Fusions of layers give what the engine gives, in memory and on disk, for every time point and channel; advice; refusals."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import dask.array as da
import numpy as np
import psutil
import pytest
from napari.components import ViewerModel
from napari.layers import Image

from napari_qmcif import aligning, fusing
from napari_qmcif.aligning import Advice, advise, align_images, make_aligned_layer
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
from napari_qmcif.layers_out import MAP_NAMES, is_source
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

CONFIG = FusionConfig()


@pytest.fixture
def fuse_all(job):
    """Returns what fuses a stack or a series as a run does, with all maps, and returns the outcome of each channel."""

    def run(stack, *, target=None, **options):
        series = stack if isinstance(stack, StackSeries) else StackSeries.of_one(stack)
        wanted = RunOptions(**{"confidence": True, "scale_maps": True, **options})
        return fuse_series(FusionRequest(series=series, config=CONFIG, options=wanted, target=target), job=job)

    return run


@pytest.fixture
def fuse_one(fuse_all):
    return lambda stack, **options: fuse_all(stack, **options)[0].parts["fused"]


@pytest.mark.parametrize("kind", ["arrays", "dask", "pyramid"])
def test_any_kind_of_layer_gives_what_the_engine_gives(kind, images, fuse_all):
    if kind == "arrays":
        stack = choose_layers([Image(image, rgb=True) for image in images])
    elif kind == "dask":
        stack = choose_planes(Image(da.from_array(images, chunks=(1, 32, 32, 3)), rgb=True), 0)
    else:
        stack = choose_planes(Image([images, images[:, ::2, ::2]], rgb=True, multiscale=True), 0)
    expected = fuse(images, CONFIG, with_maps=True)

    (outcome,) = fuse_all(stack)

    for name in ("fused", *MAP_NAMES):
        np.testing.assert_array_equal(outcome.parts[name], getattr(expected, name))
    assert tuple(outcome.focus_range) == tuple(expected.focus_range)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64, bool, np.int8, np.int16, np.int32, np.uint32, np.float16])
def test_samples_come_back_in_the_type_of_their_layer(dtype, images, fuse_one):
    samples = images[..., 1] > 100 if dtype is bool else images[..., 1].astype(np.int64) // 2 - (20 if np.dtype(dtype).kind == "i" else 0)
    stack = choose_planes(Image(samples.astype(dtype), rgb=False, contrast_limits=(0, 1)), 0)
    worked = fuse(list(samples if dtype is bool else samples.astype(np.float64)), CONFIG).fused
    fused = fuse_one(stack)
    assert fused.dtype == dtype
    np.testing.assert_array_equal(fused, (worked if dtype is bool or np.dtype(dtype).kind == "f" else np.rint(worked)).astype(dtype))
    assert ("without loss" in stack.note) == (dtype in (np.int32, np.float16))


def test_opacity_follows_the_decisions_in_memory_and_on_disk(images, fuse_one, tmp_path):
    opacity = np.arange(len(images), dtype=np.uint8)[:, None, None, None] * np.ones((*images.shape[:3], 1), np.uint8)
    stack = choose_planes(Image(np.concatenate((images, opacity), axis=-1), rgb=True), 0)
    expected = fuse(images, CONFIG, companions=list(opacity))
    fused = fuse_one(stack)
    np.testing.assert_array_equal(fused, np.concatenate((expected.fused, expected.companions), axis=-1))
    np.testing.assert_array_equal(fuse_one(stack, target=tmp_path / "leaf.ome.zarr")[0].compute(), fused)


def test_missing_samples_are_refused_in_the_words_of_the_engine(fuse_one):
    samples = np.zeros((2, 16, 16), np.float32)
    samples[1, 3, 4] = np.nan
    with pytest.raises(InvalidImageError, match="holds NaN or infinite samples"):
        fuse_one(choose_planes(Image(samples, contrast_limits=(0, 1)), 0))


def test_cancel_while_images_are_read_reads_no_further(images, job, fuse_one):
    def read(block):
        job.cancel()
        reads.append(1)
        return block

    reads = []
    layers = [Image(da.from_array(image).map_blocks(read, meta=image), rgb=True, visible=False) for image in images]
    reads.clear()
    with pytest.raises(Cancelled, match="the work was cancelled"):
        fuse_one(choose_layers(layers))
    assert len(reads) == 1


def test_a_part_is_fused_with_its_surroundings_and_has_its_own_size(job):
    images = make_focus_stack(n_images=2, shape=(240, 320), seed=1).images
    area = Window(70, 80, 110, 140)
    outer = area.grown(MARGIN_PX, (240, 320))
    part = fuse_area(choose_planes(Image(images, rgb=True), 0), CONFIG, area, job=job).parts["fused"]
    expected = fuse(images[:, outer.top : outer.bottom, outer.left : outer.right], CONFIG).fused
    np.testing.assert_array_equal(part, expected[MARGIN_PX : MARGIN_PX + 40, MARGIN_PX : MARGIN_PX + 60])


@pytest.mark.parametrize("is_color", [False, True])
def test_on_disk_lies_what_memory_would_hold_and_is_opened_lazily(is_color, fuse_all, tmp_path):
    images = make_focus_stack(n_images=2, shape=(300, 600), seed=1, is_color=is_color).images
    stack, expected = choose_planes(Image(da.from_array(images), rgb=is_color), 0), fuse(images, CONFIG, with_maps=True)

    (outcome,) = fuse_all(stack, target=tmp_path / "leaf.ome.zarr")

    levels = outcome.parts["fused"]
    assert (len(levels) > 1, all(isinstance(level, da.Array) for level in levels)) == (True, True)
    np.testing.assert_array_equal(levels[0].compute(), expected.fused)
    for name in MAP_NAMES:
        np.testing.assert_array_equal(outcome.parts[name].compute(), getattr(expected, name))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["leaf-maps", "leaf.ome.zarr"]
    with pytest.raises(QmcifError, match="exists"):
        fuse_all(replace(stack, align="translation"), target=tmp_path / "leaf.ome.zarr")


@pytest.fixture
def moved():
    """Two images of one scene, the second 5 pixels lower and darker, with opacity."""
    scene = make_focus_stack(n_images=2, shape=(300, 400), seed=3).images
    colors = np.stack([scene[0], (np.roll(scene[1], 5, axis=0) * 0.8).astype(np.uint8)])
    return choose_planes(Image(np.concatenate([colors, np.full((2, 300, 400, 1), 200, np.uint8)], axis=-1), rgb=True), 0)


@pytest.mark.parametrize("wanted", [{"align": "translation"}, {"even_exposure": True}])
def test_prepared_images_give_what_the_engine_gives_in_memory_on_disk_and_in_a_preview(moved, wanted, job, fuse_all, fuse_one, tmp_path):
    stack = replace(moved, **wanted)
    expected = fuse(prepare_stack(open_stack([image[..., :3] for image in moved.cut_images()]), **wanted), CONFIG)

    parts = fuse_all(stack)[0].parts

    np.testing.assert_array_equal(parts["fused"][..., :3], expected.fused)
    np.testing.assert_array_equal(parts["fused"][..., 3], 200)
    np.testing.assert_array_equal(parts["source_index"], expected.source_index)
    np.testing.assert_array_equal(fuse_one(stack, target=tmp_path / "leaf.ome.zarr")[0].compute(), parts["fused"])
    preview = fuse_area(stack, CONFIG, Window(120, 150, 180, 250), job=job).parts["fused"].astype(int)
    assert np.abs(preview - parts["fused"][120:180, 150:250]).mean() < 1
    assert np.abs(preview - parts["fused"][125:185, 150:250]).mean() > 5, "as if nothing had been aligned"


def test_what_the_alignment_found_is_written_and_used_again(moved, fuse_one, tmp_path):
    target = tmp_path / "found.json"
    first = fuse_one(replace(moved, align="translation"), transforms=target)
    np.testing.assert_array_equal(fuse_one(replace(moved, transforms=load_transforms(target))), first)


@pytest.fixture
def acquisition():
    """Two time points, two channels and three planes of 40 x 48 pixels."""
    scenes = [make_focus_stack(n_images=3, shape=(40, 48), seed=seed, is_color=False).images for seed in range(4)]
    return np.stack(scenes).reshape(2, 2, 3, 40, 48)


def test_all_points_in_time_and_all_channels_are_fused_in_one_run(acquisition, job, fuse_all):
    series = choose_series([Image(acquisition, rgb=False, name="cells", axis_labels=("t", "c", "z", "y", "x"))])
    for number, found in enumerate(fuse_all(series)):
        assert found.parts["fused"].shape == (2, 1, 1, 40, 48)
        for time in range(2):
            expected = fuse(list(acquisition[time, number]), CONFIG)
            for name in ("fused", "source_index"):
                np.testing.assert_array_equal(found.parts[name][time, 0, 0], getattr(expected, name))
    assert [step for step in job.steps if step[1] == 4 * 4][-1] == (16, 16), "one progress for all four fusions"


@pytest.mark.parametrize("is_on_disk", [False, True])
def test_one_channel_decides_for_all_where_that_is_wanted(acquisition, fuse_all, tmp_path, is_on_disk):
    layers = [Image(acquisition[:, number], rgb=False, name=f"dye {number}", axis_labels=("t", "z", "y", "x")) for number in range(2)]
    first, second = fuse_all(choose_series(layers, decide_by="dye 1"), target=tmp_path / "cells.ome.zarr" if is_on_disk else None)
    for time in range(2):
        expected = fuse(list(acquisition[time, 1]), CONFIG, companions=list(acquisition[time, 0]))
        for found, plane in ((first, expected.companions), (second, expected.fused)):
            image = found.parts["fused"][0] if is_on_disk else found.parts["fused"]
            np.testing.assert_array_equal(np.asarray(image)[time, 0], plane)
    assert ("source_index" in second.parts, "source_index" in first.parts) == (True, False)


def test_heights_slabs_and_images_left_out(images, fuse_all, fuse_one, tmp_path):
    stack = choose_planes(Image(np.concatenate([images, images[:2]]), rgb=True, scale=(4, 0.5, 0.5), units=("um",) * 3), 0)
    three = replace(stack, left_out=(3, 4))
    height = fuse_all(three, height=True)[0].parts["height"]
    np.testing.assert_allclose(height, 4 * fuse(images, CONFIG, with_position=True).position, rtol=1e-6)
    np.testing.assert_array_equal(fuse_one(replace(stack, left_out=(1, 3, 4))), fuse(list(images[[0, 2]]), CONFIG).fused)
    (outcome,) = fuse_all(stack, target=tmp_path / "leaf.ome.zarr", height=True, slab=3)
    assert ((tmp_path / "leaf-slabs").is_dir(), outcome.parts["height"].shape) == (True, images.shape[1:3])


def test_a_cluster_computes_the_same(images, job, fuse_one):
    distributed = pytest.importorskip("distributed")
    stack = choose_planes(Image(images, rgb=True), 0)
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster:
        np.testing.assert_array_equal(fuse_one(stack, scheduler=cluster.scheduler_address), fuse(images, CONFIG).fused)
    assert any("dashboard: http://" in note for note in job.notes), "while it computes there is something to look at"


@pytest.fixture
def layer():
    scene = make_focus_stack(n_images=2, shape=(200, 240), seed=3).images
    space = {"scale": (4, 0.5, 0.5), "translate": (7, 10, 20), "units": ("um",) * 3, "axis_labels": ("z", "y", "x")}
    return Image(np.stack([scene[0], np.roll(scene[1], 12, axis=1)]), rgb=True, name="leaf", **space)


def choose(layer, align="none", **changes):
    return replace(choose_planes(layer, 0), align=align, **changes)


@pytest.fixture
def uneven():
    """Four images that become darker, blue the most."""
    scene = 60 + 0.7 * make_focus_stack(n_images=4, shape=(120, 160), seed=3).images
    drift = np.linspace(1, [0.95, 0.9, 0.8], 4)[:, None, None]
    return Image((scene * drift).astype(np.uint8), rgb=True)


def test_advice_is_given_where_nothing_is_done_about_it(layer, uneven, job, monkeypatch):
    assert advise(choose(layer), job=job) == Advice("neighboring images moved by about 12 px", {"align": "translation"})
    assert advise(choose(layer, "affine"), job=job) == Advice("", {})
    still = Image(make_focus_stack(n_images=2, shape=(200, 240), seed=3).images, rgb=True)
    assert advise(choose(still), job=job) == Advice("", {})
    hint = advise(choose(uneven), job=job)
    assert re.fullmatch(r"brightness or color differ by about \d+ %", hint.text)
    assert hint.changes == {"even_exposure": True}
    assert advise(choose(uneven, even_exposure=True), job=job) == Advice("", {})

    def refuse(stack):
        msg = "damaged"
        raise QmcifError(msg)

    monkeypatch.setattr(aligning, "suggest_even_exposure", refuse)
    uneven.data = uneven.data.copy()
    assert advise(choose(uneven), job=job) == Advice("", {}), "a judgment that fails is no advice"
    job.cancel()
    with pytest.raises(Cancelled):
        advise(choose(still), job=job)
    with pytest.raises(Cancelled):
        align_images(choose(still).cut_images(), choose(still, "translation"), job=job)


def test_what_moved_and_differs_is_estimated_once_until_the_images_change(layer, job, monkeypatch):
    estimated = []

    def prepare(opened, **arguments):
        estimated.extend(name for name in ("align", "even_exposure") if name in arguments)
        return prepare_stack(opened, **arguments)

    monkeypatch.setattr(aligning, "prepare_stack", prepare)

    def align(*wanted, **changes):
        stack = choose(layer, *wanted, **changes)
        return align_images(stack.cut_images(), stack, job=job)

    assert align().transforms is None
    for model in ("translation", "translation", "similarity", "translation"):
        assert align(model).transforms.model == model
    assert (estimated, job.notes) == (["align"] * 2, ["aligning 2 images"] * 2)
    assert align("none", even_exposure=True).correction == align("none", even_exposure=True).correction
    assert estimated == ["align"] * 2 + ["even_exposure"]
    layer.data = layer.data.copy()
    align("translation")
    assert estimated == ["align"] * 2 + ["even_exposure", "align"]


@pytest.mark.parametrize("has_opacity", [False, True])
def test_the_images_are_shown_as_they_are_fused_at_the_place_of_their_stack(layer, job, has_opacity):
    expected = prepare_stack(open_stack(list(layer.data)), align="translation")
    if has_opacity:
        layer.data = np.concatenate([layer.data, np.full((*layer.data.shape[:3], 1), 255, np.uint8)], axis=-1)
    ((lazy, attributes, _),) = make_aligned_layer(choose(layer, "translation"), job=job)
    shown = ViewerModel().add_image(lazy, **attributes)
    for number in range(2):
        np.testing.assert_array_equal(np.asarray(lazy[number]), expected.read(number, Window(0, 0, 200, 240)))
    assert (shown.name, shown.rgb, is_source(shown), shown.axis_labels) == ("leaf: aligned", True, False, ("z", "y", "x"))
    np.testing.assert_allclose((shown.scale, shown.translate), ((4, 0.5, 0.5), (7, 10, 20)))
    assert [str(unit) for unit in shown.units] == ["micrometer"] * 3


def test_images_that_are_layers_are_shown_one_behind_the_other(images, job):
    layers = [Image(image, rgb=True, scale=(0.5, 0.5), shear=[0.1]) for image in images]
    ((lazy, attributes, _),) = make_aligned_layer(choose_layers(layers), job=job)
    np.testing.assert_array_equal(np.asarray(lazy), images)
    np.testing.assert_allclose(Image(lazy, **attributes).data_to_world((1, 4, 6)), (1, *layers[0].data_to_world((4, 6))))


def test_memory_counts_the_results_and_what_is_still_to_be_loaded():
    array = np.zeros((4, 40, 50, 3), np.uint8)
    some_lazy = [Image(array[0], rgb=True), Image(da.from_array(array[1]), rgb=True)]
    times = Image(np.zeros((5, 4, 40, 50), np.uint8), rgb=False)
    for layers, n_bytes in (
        ([Image(array, rgb=True)], 3 + MAP_PIXEL_BYTES),
        ([Image(da.from_array(array), rgb=True)], 3 * 5 + MAP_PIXEL_BYTES),
        (some_lazy, 3 * 3 + MAP_PIXEL_BYTES),
        ([times], 5 * (1 + MAP_PIXEL_BYTES)),
    ):
        assert estimate_bytes(choose_series(layers)) == 40 * 50 * n_bytes


def test_a_result_goes_where_it_is_wanted_or_fits(monkeypatch, tmp_path):
    series = choose_series([Image(np.zeros((3, 40, 50), np.uint16), name="leaf")])
    assert choose_target(RunOptions(), series) is None
    for name in ("leaf", "leaf.ome.zarr"):
        assert choose_target(RunOptions(destination=tmp_path / name, slab=3), series) == tmp_path / "leaf.ome.zarr"
    with pytest.raises(InvalidConfigError, match=r"slabs were asked for .* name a place under Result"):
        choose_target(RunOptions(slab=3), series)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))
    with pytest.raises(InvalidImageError, match=r"images and result take 0.0 GB and 0.0 GB may be used; a place on disk is needed"):
        choose_target(RunOptions(), series)
    monkeypatch.setattr(fusing, "read_preferences", lambda: Preferences(scratch_folder=tmp_path))
    assert choose_target(RunOptions(), series) == tmp_path / "leaf.ome.zarr"


MISSING = Path("missing").absolute()
FOUND = Path("found.json").absolute()


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
        ({"transforms": FOUND}, r"'found.json' holds no transforms and nothing is aligned; .* set Align"),
        ({"transforms": FOUND, "align": "affine"}, r"2 stacks are aligned and 'found.json' holds the transforms of one"),
    ],
)
def test_wishes_that_cannot_be_fulfilled_are_refused_in_words(wishes, reason):
    shape = (2, 3, 40, 50) if "stacks are aligned" in reason else (3, 40, 50)
    layer, options = Image(np.zeros(shape, np.uint16), rgb=False, name="leaf"), RunOptions(**wishes)
    with pytest.raises(InvalidConfigError, match=reason):
        choose_target(options, choose_images([layer], options))
