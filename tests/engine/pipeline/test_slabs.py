"""A deep stack in slabs: intermediate results stay, and the maps name images of the whole stack."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import tifffile

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.depth import HeightRequest
from qmcif_engine.errors import Cancelled, InvalidConfigError, OutputError, QmcifError
from qmcif_engine.pipeline.in_memory import fuse
from qmcif_engine.pipeline.outputs import SlabLayout, plan_slabs
from qmcif_engine.pipeline.to_file import fuse_in_slabs
from qmcif_engine.stack.stack import stack_arrays

CONFIG = FusionConfig().replaced({"iterations": 2})
N_IMAGES = 8
SHAPE = (64, 160)


@pytest.fixture(scope="module")
def images():
    """Image n is sharp in the n-th of eight strips."""
    generator = np.random.default_rng(1)
    sharp = generator.integers(0, 256, (*SHAPE, 3))
    strip = np.arange(SHAPE[1]) * N_IMAGES // SHAPE[1]
    distance = np.abs(strip[None] - np.arange(N_IMAGES)[:, None])
    contrast = 0.45 ** distance[:, None, :, None]
    return list(np.rint(128 + (sharp - 128) * contrast).astype(np.uint8))


def layout(folder, size=4, overlap=1):
    return SlabLayout(size=size, overlap=overlap, folder=folder)


def test_the_result_and_its_maps_are_those_of_the_stack_fused_at_once(images, tmp_path):
    whole = fuse(images, CONFIG, with_position=True)
    height = HeightRequest(target=tmp_path / "height.ome.tif", z_step=0.5, unit="micrometer")

    report = fuse_in_slabs(
        stack_arrays(images), tmp_path / "fused.tif", CONFIG, slabs=layout(tmp_path / "slabs"), maps=tmp_path / "maps", height=height
    )

    index = tifffile.imread(tmp_path / "maps" / "source_index.tif")
    assert np.mean(index == whole.source_index) > 0.97
    assert np.abs(tifffile.imread(tmp_path / "fused.tif") - whole.fused.astype(float)).mean() < 1
    heights = tifffile.imread(tmp_path / "height.ome.tif")
    assert np.mean(np.abs(heights - 0.5 * whole.position) < 0.26) > 0.97
    assert np.abs(heights / 0.5 - index).max() <= 1 + 1e-5
    assert report.pixels_by_image == tuple(np.bincount(index.ravel(), minlength=N_IMAGES))
    assert report.n_images == N_IMAGES


def test_every_slab_is_kept_as_a_picture_of_its_own(images, tmp_path):
    report = fuse_in_slabs(stack_arrays(images), tmp_path / "fused.tif", CONFIG, slabs=layout(tmp_path / "slabs"))

    pictures = [tmp_path / "slabs" / f"slab_00{number}.ome.tif" for number in (1, 2, 3)]
    assert report.outputs == (tmp_path / "fused.tif", *pictures)
    bounds = report.focus_range
    for path, span in zip(pictures, [slice(0, 4), slice(3, 7), slice(4, 8)], strict=True):
        np.testing.assert_array_equal(tifffile.imread(path), fuse(images[span], CONFIG, focus_range=bounds).fused)


def test_an_interrupted_run_goes_on_with_the_tiles_of_its_slabs_and_ends_with_the_same_bytes(images, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    seen = []
    fuse_in_slabs(stack_arrays(images), whole / "f.tif", CONFIG, slabs=layout(whole / "slabs"))
    options = {"slabs": layout(parts / "slabs"), "workers": 1}
    with pytest.raises(Cancelled):
        fuse_in_slabs(
            stack_arrays(images), parts / "f.tif", CONFIG, **options, on_progress=seen.append, is_cancelled=lambda: len(seen) >= 8
        )
    assert [path.name for path in parts.iterdir()] == ["f.tif.qmcif-job"]
    assert seen[-1].total == 3 * 5 + 4

    fuse_in_slabs(stack_arrays(images), parts / "f.tif", CONFIG, **options, resume=True, on_progress=seen.append)

    assert seen[-1].done == seen[-1].total == 2 * 5 + 4
    found, expected = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()} for folder in (parts, whole)
    )
    assert found == expected


@pytest.mark.parametrize("with_heights", [False, True])
def test_finished_slabs_are_recognized_only_as_those_of_the_same_settings(images, tmp_path, with_heights):
    height = HeightRequest(target=tmp_path / "h.tif", z_step=0.5) if with_heights else None
    run = partial(fuse_in_slabs, stack_arrays(images), tmp_path / "f.tif", slabs=layout(tmp_path / "slabs"), height=height)
    first = run(CONFIG)
    assert run(CONFIG, resume=True).identity == first.identity

    with pytest.raises(OutputError, match="is not known to be the result of these images and settings"):
        run(CONFIG.replaced({"feather_px": 8}), resume=True)
    assert run(CONFIG.replaced({"feather_px": 8}), resume=True, overwrite=True).identity != first.identity
    (tmp_path / "slabs" / "slab_002.ome.tif").write_bytes(b"another")
    with pytest.raises(QmcifError):
        run(CONFIG, resume=True)


def test_existing_slabs_stay_unless_asked(images, tmp_path):
    (tmp_path / "slabs").mkdir()
    (tmp_path / "slabs" / "slab_001.ome.tif").write_bytes(b"precious")

    with pytest.raises(OutputError, match="exists"):
        fuse_in_slabs(stack_arrays(images), tmp_path / "f.tif", CONFIG, slabs=layout(tmp_path / "slabs"))

    assert (tmp_path / "slabs" / "slab_001.ome.tif").read_bytes() == b"precious"
    assert not (tmp_path / "f.tif").exists()


@pytest.mark.parametrize(("n_images", "size", "overlap"), [(10, 4, 1), (10, 4, 0), (300, 20, 5), (7, 6, 5), (3, 2, 0)])
def test_slabs_of_one_size_cover_every_image_and_overlap_at_least_as_asked(n_images, size, overlap):
    spans = plan_slabs(n_images, size=size, overlap=overlap)

    assert {len(span) for span in spans} == {size}
    assert sorted({number for span in spans for number in span}) == list(range(n_images))
    assert all(len(set(one) & set(other)) >= overlap for one, other in pairwise(spans))
    assert len(set(spans)) == len(spans)


@pytest.mark.parametrize("size", [1, 10, 11])
def test_a_size_that_is_no_part_of_the_stack_is_refused(size):
    with pytest.raises(InvalidConfigError, match=rf"slabs of {size} images were asked of a stack of 10; 2 to 9 are needed"):
        plan_slabs(10, size=size, overlap=0)


@pytest.mark.parametrize("overlap", [-1, 4])
def test_an_overlap_that_leaves_no_progress_is_refused(overlap):
    with pytest.raises(InvalidConfigError, match=rf"an overlap of {overlap} images was asked of slabs of 4; 0 to 3 are needed"):
        plan_slabs(10, size=4, overlap=overlap)
