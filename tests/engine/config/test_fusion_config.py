"""Settings: complete, checked, frozen, and the same after a journey through TOML, JSON or a command line; the presets."""

import dataclasses
import json
import math
import pickle
import re
from enum import StrEnum
from typing import get_type_hints

import numpy as np
import pytest

from qmcif_engine.config.former_settings import REMOVED
from qmcif_engine.config.fusion_config import (
    PRESETS,
    SMALLEST_TOLERANCE,
    DecisionConfig,
    Effort,
    FusionConfig,
    MethodConfig,
    NoiseHandling,
    Precision,
    RuleName,
    WeightRule,
    parse_assignment,
    preset,
)
from qmcif_engine.config.settings import parse_toml
from qmcif_engine.errors import InvalidConfigError, QmcifError

SECTIONS = {part.name: get_type_hints(FusionConfig)[part.name] for part in dataclasses.fields(FusionConfig)}
KINDS = {f"{section}.{name}": kind for section, type_ in SECTIONS.items() for name, kind in get_type_hints(type_).items()}
FIELDS = FusionConfig.setting_fields()
BOUNDED = [full for full, item in FIELDS.items() if item.metadata["low"] is not None]
KNOWN = "the settings are: rule, .*blend_px, .*base_smoothness, "


def settings_of(*kinds):
    return [full for full, kind in KINDS.items() if kind in kinds or (StrEnum in kinds and issubclass(kind, StrEnum))]


def value_of(config, full):
    section, _, name = full.partition(".")
    return getattr(getattr(config, section), name)


def another_value(full):
    """A valid value that is not the default."""
    item, kind = FIELDS[full], KINDS[full]
    if kind is bool:
        return not item.default
    if issubclass(kind, StrEnum):
        return next(member for member in kind if member is not item.default)
    low, high = item.metadata["low"], item.metadata["high"]
    candidates = item.metadata["choices"] or ((low, high, (low + high) / 2) if kind is float else (low, high, (low + high) // 2))
    return next(kind(value) for value in candidates if value != item.default)


# --- completeness ---


def test_every_field_of_every_section_is_a_setting_in_order_with_a_name_of_its_own():
    assert list(FIELDS) == [f"{section}.{item.name}" for section, kind in SECTIONS.items() for item in dataclasses.fields(kind)]
    assert list(SECTIONS) == ["decision", "method", "tiling"]
    assert len({full.partition(".")[2] for full in KINDS}) == len(KINDS)


@pytest.mark.parametrize("full", KINDS)
def test_every_setting_has_a_help_text_a_unit_and_a_domain_that_admits_its_default(full):
    item, kind = FIELDS[full], KINDS[full]
    about = item.metadata

    assert len(about["help"].split()) > 1
    assert not about["help"].endswith(".")
    assert (about["unit"] == "px") == full.endswith("_px")
    if about["choices"]:
        assert item.default in about["choices"]
    elif kind in (int, float):
        assert about["low"] <= item.default <= about["high"]
        assert about["low"] < about["high"]


# --- values ---


@pytest.mark.parametrize("full", KINDS)
def test_configurations_are_frozen_values(full):
    section, _, name = full.partition(".")
    changed = FusionConfig().replaced({full: another_value(full)})

    with pytest.raises(dataclasses.FrozenInstanceError, match=name):
        setattr(getattr(FusionConfig(), section), name, another_value(full))
    with pytest.raises(dataclasses.FrozenInstanceError, match=section):
        setattr(FusionConfig(), section, getattr(changed, section))
    assert changed != FusionConfig()
    assert len({changed, FusionConfig(), FusionConfig()}) == 2
    assert FusionConfig().replaced({name: another_value(full)}) == changed
    assert value_of(changed, full) == another_value(full)
    assert {other for other in KINDS if value_of(changed, other) != value_of(FusionConfig(), other)} == {full}


def test_numbers_and_choices_are_taken_in_every_form_and_stored_in_their_own():
    for full in settings_of(float):
        high = FIELDS[full].metadata["high"]
        assert type(value_of(FusionConfig().replaced({full: int(min(1, high))}), full)) is float
    for full in settings_of(StrEnum):
        member = another_value(full)
        assert value_of(FusionConfig().replaced({full: member.value}), full) is member
    assert type(FusionConfig().replaced({"saturation": np.float64(0.25)}).method.saturation) is float
    assert type(FusionConfig().replaced({"iterations": np.int64(7)}).method.iterations) is int


# --- journeys ---


@pytest.mark.parametrize("full", KINDS)
def test_settings_survive_toml_json_pickle_and_the_command_line(full):
    value = another_value(full)
    config = FusionConfig().replaced({full: value})

    assert FusionConfig.from_toml(config.to_toml()) == config
    assert FusionConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert pickle.loads(pickle.dumps(config)) == config
    text = str(value).lower() if isinstance(value, bool) else str(value)
    for key in (full, full.partition(".")[2], f" {full} "):
        name, parsed = parse_assignment(f"{key}= {text}")
        assert (name, parsed, type(parsed)) == (full, value, type(value))


@pytest.mark.parametrize("value", [1 / 3, 1e-3, 123.456789012345678, 0.1 + 0.2])
def test_numbers_survive_toml_to_the_last_bit(value):
    for config in (FusionConfig().replaced({"saturation": value}), FusionConfig().replaced({"tolerance": SMALLEST_TOLERANCE})):
        assert FusionConfig.from_toml(config.to_toml()) == config


def test_toml_has_one_table_a_section_and_changes_what_it_names_only():
    text, original = FusionConfig().to_toml(), FusionConfig().replaced({"saturation": 0.5, "iterations": 3})

    assert [line for line in text.splitlines() if line.startswith("[")] == [f"[{section}]" for section in SECTIONS]
    assert all(f"\n{full.partition('.')[2]} = " in text for full in KINDS)
    assert {type(value) for section in FusionConfig().to_dict().values() for value in section.values()} <= {bool, int, float, str}
    for nothing in ("", "[method]\n", "# nothing\n"):
        assert original.updated(parse_toml(nothing)) == original
    changed = FusionConfig.from_toml("[method]\niterations = 7\nweights = 'equal'\n")
    assert changed == FusionConfig().replaced({"iterations": 7, "weights": WeightRule.EQUAL})
    assert original.updated(parse_toml("[method]\niterations = 7\n")) == original.replaced({"method.iterations": 7})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            (f"is_low_rank={text}", ("method.is_low_rank", text.lower() in ("true", "yes", "1")))
            for text in ("true", "Yes", "1", "FALSE", "no", "0")
        ),
        ("tolerance=1e-4", ("method.tolerance", 1e-4)),
    ],
)
def test_assignments_have_several_spellings(text, value):
    assert parse_assignment(text) == value


# --- what is refused ---


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("iterations", r"^setting 'iterations' has no value; name=value is needed: write for example smoothness=2$"),
        ("speed=3", rf"^setting 'speed' is not known; {KNOWN}"),
        ("=3", r"^setting '' is not known; the settings are: "),
        ("iterations=many", r"^setting iterations is 'many'; a whole number is needed: correct the value$"),
        ("iterations=2.5", r"^setting iterations is '2.5'; a whole number is needed: correct the value$"),
        ("iterations=", r"^setting iterations is ''; a whole number is needed: correct the value$"),
        ("saturation=much", r"^setting saturation is 'much'; a finite number is needed: correct the value$"),
        ("is_low_rank=perhaps", r"^setting is_low_rank is 'perhaps'; true or false is needed: correct the value$"),
        ("weights=heavy", r"^setting weights is 'heavy'; one of adaptive, equal is needed: correct the value$"),
    ],
)
def test_unreadable_assignment_is_refused(text, message):
    with pytest.raises(InvalidConfigError, match=message):
        parse_assignment(text)


@pytest.mark.parametrize("key", ["speed", "method.speed", "decision.iterations", "nowhere.iterations", "method"])
def test_unknown_setting_is_refused_with_the_settings_there_are(key):
    for error in (InvalidConfigError, QmcifError, ValueError):
        with pytest.raises(error, match=rf"^setting '{key}' is not known; {KNOWN}"):
            FusionConfig().replaced({key: 1})


@pytest.mark.parametrize("full", BOUNDED)
def test_values_are_accepted_up_to_their_bounds_and_refused_beyond_with_the_bounds_and_the_meaning(full):
    about, kind, name = FIELDS[full].metadata, KINDS[full], full.partition(".")[2]
    low, high = (f"{bound:g}" if isinstance(bound, float) else str(bound) for bound in (about["low"], about["high"]))

    for value in (kind(about["low"]), kind(about["high"])):
        assert value_of(FusionConfig().replaced({full: value}), full) == value
    for value in (kind(about["low"] - (1 if kind is int else 1e-4)), kind(about["high"] + 1)):
        message = f"setting {name} is {value!r}; it must lie between {low} and {high}: {about['help']}"
        with pytest.raises(InvalidConfigError, match=f"^{re.escape(message)}$"):
            FusionConfig().replaced({full: value})


@pytest.mark.parametrize(
    ("kind", "wanted", "values"),
    [
        (int, "a whole number", (2.0, "5", True, None)),
        (float, "a finite number", ("0.2", True, None, math.nan, math.inf)),
        (bool, "true or false", (1, "yes")),
    ],
)
def test_value_of_the_wrong_type_is_refused_with_the_type_and_the_meaning(kind, wanted, values):
    for full in settings_of(kind):
        for value in values:
            message = f"setting {full.partition('.')[2]} is {value!r}; {wanted} is needed: {FIELDS[full].metadata['help']}"
            with pytest.raises(InvalidConfigError, match=f"^{re.escape(message)}$"):
                FusionConfig().replaced({full: value})


@pytest.mark.parametrize("full", [*settings_of(StrEnum), "method.base_patch_px"])
def test_unknown_choice_is_refused_with_the_choices(full):
    choices = ", ".join(map(str, FIELDS[full].metadata["choices"] or KINDS[full]))
    for value in (4, 0) if KINDS[full] is int else ("neither", 3, None):
        message = f"setting {full.partition('.')[2]} is {value!r}; choose one of: {choices}"
        with pytest.raises(InvalidConfigError, match=f"^{re.escape(message)}$"):
            FusionConfig().replaced({full: value})


def test_tolerance_that_single_precision_cannot_resolve_is_refused():
    with pytest.raises(InvalidConfigError, match=r"^setting tolerance is 5e-07; float32 cannot resolve less than 1e-06: use a larger"):
        MethodConfig(tolerance=5e-7)
    assert MethodConfig(tolerance=5e-7, precision=Precision.DOUBLE).tolerance == 5e-7


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FusionConfig(method={"saturation": 1}), r"^setting method is \{'saturation': 1\}; a MethodConfig is needed: build one"),
        (lambda: FusionConfig(method=DecisionConfig()), r"^setting method is DecisionConfig\(.*\); a MethodConfig is needed: "),
        (
            lambda: FusionConfig.from_dict({"iterations": 3}),
            r"^setting 'iterations' stands outside a section; one of the tables decision, m",
        ),
        (lambda: FusionConfig.from_toml("[fokus]\nx = 1\n"), r"^section 'fokus' is not known; the sections are: decision, method, tiling"),
        (lambda: FusionConfig.from_dict({"fokus": {}}), r"^section 'fokus' is not known"),
        (
            lambda: FusionConfig.from_toml("[decision]\niterations = 3\n"),
            r"^setting 'decision\.iterations' is not known; the settings are: ",
        ),
        (
            lambda: FusionConfig.from_toml("[method]\nsaturation 0.2\n"),
            r"^the configuration is not valid TOML \(.*line 2.*\); tables such as \[decision\] with name = value lines are needed: correct",
        ),
        (lambda: FusionConfig.from_toml("[method]\niterations = '5'\n"), r"^setting iterations is '5'; a whole number is needed: "),
        (lambda: preset("papr"), r"^preset 'papr' is not known; choose one of: default, fast, paper$"),
    ],
)
def test_what_is_no_configuration_is_refused(make, message):
    with pytest.raises(InvalidConfigError, match=message):
        make()


# --- settings of earlier versions ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dark_frame_px=7", ("decision.dark_border_px", 7)),
        ("adapts_to_noise=false", ("decision.noise", NoiseHandling.OFF)),
        ("focus.adapts_to_noise=yes", ("decision.noise", NoiseHandling.AUTO)),
        ("blend_radius_px=2", ("decision.blend_px", 2.0)),
        ("decision.consistency=0.5", ("decision.smoothness", 0.5)),
    ],
)
def test_a_setting_is_still_read_by_its_former_name_and_says_the_present_one(text, expected):
    key, _, value = text.partition("=")
    message = f"^setting {key.rpartition('.')[2]} is called {expected[0].rpartition('.')[2]} now: change the name$"

    with pytest.warns(FutureWarning, match=message):
        assert parse_assignment(text) == expected
    with pytest.warns(FutureWarning, match=message):
        config = FusionConfig().replaced({key: json.loads(value) if value[0] in "0123456789f" else value})
    assert value_of(config, expected[0]) == expected[1]


@pytest.mark.parametrize("name", REMOVED)
def test_a_setting_that_is_gone_is_refused_with_what_to_use_instead(name):
    for use in (lambda: parse_assignment(f"{name}=1"), lambda: FusionConfig().replaced({name: 1})):
        with pytest.raises(InvalidConfigError, match=rf"^setting '{name}' is gone; {re.escape(REMOVED[name])}$"):
            use()


def test_a_file_of_an_earlier_version_is_read_with_one_warning_for_each_kind_of_change():
    text = "[decomposition]\niterations = 7\npenalty_cap = 10.0\n[focus]\nadapts_to_noise = false\nevidence_scales = 2\n"

    with pytest.warns(FutureWarning) as caught:
        config = FusionConfig.from_toml(text)

    assert config == FusionConfig().replaced({"iterations": 7, "noise": "off"})
    assert [str(entry.message) for entry in caught] == [
        "settings of an earlier version were read by their former names "
        "([decomposition] iterations is found by its name, adapts_to_noise is noise): write them anew",
        "settings of an earlier version are gone and were ignored (penalty_cap, evidence_scales): leave them out",
    ]


def test_the_paper_s_own_settings_are_idle_under_another_rule():
    changes = {"iterations": 7, "weights": "equal", "representation": "gray"}

    assert FusionConfig().list_idle_settings() == []
    assert FusionConfig().replaced(changes).list_idle_settings() == ["iterations", "weights"]
    assert FusionConfig().replaced({**changes, "rule": "paper"}).list_idle_settings() == []


# --- presets ---


def test_presets_differ_from_no_settings_in_the_rule_or_the_effort_and_cannot_be_changed():
    assert dict(PRESETS) == {
        "default": FusionConfig(),
        "fast": FusionConfig(decision=DecisionConfig(effort=Effort.FAST)),
        "paper": FusionConfig(decision=DecisionConfig(rule=RuleName.PAPER)),
    }
    assert all(preset(name) is config for name, config in PRESETS.items())
    with pytest.raises(TypeError, match="does not support item assignment"):
        PRESETS["mine"] = FusionConfig()


def test_the_settings_of_the_method_are_published():
    published = {
        "base_smoothness": 1.5,  # alpha
        "detail_sparsity": 0.5,  # beta for lytro and MFI-WHU
        "noise_weight": 0.05,  # lambda
        "is_low_rank": True,
        "penalty": 0.2,  # mu; not given
        "penalty_growth": 1.1,
        "iterations": 5,  # "within 20"; decisions agree best with the printed figures after 5
        "tolerance": 0.0,
        "base_patch_px": 8,
        "n_groups": 8,  # K; not given
        "cluster_seed": 0,
        "precision": "float32",
        "amplification_radius_px": 3,  # r
        "coefficient_weight": 1.0,  # theta
        "saturation": 0.2,  # gamma
        "detail_patch_px": 0,  # by the rule 5e-5 M N
        "result": "refined",
        "weights": "adaptive",
        "similarity": "modulus",
        "representation": "quaternion",
    }
    assert preset("paper").to_dict()["method"] == published


def test_paper_preset_gives_the_published_side_for_the_published_size():
    from qmcif_engine.method.patches import detail_patch_side

    # 5e-5 x 520 x 520 = 13.52
    assert detail_patch_side((520, 520), preset("paper").method) == 13
