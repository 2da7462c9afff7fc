"""Settings: complete, checked, frozen, and the same after a journey through TOML, JSON or a command line."""

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
    SMALLEST_TOLERANCE,
    DecisionConfig,
    FusionConfig,
    MethodConfig,
    NoiseHandling,
    Precision,
    Representation,
    ResultScale,
    SimilarityPart,
    WeightRule,
    parse_assignment,
)
from qmcif_engine.config.settings import parse_toml
from qmcif_engine.errors import InvalidConfigError, QmcifError

SECTIONS = {part.name: get_type_hints(FusionConfig)[part.name] for part in dataclasses.fields(FusionConfig)}
KINDS = {f"{section}.{name}": kind for section, type_ in SECTIONS.items() for name, kind in get_type_hints(type_).items()}


def settings_of(*kinds):
    return [full for full, kind in KINDS.items() if issubclass(kind, kinds)]


def bounded_settings():
    return [full for full, item in FusionConfig.setting_fields().items() if item.metadata["low"] is not None]


def value_of(config, full):
    section, _, name = full.partition(".")
    return getattr(getattr(config, section), name)


def another_value(full):
    """A valid value that is not the default."""
    item, kind = FusionConfig.setting_fields()[full], KINDS[full]
    if kind is bool:
        return not item.default
    if issubclass(kind, StrEnum):
        return next(member for member in kind if member is not item.default)
    if item.metadata["choices"]:
        return next(choice for choice in item.metadata["choices"] if choice != item.default)
    low, high = item.metadata["low"], item.metadata["high"]
    candidates = (low, high, (low + high) / 2) if kind is float else (low, high, (low + high) // 2)
    return next(kind(value) for value in candidates if value != item.default)


FREELY_CHANGEABLE = {full: another_value(full) for full in KINDS}


# --- completeness ---


def test_defaults_are_valid():
    config = FusionConfig()

    assert {name: type(getattr(config, name)) for name in SECTIONS} == SECTIONS


def test_setting_names_are_unique_across_sections():
    names = [full.partition(".")[2] for full in FusionConfig.setting_fields()]

    assert len(names) == len(set(names))


def test_every_field_of_every_section_is_a_setting_in_order():
    expected = [f"{section}.{item.name}" for section, kind in SECTIONS.items() for item in dataclasses.fields(kind)]

    assert list(FusionConfig.setting_fields()) == expected
    assert list(SECTIONS) == ["decision", "method", "tiling"]


@pytest.mark.parametrize("full", KINDS)
def test_every_setting_has_a_help_text(full):
    help_text = FusionConfig.setting_fields()[full].metadata["help"]

    assert len(help_text.split()) > 1
    assert not help_text.endswith(".")


@pytest.mark.parametrize("full", settings_of(int, float))
def test_every_numeric_setting_has_bounds_that_admit_its_default_or_a_list_of_choices(full):
    if KINDS[full] is bool:
        return
    item = FusionConfig.setting_fields()[full]

    if item.metadata["choices"]:
        assert item.default in item.metadata["choices"]
    else:
        assert item.metadata["low"] <= item.default <= item.metadata["high"]
        assert item.metadata["low"] < item.metadata["high"]


@pytest.mark.parametrize("full", [full for full in KINDS if full.endswith("_px")])
def test_settings_in_pixels_say_so(full):
    assert FusionConfig.setting_fields()[full].metadata["unit"] == "px"


# --- values ---


@pytest.mark.parametrize("full", KINDS)
def test_configuration_is_frozen(full):
    section, _, name = full.partition(".")
    with pytest.raises(dataclasses.FrozenInstanceError, match=name):
        setattr(getattr(FusionConfig(), section), name, another_value(full))


def test_sections_cannot_be_exchanged_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError, match="method"):
        FusionConfig().method = MethodConfig()


@pytest.mark.parametrize("full", KINDS)
def test_equal_configurations_have_equal_hashes_and_a_changed_setting_makes_them_differ(full):
    changed = FusionConfig().replaced({full: FREELY_CHANGEABLE[full]})

    assert FusionConfig() == FusionConfig()
    assert hash(FusionConfig()) == hash(FusionConfig())
    assert changed != FusionConfig()
    assert len({changed, FusionConfig(), FusionConfig()}) == 2


@pytest.mark.parametrize("full", settings_of(float))
def test_whole_numbers_are_welcome_where_numbers_are_needed_and_become_floats(full):
    value = 1 if FusionConfig.setting_fields()[full].metadata["high"] >= 1 else FusionConfig.setting_fields()[full].metadata["high"]

    stored = value_of(FusionConfig().replaced({full: int(value)}), full)

    assert type(stored) is float
    assert stored == value


def test_choices_are_welcome_as_text_and_become_members():
    config = FusionConfig().replaced(
        {"representation": "gray", "result": "base", "weights": "equal", "similarity": "scalar", "precision": "float64"}
    )

    assert config.method.representation is Representation.GRAY
    assert config.method.result is ResultScale.BASE
    assert config.method.weights is WeightRule.EQUAL
    assert config.method.similarity is SimilarityPart.SCALAR
    assert config.method.precision is Precision.DOUBLE


@pytest.mark.parametrize("patch_px", [5, 8, 10])
def test_published_base_patch_sides_are_accepted(patch_px):
    assert MethodConfig(base_patch_px=patch_px).base_patch_px == patch_px


@pytest.mark.parametrize("name", ["base_smoothness", "detail_sparsity", "noise_weight"])
def test_every_term_can_be_switched_off(name):
    assert value_of(FusionConfig().replaced({name: 0}), f"method.{name}") == 0


# --- journeys ---


@pytest.mark.parametrize("full", KINDS)
def test_settings_survive_toml_json_and_pickle(full):
    config = FusionConfig().replaced({full: FREELY_CHANGEABLE[full]})

    assert FusionConfig.from_toml(config.to_toml()) == config
    assert FusionConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert FusionConfig.from_dict(config.to_dict()) == config
    assert pickle.loads(pickle.dumps(config)) == config


@pytest.mark.parametrize("value", [1 / 3, 1e-3, 123.456789012345678, 0.1 + 0.2])
def test_numbers_survive_toml_to_the_last_bit(value):
    config = FusionConfig().replaced({"saturation": value})

    assert FusionConfig.from_toml(config.to_toml()).method.saturation == value


def test_very_small_numbers_survive_toml():
    config = FusionConfig().replaced({"tolerance": SMALLEST_TOLERANCE})

    assert FusionConfig.from_toml(config.to_toml()) == config


def test_toml_has_one_table_a_section_with_every_setting():
    text = FusionConfig().to_toml()

    assert [line for line in text.splitlines() if line.startswith("[")] == [f"[{section}]" for section in SECTIONS]
    assert all(f"\n{full.partition('.')[2]} = " in text for full in KINDS)


def test_dictionary_holds_plain_values_only():
    values = FusionConfig().to_dict()

    assert {type(value) for section in values.values() for value in section.values()} <= {bool, int, float, str}
    assert list(values) == list(SECTIONS)


@pytest.mark.parametrize("text", ["", "[method]\n", "# nothing\n"])
def test_what_toml_leaves_out_keeps_its_default(text):
    assert FusionConfig.from_toml(text) == FusionConfig()


def test_toml_changes_what_it_names_only():
    config = FusionConfig.from_toml("[method]\niterations = 7\nweights = 'equal'\n")

    assert config == FusionConfig().replaced({"iterations": 7, "weights": WeightRule.EQUAL})


def test_sections_update_what_they_name_and_leave_the_rest():
    original = FusionConfig().replaced({"saturation": 0.5, "iterations": 3})

    updated = original.updated(parse_toml("[method]\niterations = 7\n"))

    assert updated == original.replaced({"iterations": 7})
    assert original.updated({}) == original


@pytest.mark.parametrize("full", KINDS)
def test_setting_is_replaced_by_its_short_and_by_its_full_name(full):
    value = FREELY_CHANGEABLE[full]

    by_short_name = FusionConfig().replaced({full.partition(".")[2]: value})

    assert value_of(by_short_name, full) == value
    assert by_short_name == FusionConfig().replaced({full: value})


def test_replacing_changes_a_copy_and_nothing_else():
    original = FusionConfig(method=MethodConfig(saturation=0.5), decision=DecisionConfig(blend_px=1))

    copy = original.replaced({"iterations": 9, "method.amplification_radius_px": 2})

    assert original.method == MethodConfig(saturation=0.5)
    assert copy.method == MethodConfig(saturation=0.5, iterations=9, amplification_radius_px=2)
    assert copy.decision == original.decision


# --- command line ---


@pytest.mark.parametrize("full", KINDS)
def test_assignment_is_parsed_into_the_type_of_its_setting(full):
    value = FREELY_CHANGEABLE[full]
    text = str(value).lower() if isinstance(value, bool) else str(value)

    for key in (full, full.partition(".")[2], f" {full} "):
        name, parsed = parse_assignment(f"{key}= {text}")
        assert name == full
        assert parsed == value
        assert type(parsed) is type(value)


@pytest.mark.parametrize(("text", "truth"), [("true", True), ("Yes", True), ("1", True), ("FALSE", False), ("no", False), ("0", False)])
def test_truth_values_have_several_spellings(text, truth):
    assert parse_assignment(f"is_low_rank={text}") == ("method.is_low_rank", truth)


def test_numbers_may_have_an_exponent():
    assert parse_assignment("tolerance=1e-4") == ("method.tolerance", 1e-4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("iterations", r"^setting 'iterations' has no value; name=value is needed: write for example smoothness=2$"),
        ("speed=3", r"^setting 'speed' is not known; the settings are: rule, .*blend_px, .*base_smoothness, "),
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


# --- what is refused ---


@pytest.mark.parametrize("key", ["speed", "method.speed", "decision.iterations", "nowhere.iterations", "method"])
def test_unknown_setting_is_refused_with_the_settings_there_are(key):
    with pytest.raises(
        InvalidConfigError, match=rf"^setting '{key}' is not known; the settings are: rule, .*blend_px, .*base_smoothness, "
    ):
        FusionConfig().replaced({key: 1})


@pytest.mark.parametrize("full", bounded_settings())
def test_value_outside_its_bounds_is_refused_with_the_bounds_and_the_meaning(full):
    metadata, kind, name = FusionConfig.setting_fields()[full].metadata, KINDS[full], full.partition(".")[2]
    step = 1 if kind is int else 1e-4

    for value in (kind(metadata["low"] - step), kind(metadata["high"] + 1)):
        with pytest.raises(InvalidConfigError) as caught:
            FusionConfig().replaced({full: value})
        low, high = (f"{bound:g}" if isinstance(bound, float) else str(bound) for bound in (metadata["low"], metadata["high"]))
        allowed = f"it must lie between {low} and {high}"
        assert str(caught.value) == f"setting {name} is {value!r}; {allowed}: {metadata['help']}"


@pytest.mark.parametrize("full", bounded_settings())
def test_bounds_themselves_are_accepted(full):
    kind, metadata = KINDS[full], FusionConfig.setting_fields()[full].metadata
    for value in (kind(metadata["low"]), kind(metadata["high"])):
        assert value_of(FusionConfig().replaced({full: value}), full) == value


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("iterations", 2.0, "a whole number"),
        ("iterations", "5", "a whole number"),
        ("iterations", True, "a whole number"),
        ("iterations", None, "a whole number"),
        ("saturation", "0.2", "a finite number"),
        ("saturation", True, "a finite number"),
        ("saturation", math.nan, "a finite number"),
        ("saturation", math.inf, "a finite number"),
        ("saturation", None, "a finite number"),
        ("is_low_rank", 1, "true or false"),
        ("is_low_rank", "yes", "true or false"),
    ],
)
def test_value_of_the_wrong_type_is_refused_with_the_type_and_the_meaning(name, value, wanted):
    full = next(full for full in KINDS if full.endswith(f".{name}"))
    help_text = FusionConfig.setting_fields()[full].metadata["help"]

    with pytest.raises(InvalidConfigError) as caught:
        FusionConfig().replaced({name: value})

    assert str(caught.value) == f"setting {name} is {value!r}; {wanted} is needed: {help_text}"


@pytest.mark.parametrize("full", settings_of(float))
def test_no_number_may_be_nan(full):
    with pytest.raises(InvalidConfigError, match=r"is nan; a finite number is needed: "):
        FusionConfig().replaced({full: math.nan})


@pytest.mark.parametrize("full", [full for full in settings_of(int) if KINDS[full] is int])
def test_truth_is_no_whole_number(full):
    with pytest.raises(InvalidConfigError, match=r"is True; a whole number is needed: "):
        FusionConfig().replaced({full: True})


@pytest.mark.parametrize("full", settings_of(StrEnum))
@pytest.mark.parametrize("value", ["neither", 3, None])
def test_unknown_choice_is_refused_with_the_choices(full, value):
    choices = ", ".join(member.value for member in KINDS[full])

    with pytest.raises(InvalidConfigError) as caught:
        FusionConfig().replaced({full: value})

    assert str(caught.value) == f"setting {full.partition('.')[2]} is {value!r}; choose one of: {choices}"


@pytest.mark.parametrize("value", [0, 4, 9, 16])
def test_base_patch_side_without_a_dictionary_is_refused(value):
    with pytest.raises(InvalidConfigError, match=rf"^setting base_patch_px is {value}; choose one of: 5, 8, 10$"):
        MethodConfig(base_patch_px=value)


def test_section_of_the_wrong_kind_is_refused():
    with pytest.raises(
        InvalidConfigError, match=r"^setting method is \{'saturation': 1\}; a MethodConfig is needed: build one from its fields$"
    ):
        FusionConfig(method={"saturation": 1})
    with pytest.raises(InvalidConfigError, match=r"^setting method is DecisionConfig\(.*\); a MethodConfig is needed: "):
        FusionConfig(method=DecisionConfig())


def test_tolerance_that_single_precision_cannot_resolve_is_refused():
    message = (
        r"^setting tolerance is 1e-09; float32 cannot resolve less than 1e-06: use a larger tolerance, 0 for .*, or precision=float64$"
    )
    with pytest.raises(InvalidConfigError, match=message):
        MethodConfig(tolerance=1e-9)


def test_tolerance_is_fine_where_it_can_be_resolved():
    assert MethodConfig(tolerance=1e-9, precision=Precision.DOUBLE).tolerance == 1e-9
    assert MethodConfig(tolerance=0).tolerance == 0
    assert MethodConfig(tolerance=1e-5).tolerance == 1e-5  # the published one


@pytest.mark.parametrize("values", [{"iterations": 3}, {"method": 3}, {"method": {}, "iterations": 3}])
def test_setting_outside_a_section_is_refused(values):
    sections = "decision, method, tiling"
    message = rf"^setting '(iterations|method)' stands outside a section; one of the tables {sections} is needed: move it into one$"
    with pytest.raises(InvalidConfigError, match=message):
        FusionConfig.from_dict(values)


def test_unknown_section_is_refused():
    with pytest.raises(InvalidConfigError, match=r"^section 'fokus' is not known; the sections are: decision, method, tiling"):
        FusionConfig.from_toml("[fokus]\nsaturation = 1.0\n")
    with pytest.raises(InvalidConfigError, match=r"^section 'fokus' is not known"):
        FusionConfig.from_dict({"fokus": {}})


def test_setting_in_the_wrong_section_is_refused():
    with pytest.raises(InvalidConfigError, match=r"^setting 'decision\.iterations' is not known; the settings are: "):
        FusionConfig.from_toml("[decision]\niterations = 3\n")


def test_broken_toml_is_refused_with_the_place():
    message = (
        r"^the configuration is not valid TOML \(.*line 2.*\); tables such as \[decision\] with name = value lines are needed: correct it$"
    )
    with pytest.raises(InvalidConfigError, match=message):
        FusionConfig.from_toml("[method]\nsaturation 0.2\n")


def test_wrong_type_in_toml_is_refused():
    with pytest.raises(InvalidConfigError, match=r"^setting iterations is '5'; a whole number is needed: "):
        FusionConfig.from_toml("[method]\niterations = '5'\n")


def test_errors_can_be_caught_as_builtin_and_as_ours():
    with pytest.raises(ValueError, match="is not known"):
        FusionConfig().replaced({"speed": 1})
    with pytest.raises(QmcifError, match="is not known"):
        FusionConfig().replaced({"speed": 1})


def test_numpy_floats_become_plain_numbers():
    config = FusionConfig().replaced({"saturation": np.float64(0.25)})

    assert type(config.method.saturation) is float


# --- settings of earlier versions ---


@pytest.mark.parametrize("prefix", ["", "focus."])
def test_a_setting_is_still_read_by_its_former_name_and_says_the_present_one(prefix):
    with pytest.warns(FutureWarning, match="^setting dark_frame_px is called dark_border_px now: change the name$"):
        config = FusionConfig().replaced({f"{prefix}dark_frame_px": 7})

    assert config.decision.dark_border_px == 7


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("adapts_to_noise=false", ("decision.noise", NoiseHandling.OFF)),
        ("focus.adapts_to_noise=yes", ("decision.noise", NoiseHandling.AUTO)),
        ("blend_radius_px=2", ("decision.blend_px", 2.0)),
        ("decision.consistency=0.5", ("decision.smoothness", 0.5)),
    ],
)
def test_an_assignment_is_read_by_the_former_name(text, expected):
    with pytest.warns(FutureWarning, match="is called .* now: change the name"):
        assert parse_assignment(text) == expected


@pytest.mark.parametrize("name", REMOVED)
def test_a_setting_that_is_gone_is_refused_with_what_to_use_instead(name):
    message = rf"^setting '{name}' is gone; {re.escape(REMOVED[name])}$"
    with pytest.raises(InvalidConfigError, match=message):
        parse_assignment(f"{name}=1")
    with pytest.raises(InvalidConfigError, match=message):
        FusionConfig().replaced({name: 1})


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
