"""Decisions from one stack, samples from another: in memory, lazily and into files."""

import json
import pickle

import dask
import numpy as np
import pytest
import tifffile

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import InvalidImageError, OutputError
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.pipeline.in_memory import fuse
from qmcif_engine.pipeline.lazy import fuse_lazily
from qmcif_engine.pipeline.pipeline import Pipeline
from qmcif_engine.pipeline.to_file import fuse_to_file
from qmcif_engine.stack.deciding import join_guide
from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.stack.synthetic import make_focus_stack
from qmcif_engine.stack.window import Window
from tests.scenes import lacking_stack, logged_stack

CONFIG = FusionConfig().replaced({"tile_px": 64, "smoothness": 0.0})
PARTLY = (60, 0)
"""Columns that the images lack."""

PLANES = ("fused", "source_index", "base_map", "detail_map", "confidence")


@pytest.fixture(scope="module")
def clean():
    return np.stack(make_focus_stack(shape=(70, 130), n_images=2, seed=4).images)


@pytest.fixture(scope="module")
def noisy(clean):
    noise = np.random.default_rng(0).normal(0, 25, (len(clean), *clean[0].shape))
    return [np.clip(image + grain, 0, 255).astype(np.uint8) for image, grain in zip(clean, noise, strict=True)]


@pytest.fixture(scope="module")
def guided(clean, noisy):
    return fuse(noisy, CONFIG, guide=clean, with_maps=True)


def test_a_guide_that_is_the_stack_changes_no_byte(noisy):
    alone, guided = fuse(noisy, CONFIG), fuse(noisy, CONFIG, guide=noisy)

    for name in PLANES:
        np.testing.assert_array_equal(getattr(guided, name), getattr(alone, name))


def test_decisions_are_those_of_the_guide_and_samples_those_of_the_stack(clean, noisy):
    settings = CONFIG.replaced({"blend_px": 0})
    guided, of_guide, of_stack = fuse(noisy, settings, guide=clean), fuse(clean, settings), fuse(noisy, settings)

    np.testing.assert_array_equal(guided.source_index, of_guide.source_index)
    np.testing.assert_array_equal(guided.confidence, of_guide.confidence)
    np.testing.assert_array_equal(guided.fused, np.where((of_guide.source_index == 0)[..., None], *noisy))
    assert (of_stack.source_index != of_guide.source_index).any()


@pytest.mark.parametrize("change", [lambda image: image.astype(np.float32) / 255, lambda image: image.mean(axis=2).astype(np.uint16)])
def test_type_and_channels_of_a_guide_may_differ(clean, noisy, change):
    guide = [change(image) for image in clean]

    guided = fuse(noisy, CONFIG, guide=guide)

    assert guided.fused.dtype == np.uint8
    assert guided.fused.shape == noisy[0].shape
    np.testing.assert_array_equal(guided.source_index, fuse(guide, CONFIG).source_index)


def test_companions_follow_the_decisions_of_the_guide(clean, noisy, guided):
    followed = fuse(noisy, CONFIG, guide=clean, companions=noisy)

    np.testing.assert_array_equal(followed.companions, guided.fused)


def test_each_channel_is_decided_on_by_its_channel_of_the_guide(clean, noisy):
    guided = fuse(noisy, CONFIG, guide=clean, channels="each")

    np.testing.assert_array_equal(guided.source_index, fuse(clean, CONFIG, channels="each").source_index)
    assert guided.source_index.shape == noisy[0].shape


def test_lazy_chunks_and_files_hold_the_bytes_of_fuse(clean, noisy, guided, tmp_path):
    stack, guide = stack_arrays(noisy), open_stack(dask.array.from_array(np.stack(clean)), axes="ZYXS")
    lazy = fuse_lazily(stack, CONFIG, guide=guide)
    fuse_to_file(stack, tmp_path / "fused.tif", CONFIG, guide=guide, maps=tmp_path / "maps")

    np.testing.assert_array_equal(lazy.fused.compute(scheduler="threads"), guided.fused)
    np.testing.assert_array_equal(lazy.source_index.compute(scheduler="threads"), guided.source_index)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "fused.tif"), guided.fused)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "maps" / "source_index.tif"), guided.source_index)


def test_the_file_says_that_there_was_a_guide_and_its_samples_are_part_of_the_identity(clean, noisy, tmp_path):
    other = [image[::-1] for image in clean]
    reports = [
        fuse_to_file(stack_arrays(noisy), tmp_path / f"{name}.tif", CONFIG, guide=guide)
        for name, guide in {"none": None, "clean": stack_arrays(clean), "other": stack_arrays(other)}.items()
    ]

    with tifffile.TiffFile(tmp_path / "clean.tif") as file:
        described = json.loads(file.pages[0].tags["ImageDescription"].value)["qmcif"]
    assert described["guide"] == {"image_shape": [70, 130, 3], "dtype": "uint8"}
    assert len({report.identity for report in reports}) == 3


def test_resuming_with_another_guide_is_refused(clean, noisy, tmp_path):
    with pytest.raises(OSError, match="lost the disk"):
        fuse_to_file(logged_stack(noisy, fail_after=12), tmp_path / "fused.tif", CONFIG, guide=stack_arrays(clean), workers=1)
    other = clean.copy()
    other[1, 3, 5, 0] ^= 1

    with pytest.raises(OutputError, match="other images"):
        fuse_to_file(stack_arrays(noisy), tmp_path / "fused.tif", CONFIG, guide=stack_arrays(other), resume=True)


def test_a_guide_is_counted_in_the_memory_of_a_tile(noisy):
    stack = stack_arrays(noisy)

    assert Pipeline.prepare(stack, CONFIG, guide=stack).tile_bytes > Pipeline.prepare(stack, CONFIG).tile_bytes


def test_pixels_that_the_stack_lacks_are_not_chosen_whatever_the_guide_has(clean, noisy):
    guided = fuse(lacking_stack(noisy, PARTLY), CONFIG, guide=clean)

    assert (guided.source_index[:, :60] == 1).all()
    assert (guided.source_index[:, 60:] == 0).any()


def test_pixels_that_the_guide_lacks_are_not_chosen(clean, noisy):
    assert (fuse(noisy, CONFIG, guide=lacking_stack(clean, PARTLY)).source_index[:, :60] == 1).all()


def test_a_settled_guide_can_be_sent_to_another_process(clean, noisy):
    sent = pickle.loads(pickle.dumps(join_guide(lacking_stack(clean, PARTLY), lacking_stack(noisy, PARTLY))))
    window = Window(10, 50, 20, 70)

    np.testing.assert_array_equal(sent.read(0, window), clean[0][window.slices])
    assert not sent.valid(0, window)[:, :10].any()
    assert sent.valid(0, window)[:, 10:].all()


@pytest.mark.parametrize("change", [lambda images: [*images, images[0]], lambda images: [image[:-1] for image in images]])
def test_a_guide_of_another_number_or_size_is_refused(noisy, clean, change):
    with pytest.raises(InvalidImageError, match=r"the guide has .* and the stack has 2 of .* height and width are needed: make the guide"):
        fuse(noisy, CONFIG, guide=change(clean))


def test_a_gray_guide_of_channels_that_are_decided_on_one_by_one_is_refused(noisy, clean):
    with pytest.raises(InvalidImageError, match="height, width and channels are needed"):
        fuse(noisy, CONFIG, guide=[image[..., 0] for image in clean], channels="each")


def test_a_guide_that_decides_on_each_channel_of_a_stack_that_does_not_is_refused(noisy, clean):
    with pytest.raises(InvalidImageError, match="one way for both is needed: pass channels='each'"):
        fuse(noisy, CONFIG, guide=stack_arrays(clean).replaced(decides_each=True))
