"""The two presets: the published numbers, and ours."""

import pytest

from qmcif_engine.config import FusionConfig, Precision, Representation, ResultScale, SimilarityPart, WeightRule
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.presets import PRESETS, preset


def test_there_are_two_presets():
    assert set(PRESETS) == {"default", "paper"}


def test_default_preset_is_what_no_settings_give():
    assert preset("default") == FusionConfig()


@pytest.mark.parametrize(
    ("section", "name", "published"),
    [
        ("decomposition", "base_smoothness", 1.5),  # alpha
        ("decomposition", "detail_sparsity", 0.5),  # beta for lytro and MFI-WHU
        ("decomposition", "noise_weight", 0.05),  # lambda
        ("decomposition", "is_low_rank", True),
        ("decomposition", "penalty_growth", 1.1),
        ("decomposition", "penalty_cap", 1e6),
        ("decomposition", "iterations", 20),
        ("decomposition", "base_patch_px", 8),
        ("focus", "representation", Representation.QUATERNION),
        ("focus", "amplification_radius_px", 3),  # r
        ("focus", "coefficient_weight", 1.0),  # theta
        ("focus", "saturation", 0.2),  # gamma
        ("focus", "detail_patch_px", 0),  # by the rule 5e-5 M N
        ("refinement", "result", ResultScale.REFINED),
        ("refinement", "weights", WeightRule.ADAPTIVE),
        ("refinement", "similarity", SimilarityPart.MODULUS),
    ],
)
def test_paper_preset_has_the_published_value(section, name, published):
    assert getattr(getattr(preset("paper"), section), name) == published


def test_paper_preset_does_nothing_that_the_paper_does_not():
    decision = preset("paper").decision

    assert decision.island_area_patches == 0
    assert decision.follow_reach_px == 0
    assert decision.blend_radius_px == 0


def test_paper_preset_gives_the_published_side_for_the_published_size():
    from qmcif_engine.patches import detail_patch_side

    # 5e-5 x 520 x 520 = 13.52
    assert detail_patch_side((520, 520), preset("paper").focus) == 13


def test_presets_compute_in_single_precision():
    assert {config.decomposition.precision for config in PRESETS.values()} == {Precision.SINGLE}


def test_presets_cannot_be_changed():
    with pytest.raises(TypeError, match="does not support item assignment"):
        PRESETS["mine"] = FusionConfig()


def test_unknown_preset_is_refused_with_the_names_there_are():
    with pytest.raises(InvalidConfigError, match=r"^preset 'papr' is not known; choose one of: default, paper$"):
        preset("papr")


@pytest.mark.parametrize("name", ["default", "paper"])
def test_presets_survive_storage(name):
    assert FusionConfig.from_toml(preset(name).to_toml()) == preset(name)
