"""A deep stack in slabs: intermediate results stay, and the maps name images of the whole stack."""

import numpy as np
import pytest
import tifffile

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.depth import HeightRequest
from qmcif_engine.errors import Cancelled, OutputError
from qmcif_engine.fusing.in_memory import fuse
from qmcif_engine.io.output.leftovers import name_temporary
from qmcif_engine.io.output.owners import this_process
from qmcif_engine.io.output.sweeping import forget_sweeps
from qmcif_engine.slabs import SlabLayout, fuse_in_slabs
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


def test_an_interrupted_run_takes_finished_slabs_as_they_are(images, tmp_path):
    options = {"slabs": layout(tmp_path / "slabs"), "workers": 1}
    seen = []
    with pytest.raises(Cancelled):
        fuse_in_slabs(
            stack_arrays(images), tmp_path / "f.tif", CONFIG, **options, on_progress=seen.append, is_cancelled=lambda: len(seen) >= 8
        )
    first = tmp_path / "slabs" / "slab_001.ome.tif"
    stamp = first.stat().st_mtime_ns
    assert not (tmp_path / "f.tif").exists()

    fuse_in_slabs(stack_arrays(images), tmp_path / "f.tif", CONFIG, **options, resume=True, on_progress=seen.append)
    fuse_in_slabs(stack_arrays(images), tmp_path / "whole.tif", CONFIG, slabs=layout(tmp_path / "others"))

    assert first.stat().st_mtime_ns == stamp
    assert (tmp_path / "f.tif").read_bytes() == (tmp_path / "whole.tif").read_bytes()
    assert seen[-1].done == seen[-1].total == 3 * 5 + 4


def test_resuming_with_other_settings_is_refused(images, tmp_path):
    slabs = layout(tmp_path / "slabs")
    fuse_in_slabs(stack_arrays(images), tmp_path / "f.tif", CONFIG, slabs=slabs)

    with pytest.raises(OutputError, match=r"slab_001\.ome\.tif' has other images, settings or another version"):
        fuse_in_slabs(stack_arrays(images), tmp_path / "g.tif", CONFIG.replaced({"iterations": 3}), slabs=slabs, resume=True)


def test_existing_slabs_stay_unless_asked(images, tmp_path):
    (tmp_path / "slabs").mkdir()
    (tmp_path / "slabs" / "slab_001.ome.tif").write_bytes(b"precious")

    with pytest.raises(OutputError, match="exists"):
        fuse_in_slabs(stack_arrays(images), tmp_path / "f.tif", CONFIG, slabs=layout(tmp_path / "slabs"))

    assert (tmp_path / "slabs" / "slab_001.ome.tif").read_bytes() == b"precious"
    assert not (tmp_path / "f.tif").exists()


def test_what_a_killed_run_left_among_finished_slabs_is_removed(images, tmp_path):
    slabs, target = layout(tmp_path / "slabs"), tmp_path / "fused.tif"
    fuse_in_slabs(stack_arrays(images), target, CONFIG, slabs=slabs)
    left = slabs.folder / name_temporary().replace(this_process().tag, this_process()._replace(start="1").tag)
    left.write_bytes(b"half")
    forget_sweeps()

    fuse_in_slabs(stack_arrays(images), target, CONFIG, slabs=slabs, resume=True)
    assert not left.exists()


def test_slabs_do_not_change_while_a_run_is_going_on(images, tmp_path):
    slabs, refused = layout(tmp_path / "slabs"), []

    def start_another(progress):
        if not refused:
            with pytest.raises(OutputError, match="a run is going on in") as caught:
                fuse_in_slabs(stack_arrays(images[::-1]), tmp_path / "other.tif", CONFIG, slabs=slabs, overwrite=True)
            refused.append(caught)

    fuse_in_slabs(stack_arrays(images), tmp_path / "fused.tif", CONFIG, slabs=slabs, on_progress=start_another)
    assert refused
    assert not (slabs.folder / ".qmcif-slabs.lock").exists()
