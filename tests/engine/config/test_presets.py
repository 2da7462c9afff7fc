"""The presets: the published numbers, and ours."""

from pathlib import Path

import pytest

from qmcif_engine.config.fusion_config import (
    Aggregation,
    DecisionConfig,
    DecompositionConfig,
    FocusConfig,
    FocusMeasureName,
    FusionConfig,
    Precision,
    Preference,
    RefinementConfig,
    Representation,
    ResultScale,
    SimilarityPart,
    StackOrder,
    TilingConfig,
    WeightRule,
)
from qmcif_engine.config.presets import PRESETS, preset
from qmcif_engine.errors import InvalidConfigError


def test_there_are_three_presets():
    assert list(PRESETS) == ["default", "fast", "paper"]


def test_the_fast_preset_leaves_out_what_takes_time():
    changed = {"iterations": 2, "result": "detail", "edge_stiffness": 0.0, "feather_px": 0}

    assert preset("fast") == FusionConfig().replaced(changed)


def test_default_preset_is_what_no_settings_give():
    assert preset("default") == FusionConfig()


def test_paper_preset_is_the_published_setting_and_nothing_the_paper_does_not_have():
    assert preset("paper") == FusionConfig(
        decomposition=DecompositionConfig(
            base_smoothness=1.5,  # alpha
            detail_sparsity=0.5,  # beta for lytro and MFI-WHU
            noise_weight=0.05,  # lambda
            is_low_rank=True,
            penalty=0.2,  # mu; not given
            penalty_growth=1.1,
            penalty_cap=1e6,
            iterations=5,  # "within 20"; decisions settle here, and agree best with the printed figures
            tolerance=0.0,
            base_patch_px=8,
            n_groups=8,  # K; not given
            cluster_seed=0,
            precision=Precision.SINGLE,
        ),
        focus=FocusConfig(
            representation=Representation.QUATERNION,
            measure=FocusMeasureName.DECOMPOSITION,
            amplification_radius_px=3,  # r
            coefficient_weight=1.0,  # theta
            saturation=0.2,  # gamma
            detail_patch_px=0,  # by the rule 5e-5 M N
            smallest_detail_patch_px=3,
            largest_detail_patch_px=99,
            aggregation=Aggregation.AVERAGE,  # not given
            evidence_scales=1,  # the patches alone
            evidence_decay=0.4,  # without effect at one scale
            border_px=0,
            dark_border_px=0,
            adapts_to_noise=False,
        ),
        refinement=RefinementConfig(
            result=ResultScale.REFINED,
            weights=WeightRule.ADAPTIVE,
            similarity=SimilarityPart.MODULUS,
        ),
        decision=DecisionConfig(
            order=StackOrder.ORDERED,  # without effect where decisions need not fit together
            consistency=0.0,
            follow_reach_px=0,
            edge_band_px=0,
            edge_inertia=0.2,  # without effect where no edge is drawn anew
            edge_stiffness=2.0,  # as above
            blend_radius_px=0,
            blend_edge_contrast=0.1,  # without effect where nothing blends
            feather_px=16,  # as above
            preference=Preference.NONE,
            preference_ratio=DecisionConfig().preference_ratio,  # without effect where nothing is preferred
        ),
        tiling=TilingConfig(
            tile_px=2048,
            chunk_px=512,
        ),
    )


def test_the_setting_above_names_every_field_of_the_published_method():
    """A field left out there would be compared with its own default.

    That the preset does nothing of what follows the published method, `test_stage_list.py` shows for every clean-up stage.
    """
    text = Path(__file__).read_text(encoding="utf-8")

    published = [name.split(".") for name in FusionConfig.setting_fields() if name.startswith(("decomposition.", "focus.", "refinement."))]
    missing = [name for _, name in published if f" {name}=" not in text]

    assert missing == []


def test_paper_preset_gives_the_published_side_for_the_published_size():
    from qmcif_engine.method.patches import detail_patch_side

    # 5e-5 x 520 x 520 = 13.52
    assert detail_patch_side((520, 520), preset("paper").focus) == 13


def test_presets_compute_in_single_precision():
    assert {config.decomposition.precision for config in PRESETS.values()} == {Precision.SINGLE}


def test_presets_cannot_be_changed():
    with pytest.raises(TypeError, match="does not support item assignment"):
        PRESETS["mine"] = FusionConfig()


def test_unknown_preset_is_refused_with_the_names_there_are():
    with pytest.raises(InvalidConfigError, match=r"^preset 'papr' is not known; choose one of: default, fast, paper$"):
        preset("papr")


@pytest.mark.parametrize("name", ["default", "fast", "paper"])
def test_presets_survive_storage(name):
    assert FusionConfig.from_toml(preset(name).to_toml()) == preset(name)
