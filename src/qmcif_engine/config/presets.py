"""Presets: settings that people ask for by a name."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from qmcif_engine.config.fusion_config import (
    Aggregation,
    DecisionConfig,
    DecompositionConfig,
    FocusConfig,
    FusionConfig,
    RefinementConfig,
    ResultScale,
    SimilarityPart,
)
from qmcif_engine.errors import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

PAPER = FusionConfig(
    decomposition=DecompositionConfig(is_low_rank=True, iterations=5),
    focus=FocusConfig(
        smallest_detail_patch_px=3,
        largest_detail_patch_px=99,
        aggregation=Aggregation.AVERAGE,
        evidence_scales=1,
        border_px=0,
        dark_border_px=0,
        adapts_to_noise=False,
    ),
    refinement=RefinementConfig(similarity=SimilarityPart.MODULUS),
    decision=DecisionConfig(consistency=0.0, follow_reach_px=0, edge_band_px=0, blend_radius_px=0),
)
"""The published parameters (sections III, IV-A and IV-B), without our additions to the decision map. Where the paper leaves a choice open
or slips, `docs/method.md` says what is done: what comes nearest to the printed figures. For mffw the paper sets beta, our
``detail_sparsity``, to 2."""

FAST = FusionConfig(
    decomposition=DecompositionConfig(iterations=2),
    refinement=RefinementConfig(result=ResultScale.DETAIL),
    decision=DecisionConfig(edge_stiffness=0.0, feather_px=0),
)
"""For previews and for those in a hurry: fewer iterations, the detail scale alone, outlines as they come, no feather on smooth ground."""

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
