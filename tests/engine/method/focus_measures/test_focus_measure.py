"""Every focus measure by its name: whichever is chosen, the image is found, for every kind of input and every preset."""

import numpy as np
import pytest

from qmcif_engine import fuse, make_focus_stack
from qmcif_engine.config.fusion_config import FocusMeasureName, FusionConfig, parse_assignment
from qmcif_engine.config.presets import PRESETS
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.method.focus_measures import FOCUS_MEASURES, MeasuringTask

SCENE = make_focus_stack(n_images=3, shape=(120, 150), seed=2)


def share_right(result):
    """Share of the pixels away from depth edges that come from the right image."""
    return np.mean((result.source_index == SCENE.depth_index)[SCENE.edge_distance_px > 8])


def test_every_name_of_the_settings_has_its_measure():
    assert set(FOCUS_MEASURES) == set(FocusMeasureName)


@pytest.mark.parametrize("name", FocusMeasureName)
@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_finds_the_sharp_images(preset, name):
    config = PRESETS[preset].replaced({"measure": name, "iterations": 2})

    assert share_right(fuse(list(SCENE.images), config)) > 0.9


@pytest.mark.parametrize("name", FocusMeasureName)
@pytest.mark.parametrize("kind", ["gray", "uint16", "float32"])
def test_every_kind_of_samples_can_be_measured(kind, name):
    images = {
        "gray": [image[..., 1] for image in SCENE.images],
        "uint16": [image.astype(np.uint16) * 257 for image in SCENE.images],
        "float32": [image.astype(np.float32) / 255 for image in SCENE.images],
    }[kind]

    result = fuse(images, FusionConfig().replaced({"measure": name}))

    assert share_right(result) > 0.9
    assert result.fused.dtype == images[0].dtype


@pytest.mark.parametrize("name", FocusMeasureName)
def test_levels_have_the_shapes_that_decisions_expect(name):
    config = FusionConfig().replaced({"measure": name})
    block = np.random.default_rng(0).uniform(0, 255, (3, 21, 35)).astype(np.float32)

    levels = FOCUS_MEASURES[name].measure(block, config, MeasuringTask(detail_patch_px=9, keep_layers=True))

    assert levels.base.shape == (3, 5)
    assert levels.detail.shape == levels.fine.shape == (21, 35)
    assert min(levels.base.min(), levels.detail.min(), levels.fine.min()) >= 0


def test_measures_differ_and_the_published_one_is_the_default():
    images = list(SCENE.images)
    default, published, plain = (
        fuse(images, config)
        for config in (FusionConfig(), *(FusionConfig().replaced({"measure": name}) for name in ("decomposition", "laplacian")))
    )

    np.testing.assert_array_equal(default.source_index, published.source_index)
    assert (default.source_index != plain.source_index).any()


def test_a_measure_is_named_on_the_command_line_and_an_unknown_one_is_refused_with_the_names_there_are():
    assert parse_assignment("measure=laplacian") == ("focus.measure", FocusMeasureName.LAPLACIAN)
    with pytest.raises(InvalidConfigError, match="one of decomposition, laplacian is needed"):
        parse_assignment("measure=variance")
