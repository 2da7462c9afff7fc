"""Every setting, its default, bounds and help text, in one place.

The command line and the widget are generated from these dataclasses, so nothing here is repeated elsewhere. Field names avoid the
paper's Greek letters; the help text gives the letter. ``FusionConfig()`` is the ``default`` preset; the published method with its
parameters is the ``paper`` preset.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any, Self, get_type_hints

from qmcif_engine.config.former_settings import flatten_sections, read_renamed, refuse_removed
from qmcif_engine.config.settings import Checked, parse_toml, parse_value, setting
from qmcif_engine.errors import InvalidConfigError

SMALLEST_TOLERANCE = 1e-6
"""Below this a change of the 0-255 scale drowns in float32 rounding: the loop would never stop."""


class Representation(StrEnum):
    """What the decisions look at."""

    QUATERNION = "quaternion"
    GRAY = "gray"


class RuleName(StrEnum):
    """Which rule decides (`qmcif_engine.rules`)."""

    ENERGY = "energy"
    PAPER = "paper"


class Evidence(StrEnum):
    """What the evidence of sharpness is measured on."""

    DECOMPOSITION = "decomposition"
    LAPLACIAN = "laplacian"


class NoiseHandling(StrEnum):
    """Whether decisions take the noise of the stack into account."""

    AUTO = "auto"
    OFF = "off"


class Effort(StrEnum):
    """How much is computed for a decision."""

    FULL = "full"
    FAST = "fast"


class ResultScale(StrEnum):
    """Which fusion result is returned."""

    REFINED = "refined"
    BASE = "base"
    DETAIL = "detail"


class WeightRule(StrEnum):
    """How source patches weigh in the refinement."""

    ADAPTIVE = "adaptive"
    EQUAL = "equal"


class SimilarityPart(StrEnum):
    """Which real number stands for a quaternion similarity."""

    MODULUS = "modulus"
    SCALAR = "scalar"


class Preference(StrEnum):
    """Which end of the stack wins where several images could give a pixel."""

    NONE = "none"
    FRONT = "front"
    BACK = "back"


class StackOrder(StrEnum):
    """Whether neighboring images of a stack are near in depth."""

    ORDERED = "ordered"
    NONE = "none"


class Precision(StrEnum):
    """Floating-point type of the decomposition."""

    SINGLE = "float32"
    DOUBLE = "float64"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionConfig(Checked):
    """Settings of the decision: which rule decides, and those of the rule ``energy``."""

    rule: RuleName = setting(RuleName.ENERGY, "which rule decides: energy, the default, or paper, the published method")
    measure: Evidence = setting(
        Evidence.DECOMPOSITION, "source of the evidence of sharpness: the decomposed detail layer, or the Laplacian of the brightness"
    )
    order: StackOrder = setting(StackOrder.ORDERED, "whether three or more images are in the order of their focus; none if they are not")
    preference: Preference = setting(Preference.NONE, "prefer the first images (front) or the last (back) where several are sharp")
    preference_ratio: float = setting(
        1.5, "how many times sharper the other end of the stack must be to win against the preferred end", low=1.0, high=1000.0
    )
    smoothness: float = setting(
        1.0, "factor on the cost of borders between differing decisions; 0 lets every pixel decide for itself", low=0.0, high=100.0
    )
    noise: NoiseHandling = setting(
        NoiseHandling.AUTO, "auto measures the noise of the stack and ignores hot pixels; off assumes no noise but that of rounding"
    )
    blend_px: float = setting(
        0.5, "width of the blend along depth edges (standard deviation); 0 for hard cuts everywhere", low=0.0, high=16.0, unit="px"
    )
    feather_px: float = setting(
        3.0, "how far brightness is blended where a narrow blend would show as a step; 0 for none", low=0.0, high=32.0, unit="px"
    )
    dark_border_px: int = setting(
        4, "if one image alone fades to black in its outermost pixels, up to this many are taken from the others", low=0, high=64, unit="px"
    )
    effort: Effort = setting(Effort.FULL, "full, or fast: one scale, no halo term, no edge test")


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodConfig(Checked):
    """Settings of the published method, with its values; all but `representation` act under the rule ``paper`` only."""

    # section III-B.1; published: alpha, beta (2 for mffw), lambda, and how mu grows; its first value is not
    base_smoothness: float = setting(1.5, "alpha: how smooth the base layer is made", low=0.0, high=1000.0)
    detail_sparsity: float = setting(0.5, "beta: how sparse the detail layer is made", low=0.0, high=1000.0)
    noise_weight: float = setting(0.05, "lambda: cost of the noise layer; 0 makes it free", low=0.0, high=1000.0)
    is_low_rank: bool = setting(True, "use the low-rank term: coefficients of similar base patches form low-rank groups")
    penalty: float = setting(0.2, "mu at the first iteration", low=1e-3, high=1e3)
    penalty_growth: float = setting(1.1, "factor on mu after each iteration", low=1.0, high=10.0)
    # published: within 20, until nothing changes by more than 1e-5; decisions agree best with the printed figures after 5
    iterations: int = setting(5, "number of iterations, or their limit when a tolerance is set", low=1, high=1000, unit="iterations")
    tolerance: float = setting(
        0.0, "stop when no coefficient or detail changes by more, as a share of 255; 0 runs all iterations", low=0.0, high=1.0
    )
    # 8 is published; there is a learned dictionary for each of the three
    base_patch_px: int = setting(8, "side of a base patch", choices=(5, 8, 10), unit="px")
    n_groups: int = setting(8, "K: number of groups of similar base patches", low=1, high=256)
    cluster_seed: int = setting(0, "seed of the k-means grouping", low=0, high=2**31 - 1)
    precision: Precision = setting(Precision.SINGLE, "floating-point type of the decomposition")
    # section III-B.2; published: theta and gamma
    amplification_radius_px: int = setting(3, "r: the detail layer is summed over (2r+1)x(2r+1) windows", low=0, high=15, unit="px")
    coefficient_weight: float = setting(1.0, "theta: weight of the patch coefficients in the base-scale measure", low=0.0, high=1000.0)
    saturation: float = setting(0.2, "gamma: detail focus level (0-1) at which the weighting function reaches 63 %", low=1e-3, high=1e3)
    detail_patch_px: int = setting(0, "side of a detail patch; 0 takes 5e-5 of the pixel count", low=0, high=99, unit="px")
    # the ablations of section IV-D
    result: ResultScale = setting(ResultScale.REFINED, "what is returned: the refined choice, or one scale alone")
    weights: WeightRule = setting(WeightRule.ADAPTIVE, "tau: weight sources by their focus level, or all equally")
    similarity: SimilarityPart = setting(
        SimilarityPart.MODULUS, "compare the modulus (as published) or the scalar part, which sees inverted contrast"
    )
    representation: Representation = setting(
        Representation.QUATERNION, "what decisions are based on, under either rule: the color as a quaternion, or the gray value"
    )

    def __post_init__(self) -> None:
        """Check the fields, then what they must be together."""
        Checked.__post_init__(self)
        if 0 < self.tolerance < SMALLEST_TOLERANCE and self.precision is Precision.SINGLE:
            msg = (
                f"setting tolerance is {self.tolerance:g}; float32 cannot resolve less than {SMALLEST_TOLERANCE:g}: "
                "use a larger tolerance, 0 for a fixed number of iterations, or precision=float64"
            )
            raise InvalidConfigError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class TilingConfig(Checked):
    """Settings of the grid that large images are cut along; it is part of the result's definition, unlike anything about the machine."""

    tile_px: int = setting(
        2048,
        "largest side of a tile; an image of fewer than four such tiles is cut into tiles of half the side, a small one not at all",
        low=64,
        high=16384,
        unit="px",
    )
    chunk_px: int = setting(
        512,
        "side of a chunk of an OME-Zarr result; tiles are cut along the grid of chunks, so that each chunk is written by one of them",
        low=64,
        high=4096,
        unit="px",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionConfig(Checked):
    """Every setting of a fusion; the defaults are the ``default`` preset."""

    decision: DecisionConfig = field(default_factory=DecisionConfig)
    method: MethodConfig = field(default_factory=MethodConfig)
    tiling: TilingConfig = field(default_factory=TilingConfig)

    @classmethod
    def setting_fields(cls) -> dict[str, dataclasses.Field[Any]]:
        """Return every setting by its ``section.name``."""
        return {f"{part.name}.{item.name}": item for part in fields(cls) for item in fields(_section_type(part.name))}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Build from nested sections as `to_dict` gives them; what is missing keeps its default."""
        return cls().updated(values)

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Build from TOML text with one table per section."""
        return cls().updated(parse_toml(text))

    def updated(self, values: dict[str, Any]) -> Self:
        """Return a copy with the settings of some nested sections changed; those that earlier versions had are ignored with a warning."""
        known = {full.partition(".")[2] for full in self.setting_fields()}
        return self.replaced(flatten_sections(values, [part.name for part in fields(self)], known=known))

    def replaced(self, values: dict[str, Any]) -> Self:
        """Return a copy with some settings changed, named ``name`` or ``section.name``."""
        changes: dict[str, dict[str, Any]] = {}
        for given, given_value in values.items():
            key, value = read_renamed(given, given_value)
            section, name = _located(key)
            changes.setdefault(section, {})[name] = value
        parts = {section: dataclasses.replace(getattr(self, section), **fields_) for section, fields_ in changes.items()}
        return dataclasses.replace(self, **parts)

    def list_idle_settings(self) -> list[str]:
        """Return the settings of the published method that were changed and have no effect under the chosen rule."""
        if self.decision.rule is RuleName.PAPER:
            return []
        changed = (item.name for item in fields(MethodConfig) if getattr(self.method, item.name) != item.default)
        return [name for name in changed if name != "representation"]

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return plain nested values, ready for JSON."""
        return {
            part.name: {item.name: _plain(getattr(getattr(self, part.name), item.name)) for item in fields(getattr(self, part.name))}
            for part in fields(self)
        }

    def to_toml(self) -> str:
        """Return TOML text that `from_toml` reads back."""
        lines = []
        for section, values in self.to_dict().items():
            lines.append(f"[{section}]")
            # JSON's scalars are TOML's for the types used here
            lines += [f"{name} = {json.dumps(value)}" for name, value in values.items()]
            lines.append("")
        return "\n".join(lines)


def parse_assignment(text: str) -> tuple[str, Any]:
    """Read one ``name=value`` of the command line into the type of that setting; one that is gone is refused with its successor."""
    key, separator, value = text.partition("=")
    if not separator:
        msg = f"setting {text!r} has no value; name=value is needed: write for example smoothness=2"
        raise InvalidConfigError(msg)
    key, value = read_renamed(key.strip(), value.strip())
    section, name = _located(key)
    kind = get_type_hints(_section_type(section))[name]
    return f"{section}.{name}", parse_value(name, kind, value)


def _located(key: str) -> tuple[str, str]:
    """Find the section a setting belongs to; names are unique across sections."""
    known = {item.name: full.partition(".")[0] for full, item in FusionConfig.setting_fields().items()}
    section, _, name = key.rpartition(".")
    if name not in known or section not in ("", known[name]):
        refuse_removed(key)
        msg = f"setting {key!r} is not known; the settings are: {', '.join(known)}"
        raise InvalidConfigError(msg)
    return known[name], name


@cache
def _section_type(section: str) -> type:
    kind: type = get_type_hints(FusionConfig)[section]
    return kind


def _plain(value: Any) -> Any:  # noqa: ANN401 - any settings value
    return value.value if isinstance(value, StrEnum) else value


PAPER = FusionConfig(decision=DecisionConfig(rule=RuleName.PAPER))
"""The published method with its parameters (sections III, IV-A and IV-B). Where the paper leaves a choice open or slips, `docs/method.md`
says what is done: what comes nearest to the printed figures. For mffw the paper sets beta, our ``detail_sparsity``, to 2."""

FAST = FusionConfig(decision=DecisionConfig(effort=Effort.FAST))
"""For previews and where time matters more than the last detail."""

# read-only: all callers share the one table
PRESETS: Mapping[str, FusionConfig] = MappingProxyType({"default": FusionConfig(), "fast": FAST, "paper": PAPER})
"""``default`` is one setting of ours for every kind of image."""


def preset(name: str) -> FusionConfig:
    """Return the settings of that name."""
    try:
        return PRESETS[name]
    except KeyError:
        msg = f"preset {name!r} is not known; choose one of: {', '.join(PRESETS)}"
        raise InvalidConfigError(msg) from None
