"""Channels that are decided on one by one: the same result as that of each channel alone, by every way of fusing."""

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import InvalidConfigError, InvalidImageError
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.pipeline.file_run import FileRun
from qmcif_engine.pipeline.in_memory import fuse
from qmcif_engine.pipeline.lazy import fuse_lazily
from qmcif_engine.pipeline.outputs import Outputs
from qmcif_engine.pipeline.results import describe_fused
from qmcif_engine.pipeline.to_file import fuse_to_file
from qmcif_engine.retouching import retouch
from qmcif_engine.stack.deciding import choose_deciding_channels
from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.stack.synthetic import make_focus_stack
from tests.scenes import lacking_stack

CONFIG = FusionConfig().replaced({"iterations": 2, "tile_px": 64})
SHAPE = (72, 80)
MAPS = ("source_index", "base_map", "detail_map", "confidence")


@pytest.fixture(scope="module")
def dyes():
    """Three scenes that have nothing in common, shape (Z, Y, X, C)."""
    scenes = [make_focus_stack(n_images=3, shape=SHAPE, seed=seed, dtype=np.uint16, is_color=False).images for seed in range(3)]
    return np.stack(scenes, axis=-1)


@pytest.fixture(scope="module")
def alone(dyes):
    return [fuse(np.ascontiguousarray(dyes[..., channel]), CONFIG, with_position=True, with_maps=True) for channel in range(3)]


@pytest.mark.parametrize("workers", [1, 3])
def test_colors_in_memory_are_fused_as_if_each_were_given_alone(dyes, alone, workers):
    told = []

    result = fuse(dyes, CONFIG, channels="each", with_position=True, with_maps=True, workers=workers, on_progress=told.append)

    for channel, expected in enumerate(alone):
        for name in ("fused", *MAPS, "position"):
            np.testing.assert_array_equal(getattr(result, name)[..., channel], getattr(expected, name))
        assert result.focus_range[channel] == expected.focus_range
    assert result.pixels_by_image == tuple(np.sum([expected.pixels_by_image for expected in alone], axis=0))
    assert [step.done for step in told] == list(range(1, told[-1].total + 1))


def test_lazy_fusion_gives_the_same(dyes, alone):
    lazy = fuse_lazily(stack_arrays(list(dyes)), CONFIG, channels="each")

    assert lazy.fused.shape == lazy.source_index.shape == (*SHAPE, 3)
    for name in ("fused", *MAPS):
        np.testing.assert_array_equal(getattr(lazy, name).compute(), np.stack([getattr(one, name) for one in alone], axis=-1))


def test_a_stack_opened_for_all_channels_together_can_be_fused_for_each(dyes, alone, tmp_path):
    with open_stack(np.moveaxis(dyes[..., :2], -1, 1), axes="ZCYX") as stack:
        report = fuse_to_file(stack, tmp_path / "out.ome.tif", CONFIG, channels="each")
        result = fuse(stack, CONFIG, channels="each")

    assert report.image_shape == (*SHAPE, 2)
    assert report.focus_range == result.focus_range == tuple(one.focus_range for one in alone[:2])
    np.testing.assert_array_equal(result.fused, np.stack([one.fused for one in alone[:2]], axis=-1))


def test_any_number_of_channels_can_be_opened_for_each(dyes, alone):
    many = np.concatenate([dyes, dyes[..., ::-1]], axis=-1)
    stack = open_stack(np.moveaxis(many, -1, 0), axes="CZYX", channels="each")

    result = fuse(stack, CONFIG)

    assert stack.decides_each
    assert describe_fused(stack).channel_names == tuple(f"Channel {number}" for number in range(1, 7))
    np.testing.assert_array_equal(result.fused[..., 5], alone[0].fused)


def test_one_range_can_be_given_for_all_channels(dyes):
    result = fuse(dyes, CONFIG, channels="each", focus_range=(0, 65535))

    one = fuse(np.ascontiguousarray(dyes[..., 1]), CONFIG, focus_range=(0, 65535))
    np.testing.assert_array_equal(result.fused[..., 1], one.fused)


def test_pixels_that_an_image_lacks_are_given_by_others_in_each_channel(dyes):
    stack = choose_deciding_channels(lacking_stack(dyes, (SHAPE[1], 0, 0)), "each")

    assert (fuse(stack, CONFIG).source_index > 0).all()


def test_gray_images_are_decided_on_as_ever(dyes):
    stack = stack_arrays(list(dyes[..., 0]))

    assert choose_deciding_channels(stack, "each") is stack
    assert choose_deciding_channels(stack_arrays(list(dyes)), None).image_shape == (*SHAPE, 3)


def test_more_channels_take_more_memory_at_the_same_tiles(dyes, tmp_path):
    outputs = Outputs(image=tmp_path / "f.tif", maps=tmp_path / "maps")
    runs = [FileRun.prepare(stack_arrays(list(dyes)), outputs, CONFIG, channels=mode) for mode in (None, "each")]
    plans = [run.pipeline for run in runs]

    assert plans[0].plan == plans[1].plan
    assert plans[0].tile_bytes < plans[1].tile_bytes
    assert runs[1].output_bytes > runs[0].output_bytes


def test_another_word_is_refused(dyes):
    with pytest.raises(InvalidConfigError, match=r"^channels is 'all'; 'each' or None is needed: name channels that decide together"):
        fuse(dyes, CONFIG, channels="all")


def test_companions_of_one_decision_are_refused(dyes):
    with pytest.raises(
        InvalidConfigError, match=r"^companions were given and each channel is decided on by itself; one decision is needed"
    ):
        fuse(dyes, CONFIG, channels="each", companions=list(dyes[..., 0]))


def test_a_prepared_stack_that_hides_channels_is_refused(dyes):
    with open_stack(np.moveaxis(dyes[..., :2], -1, 1), axes="ZCYX") as stack:
        prepared = stack.replaced()

    with pytest.raises(
        InvalidConfigError, match=r"^channels='each' was asked of a stack with alpha, or with channels that follow others; all"
    ):
        choose_deciding_channels(prepared, "each")


def test_retouching_needs_one_decision(dyes):
    labels = np.zeros(SHAPE, np.uint16)

    with pytest.raises(InvalidImageError, match=r"^a stack whose channels are decided on one by one was given; one decision is needed"):
        retouch(stack_arrays(list(dyes)).replaced(decides_each=True), labels, fused=dyes[0], source_index=labels)
