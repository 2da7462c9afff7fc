"""Every setting of the method, its default, bounds and help text, in one place.

The command line and the widget are generated from these dataclasses, so nothing here is repeated elsewhere. Field names avoid the
paper's Greek letters; the help text gives the letter. ``FusionConfig()`` is the ``default`` preset; the published parameters are the
``paper`` preset (`qmcif_engine.config.presets`).
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
import warnings
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cache
from typing import Any, Self, get_type_hints

from qmcif_engine.config.settings import Checked, parse_value, setting
from qmcif_engine.errors import InvalidConfigError

SMALLEST_TOLERANCE = 1e-6
"""Below this a change of the 0-255 scale drowns in float32 rounding: the loop would never stop."""


MOST_DOTS = 64
"""Dots in a line of settings: those of names and of numbers."""


RENAMED = {"dark_frame_px": "dark_border_px"}
"""Former names of settings, still read: settings files outlive a version."""


class Representation(StrEnum):
    """What the decisions look at."""

    QUATERNION = "quaternion"
    GRAY = "gray"


class FocusMeasureName(StrEnum):
    """How focus is measured (`qmcif_engine.method.focus_measures`)."""

    DECOMPOSITION = "decomposition"
    LAPLACIAN = "laplacian"


class ResultScale(StrEnum):
    """Which fusion result is returned."""

    REFINED = "refined"
    BASE = "base"
    DETAIL = "detail"


class Aggregation(StrEnum):
    """How overlapping detail patches are put together."""

    VOTE = "vote"
    AVERAGE = "average"


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
class DecompositionConfig(Checked):
    """Settings of the quaternion focal element decomposition (QFED), section III-B.1."""

    # published: alpha, beta (2 for mffw), lambda, and how mu grows; its first value is not
    base_smoothness: float = setting(1.5, "alpha: how smooth the base layer is made", low=0.0, high=1000.0)
    detail_sparsity: float = setting(0.5, "beta: how sparse the detail layer is made", low=0.0, high=1000.0)
    noise_weight: float = setting(0.05, "lambda: cost of the noise layer; 0 makes it free", low=0.0, high=1000.0)
    is_low_rank: bool = setting(False, "use the low-rank term: coefficients of similar base patches form low-rank groups")
    penalty: float = setting(0.2, "mu at the first iteration", low=1e-3, high=1e3)
    penalty_growth: float = setting(1.1, "factor on mu after each iteration", low=1.0, high=10.0)
    penalty_cap: float = setting(1e6, "largest mu", low=1.0, high=1e9)
    # published: within 20, until nothing changes by more than 1e-5
    iterations: int = setting(3, "number of iterations, or their limit when a tolerance is set", low=1, high=1000, unit="iterations")
    tolerance: float = setting(
        0.0, "stop when no coefficient or detail changes by more, as a share of 255; 0 runs all iterations", low=0.0, high=1.0
    )
    # 8 is published; there is a learned dictionary for each of the three
    base_patch_px: int = setting(8, "side of a base patch", choices=(5, 8, 10), unit="px")
    n_groups: int = setting(8, "K: number of groups of similar base patches", low=1, high=256)
    cluster_seed: int = setting(0, "seed of the k-means grouping", low=0, high=2**31 - 1)
    precision: Precision = setting(Precision.SINGLE, "floating-point type of the decomposition")

    def __post_init__(self) -> None:
        """Check the fields, then what they must be together."""
        Checked.__post_init__(self)
        if self.penalty > self.penalty_cap:
            msg = f"setting penalty is {self.penalty:g}, above penalty_cap {self.penalty_cap:g}; it only grows: lower it or raise the cap"
            raise InvalidConfigError(msg)
        if 0 < self.tolerance < SMALLEST_TOLERANCE and self.precision is Precision.SINGLE:
            msg = (
                f"setting tolerance is {self.tolerance:g}; float32 cannot resolve less than {SMALLEST_TOLERANCE:g}: "
                "use a larger tolerance, 0 for a fixed number of iterations, or precision=float64"
            )
            raise InvalidConfigError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class FocusConfig(Checked):
    """Settings of the dual-scale focus measures, section III-B.2."""

    representation: Representation = setting(
        Representation.QUATERNION, "what decisions are based on: the color as a quaternion, or the gray value"
    )
    measure: FocusMeasureName = setting(
        FocusMeasureName.DECOMPOSITION,
        "how focus is measured: on the decomposed detail layer, as published, or by the Laplacian energy of the brightness",
    )
    amplification_radius_px: int = setting(3, "r: the detail layer is summed over (2r+1)x(2r+1) windows", low=0, high=15, unit="px")
    # published: theta and gamma
    coefficient_weight: float = setting(1.0, "theta: weight of the patch coefficients in the base-scale measure", low=0.0, high=1000.0)
    saturation: float = setting(0.2, "gamma: detail focus level (0-1) at which the weighting function reaches 63 %", low=1e-3, high=1e3)
    detail_patch_px: int = setting(
        0, "side of a detail patch; 0 takes 5e-5 of the pixel count, within the two limits below", low=0, high=99, unit="px"
    )
    # the published rule has no limits: these are ours, and wide open in the preset `paper`
    smallest_detail_patch_px: int = setting(
        9, "least side the rule may give; an even side becomes the odd one below", low=1, high=99, unit="px"
    )
    largest_detail_patch_px: int = setting(
        17, "largest side the rule may give; an even side becomes the odd one below", low=1, high=99, unit="px"
    )
    aggregation: Aggregation = setting(
        Aggregation.VOTE,
        "how detail patches that overlap are put together: by a vote on each pixel, or averaged, which leaves no decisions to clean up",
    )
    evidence_scales: int = setting(
        5, "number of window sizes, each twice the previous, whose focus levels add up to the evidence of a patch", low=1, high=8
    )
    evidence_decay: float = setting(0.4, "weight of each further window size relative to the previous one", low=0.0, high=1.0)
    border_px: int = setting(4, "focus levels this close to the image border are mirrored from the interior", low=0, high=64, unit="px")
    dark_border_px: int = setting(
        4, "if one image alone fades to black in its outermost pixels, up to this many are taken from the others", low=0, high=64, unit="px"
    )

    adapts_to_noise: bool = setting(
        True, "ignore hot pixels, and smooth the data on which decisions are based as much as the noise of the stack requires"
    )

    def __post_init__(self) -> None:
        """Check the fields, then what they must be together."""
        Checked.__post_init__(self)
        if self.smallest_detail_patch_px > self.largest_detail_patch_px:
            msg = (
                f"setting smallest_detail_patch_px is {self.smallest_detail_patch_px}, above largest_detail_patch_px "
                f"{self.largest_detail_patch_px}; the least side may not exceed the largest: change one of them"
            )
            raise InvalidConfigError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefinementConfig(Checked):
    """Settings of the structural similarity refinement (QSSR), section III-D."""

    result: ResultScale = setting(ResultScale.REFINED, "what is returned: the refined choice, or one scale alone")
    weights: WeightRule = setting(WeightRule.ADAPTIVE, "tau: weight sources by their focus level, or all equally")
    similarity: SimilarityPart = setting(
        SimilarityPart.SCALAR, "compare the modulus (as published) or the scalar part, which sees inverted contrast"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionConfig(Checked):
    """Settings of what follows the published method: clean-up of the decision map and blending along its edges."""

    order: StackOrder = setting(StackOrder.ORDERED, "whether three or more images are in the order of their focus; none if they are not")
    consistency: float = setting(
        1.0,
        "cost of differing neighboring decisions, relative to their evidence; 0 lets every patch decide for itself",
        low=0.0,
        high=100.0,
    )
    follow_reach_px: int = setting(
        64,
        "textureless pixels follow the nearest decided pixel up to this distance; 0 applies the tie rule",
        low=0,
        high=4096,
        unit="px",
    )
    edge_band_px: int = setting(
        8,
        "pixels on either side of a decision edge that are decided again, by which image explains the other; 0 keeps the edge",
        low=0,
        high=64,
        unit="px",
    )
    edge_inertia: float = setting(
        0.2, "how much better (logarithm of a ratio) the other image must explain before a pixel changes sides", low=0.0, high=10.0
    )
    edge_stiffness: float = setting(
        2.0, "cost per step of a redrawn outline, in the same unit: larger values give smoother outlines", low=0.0, high=100.0
    )
    blend_radius_px: int = setting(
        1, "radius of the guided filter that blends along decision edges; 0 for hard cuts", low=0, high=16, unit="px"
    )
    blend_edge_contrast: float = setting(0.1, "contrast (0-1) above which the blend keeps an edge of the image sharp", low=1e-4, high=10.0)
    feather_px: int = setting(
        16, "how far brightness is blended where a narrow blend would show as a step; 0 for none", low=0, high=128, unit="px"
    )
    preference: Preference = setting(Preference.NONE, "prefer the first images (front) or the last (back) where several are sharp")
    preference_ratio: float = setting(
        1.5, "how many times sharper the other end of the stack must be to win against the preferred end", low=1.0, high=1000.0
    )


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

    decomposition: DecompositionConfig = field(default_factory=DecompositionConfig)
    focus: FocusConfig = field(default_factory=FocusConfig)
    refinement: RefinementConfig = field(default_factory=RefinementConfig)
    decision: DecisionConfig = field(default_factory=DecisionConfig)
    tiling: TilingConfig = field(default_factory=TilingConfig)

    @classmethod
    def setting_fields(cls) -> dict[str, dataclasses.Field[Any]]:
        """Return every setting by its ``section.name``, in order of the stages."""
        return {f"{part.name}.{item.name}": item for part in fields(cls) for item in fields(_section_type(part.name))}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Build from nested sections as `to_dict` gives them; what is missing keeps its default."""
        return cls().updated(values)

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Build from TOML text with one table per stage."""
        return cls().updated(parse_toml(text))

    def updated(self, values: dict[str, Any]) -> Self:
        """Return a copy with the settings of some nested sections changed."""
        return self.replaced({f"{section}.{name}": value for section, name, value in _flattened(values)})

    def replaced(self, values: dict[str, Any]) -> Self:
        """Return a copy with some settings changed, named ``name`` or ``section.name``."""
        changes: dict[str, dict[str, Any]] = {}
        for key, value in values.items():
            section, name = _located(key)
            changes.setdefault(section, {})[name] = value
        parts = {section: dataclasses.replace(getattr(self, section), **fields_) for section, fields_ in changes.items()}
        return dataclasses.replace(self, **parts)

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


_SECTIONS = tuple(part.name for part in fields(FusionConfig))


def parse_toml(text: str) -> dict[str, Any]:
    """Read TOML text into nested sections for `FusionConfig.updated`.

    Names of thousands of parts are refused unread: the parser's time and memory grow with the square of their number.
    """
    has_long_texts = '"""' in text or "'''" in text  # in which a line can begin like a comment and be none
    for number, line in enumerate(text.split("\n"), 1):
        is_comment = line.lstrip().startswith("#") and not has_long_texts
        if line.count(".") > MOST_DOTS and not is_comment:
            msg = f"line {number} of the configuration has {line.count('.')} dots; section and name alone are needed: correct it"
            raise InvalidConfigError(msg)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        msg = f"the configuration is not valid TOML ({error}); tables such as [focus] with name = value lines are needed: correct it"
        raise InvalidConfigError(msg) from error


def parse_assignment(text: str) -> tuple[str, Any]:
    """Read one ``name=value`` of the command line into the type of that setting."""
    key, separator, value = text.partition("=")
    if not separator:
        msg = f"setting {text!r} has no value; name=value is needed: write for example iterations=20"
        raise InvalidConfigError(msg)
    section, name = _located(key.strip())
    kind = get_type_hints(_section_type(section))[name]
    return f"{section}.{name}", parse_value(name, kind, value.strip())


def _located(key: str) -> tuple[str, str]:
    """Find the section a setting belongs to; names are unique across sections."""
    key = _present_name(key)
    known = [full.partition(".") for full in FusionConfig.setting_fields()]
    matches = [(section, name) for section, dot, name in known if key in (section + dot + name, name)]
    if not matches:
        msg = f"setting {key!r} is not known; the settings are: {', '.join(name for _, _, name in known)}"
        raise InvalidConfigError(msg)
    return matches[0]


def _present_name(key: str) -> str:
    """Return the name that a setting has now, and say so where it was given by its former one."""
    former = key.rpartition(".")[2]
    if former not in RENAMED:
        return key
    present = RENAMED[former]
    # stacklevel: whoever called `replaced`
    warnings.warn(f"setting {former} is called {present} now: change the name", FutureWarning, stacklevel=4)
    return key.removesuffix(former) + present


@cache
def _section_type(section: str) -> type:
    kind: type = get_type_hints(FusionConfig)[section]
    return kind


def _flattened(values: dict[str, Any]) -> list[tuple[str, str, Any]]:
    rows = []
    for section, content in values.items():
        if not isinstance(content, dict):
            msg = f"setting {section!r} stands outside a section; one of the tables {', '.join(_SECTIONS)} is needed: move it into one"
            raise InvalidConfigError(msg)
        if section not in _SECTIONS:
            msg = f"section {section!r} is not known; the sections are: {', '.join(_SECTIONS)}: correct its name"
            raise InvalidConfigError(msg)
        rows += [(section, name, value) for name, value in content.items()]
    return rows


def _plain(value: Any) -> Any:  # noqa: ANN401 - any settings value
    return value.value if isinstance(value, StrEnum) else value
