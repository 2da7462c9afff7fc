"""The presets: the published numbers, and ours."""

import pytest

from qmcif_engine.config.fusion_config import (
    DecisionConfig,
    Effort,
    FusionConfig,
    MethodConfig,
    Precision,
    Representation,
    ResultScale,
    RuleName,
    SimilarityPart,
    WeightRule,
)
from qmcif_engine.config.presets import PRESETS, preset
from qmcif_engine.errors import InvalidConfigError


def test_there_are_three_presets():
    assert list(PRESETS) == ["default", "fast", "paper"]


def test_the_fast_preset_takes_less_effort():
    assert preset("fast") == FusionConfig(decision=DecisionConfig(effort=Effort.FAST))


def test_default_preset_is_what_no_settings_give():
    assert preset("default") == FusionConfig()


def test_paper_preset_is_the_published_method():
    assert preset("paper") == FusionConfig(decision=DecisionConfig(rule=RuleName.PAPER))


def test_the_settings_of_the_method_are_published():
    assert MethodConfig() == MethodConfig(
        base_smoothness=1.5,  # alpha
        detail_sparsity=0.5,  # beta for lytro and MFI-WHU
        noise_weight=0.05,  # lambda
        is_low_rank=True,
        penalty=0.2,  # mu; not given
        penalty_growth=1.1,
        iterations=5,  # "within 20"; decisions agree best with the printed figures after 5
        tolerance=0.0,
        base_patch_px=8,
        n_groups=8,  # K; not given
        cluster_seed=0,
        precision=Precision.SINGLE,
        amplification_radius_px=3,  # r
        coefficient_weight=1.0,  # theta
        saturation=0.2,  # gamma
        detail_patch_px=0,  # by the rule 5e-5 M N
        result=ResultScale.REFINED,
        weights=WeightRule.ADAPTIVE,
        similarity=SimilarityPart.MODULUS,
        representation=Representation.QUATERNION,
    )


def test_paper_preset_gives_the_published_side_for_the_published_size():
    from qmcif_engine.method.patches import detail_patch_side

    # 5e-5 x 520 x 520 = 13.52
    assert detail_patch_side((520, 520), preset("paper").method) == 13


def test_presets_compute_in_single_precision():
    assert {config.method.precision for config in PRESETS.values()} == {Precision.SINGLE}


def test_presets_cannot_be_changed():
    with pytest.raises(TypeError, match="does not support item assignment"):
        PRESETS["mine"] = FusionConfig()


def test_unknown_preset_is_refused_with_the_names_there_are():
    with pytest.raises(InvalidConfigError, match=r"^preset 'papr' is not known; choose one of: default, fast, paper$"):
        preset("papr")


@pytest.mark.parametrize("name", ["default", "fast", "paper"])
def test_presets_survive_storage(name):
    assert FusionConfig.from_toml(preset(name).to_toml()) == preset(name)
