"""A worker gets from layers what the engine gives from arrays."""

from dataclasses import replace

import dask.array as da
import numpy as np
import pytest
from napari.layers import Image
from qtpy.QtCore import QObject

from napari_qmcif.chosen_stack import choose_pictures, choose_planes
from napari_qmcif.layer_fusing import MARGIN_PX, fuse_area, fuse_layers, fuse_to_disk
from napari_qmcif.layers import MAP_NAMES
from napari_qmcif.preview_area import Area
from napari_qmcif.worker import BackgroundJob
from qmcif_engine import Cancelled, FusionConfig, InvalidImageError, QmcifError, fuse, make_focus_stack, open_stack, prepare_stack

CONFIG = FusionConfig().replaced({"iterations": 1})


@pytest.fixture
def job(qapp):
    owner = QObject()
    job = BackgroundJob(lambda _: None, owner=owner)
    yield job
    owner.deleteLater()


@pytest.mark.parametrize("kind", ["arrays", "dask", "pyramid"])
def test_any_kind_of_layer_gives_what_the_engine_gives(kind, pictures, job):
    if kind == "arrays":
        stack = choose_pictures([Image(picture, rgb=True) for picture in pictures])
    elif kind == "dask":
        stack = choose_planes(Image(da.from_array(pictures, chunks=(1, 32, 32, 3)), rgb=True), 0, point=(0, 0, 0))
    else:
        stack = choose_planes(Image([pictures, pictures[:, ::2, ::2]], rgb=True, multiscale=True), 0, point=(0, 0, 0))
    expected = fuse(pictures, CONFIG)

    outcome = fuse_layers(stack, CONFIG, job=job)

    np.testing.assert_array_equal(outcome.pictures["fused"], expected.fused)
    for name in MAP_NAMES:
        np.testing.assert_array_equal(outcome.pictures[name], getattr(expected, name))
    assert outcome.focus_range == tuple(expected.focus_range)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
def test_gray_stacks_keep_their_type(dtype, pictures, job):
    layer = Image(pictures[..., 1].astype(dtype), rgb=False)

    fused = fuse_layers(choose_planes(layer, 0, point=(0, 0, 0)), CONFIG, job=job).pictures["fused"]

    assert (fused.dtype, fused.shape) == (dtype, pictures.shape[1:3])


def test_opacity_follows_the_decisions_without_taking_part(pictures, job):
    opacity = np.arange(len(pictures), dtype=np.uint8)[:, None, None, None] * np.ones((*pictures.shape[:3], 1), np.uint8)
    layer = Image(np.concatenate((pictures, opacity), axis=-1), rgb=True)
    expected = fuse(pictures, CONFIG, companions=list(opacity))

    fused = fuse_layers(choose_planes(layer, 0, point=(0, 0, 0)), CONFIG, job=job).pictures["fused"]

    np.testing.assert_array_equal(fused[..., :3], expected.fused)
    np.testing.assert_array_equal(fused[..., 3:], expected.companions)


def test_missing_samples_are_refused_in_the_words_of_the_engine(job):
    samples = np.zeros((2, 16, 16), np.float32)
    samples[1, 3, 4] = np.nan

    with pytest.raises(InvalidImageError, match="holds NaN or infinite samples"):
        fuse_layers(choose_planes(Image(samples, contrast_limits=(0, 1)), 0, point=(0, 0, 0)), CONFIG, job=job)


def test_cancel_while_images_are_read_reads_no_further(pictures, job):
    def read(block):
        job.cancel()
        reads.append(1)
        return block

    reads = []
    layers = [Image(da.from_array(picture).map_blocks(read, meta=picture), rgb=True, visible=False) for picture in pictures]
    reads.clear()

    with pytest.raises(Cancelled, match="the fusion was cancelled while its images were read"):
        fuse_layers(choose_pictures(layers), CONFIG, job=job)

    assert len(reads) == 1


def test_a_part_is_fused_with_its_surroundings_and_has_its_own_size(job):
    pictures = make_focus_stack(n_images=2, shape=(240, 320), seed=1).images
    stack = choose_planes(Image(pictures, rgb=True), 0, point=(0, 0, 0))
    area = Area(70, 80, 110, 140)
    outer = area.grown(MARGIN_PX, (240, 320))

    outcome = fuse_area(stack, CONFIG, area=area, job=job)

    expected = fuse(pictures[:, outer.top : outer.bottom, outer.left : outer.right], CONFIG).fused
    assert outcome.pictures["fused"].shape == (40, 60, 3)
    np.testing.assert_array_equal(outcome.pictures["fused"], expected[MARGIN_PX : MARGIN_PX + 40, MARGIN_PX : MARGIN_PX + 60])


@pytest.mark.parametrize("is_color", [False, True])
def test_on_disk_lies_what_memory_would_hold_and_is_opened_lazily(is_color, job, tmp_path):
    pictures = make_focus_stack(n_images=2, shape=(300, 600), seed=1).images
    pictures = pictures if is_color else pictures[..., 0]
    stack = choose_planes(Image(da.from_array(pictures), rgb=is_color), 0, point=(0, 0, 0))
    expected = fuse(pictures, CONFIG)

    outcome = fuse_to_disk(stack, CONFIG, target=tmp_path / "leaf.ome.zarr", job=job)

    levels = outcome.pictures["fused"]
    assert len(levels) > 1
    assert all(isinstance(level, da.Array) for level in levels)
    np.testing.assert_array_equal(levels[0].compute(), expected.fused)
    for name in MAP_NAMES:
        np.testing.assert_array_equal(outcome.pictures[name].compute(), getattr(expected, name))
    assert outcome.focus_range == tuple(expected.focus_range)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["leaf-maps", "leaf.ome.zarr"]


def test_on_disk_opacity_follows_the_decisions_too(pictures, job, tmp_path):
    opacity = np.arange(len(pictures), dtype=np.uint8)[:, None, None, None] * np.ones((*pictures.shape[:3], 1), np.uint8)
    stack = choose_planes(Image(np.concatenate((pictures, opacity), axis=-1), rgb=True), 0, point=(0, 0, 0))

    outcome = fuse_to_disk(stack, CONFIG, target=tmp_path / "leaf.ome.zarr", job=job)

    np.testing.assert_array_equal(outcome.pictures["fused"][0].compute(), fuse_layers(stack, CONFIG, job=job).pictures["fused"])


@pytest.fixture
def moved():
    """Two pictures of one scene, the second 5 pixels lower, with opacity."""
    scene = make_focus_stack(n_images=2, shape=(300, 400), seed=3).images
    opacity = np.full((2, 300, 400, 1), 200, np.uint8)
    images = np.concatenate([np.stack([scene[0], np.roll(scene[1], 5, axis=0)]), opacity], axis=-1)
    return replace(choose_planes(Image(images, rgb=True), 0, point=(0, 0, 0)), align="translation")


def test_aligned_images_give_what_the_engine_gives_in_memory_and_on_disk(moved, job, tmp_path):
    prepared = prepare_stack(open_stack([image[..., :3] for image in moved.cut_images()]), align="translation")
    expected = fuse(prepared, CONFIG)

    in_memory = fuse_layers(moved, CONFIG, job=job).pictures
    on_disk = fuse_to_disk(moved, CONFIG, target=tmp_path / "leaf.ome.zarr", job=job).pictures

    assert in_memory["fused"].shape == (300, 400, 4)
    np.testing.assert_array_equal(in_memory["fused"][..., :3], expected.fused)
    np.testing.assert_array_equal(in_memory["source_index"], expected.source_index)
    np.testing.assert_array_equal(on_disk["fused"][0].compute(), in_memory["fused"])


def test_a_preview_of_aligned_images_shows_what_the_run_will_give(moved, job):
    whole = fuse_layers(moved, CONFIG, job=job).pictures["fused"].astype(int)

    part = fuse_area(moved, CONFIG, area=Area(120, 150, 180, 250), job=job).pictures["fused"]

    assert part.shape == (60, 100, 4)
    assert np.abs(part - whole[120:180, 150:250]).mean() < 1
    assert np.abs(part - whole[125:185, 150:250]).mean() > 5  # as if nothing had been aligned


def test_exposure_is_evened_out_in_memory_on_disk_and_in_a_preview(moved, job, tmp_path):
    dark = np.stack(moved.cut_images())
    dark[1, ..., :3] = dark[1, ..., :3] * 0.8
    stack = replace(choose_planes(Image(dark, rgb=True), 0, point=(0, 0, 0)), even_exposure=True)
    expected = fuse(prepare_stack(open_stack(list(dark[..., :3])), even_exposure=True), CONFIG).fused

    in_memory = fuse_layers(stack, CONFIG, job=job).pictures["fused"]
    on_disk = fuse_to_disk(stack, CONFIG, target=tmp_path / "leaf.ome.zarr", job=job).pictures["fused"]
    part = fuse_area(stack, CONFIG, area=Area(120, 150, 180, 250), job=job).pictures["fused"]

    np.testing.assert_array_equal(in_memory[..., :3], expected)
    np.testing.assert_array_equal(in_memory[..., 3], 200)
    np.testing.assert_array_equal(on_disk[0].compute(), in_memory)
    assert np.abs(part - in_memory[120:180, 150:250].astype(int)).mean() < 1


def test_on_disk_nothing_that_exists_is_replaced(pictures, job, tmp_path):
    (tmp_path / "leaf.ome.zarr").mkdir()
    stack = choose_planes(Image(pictures, rgb=True), 0, point=(0, 0, 0))

    with pytest.raises(QmcifError, match="exists"):
        fuse_to_disk(stack, CONFIG, target=tmp_path / "leaf.ome.zarr", job=job)
