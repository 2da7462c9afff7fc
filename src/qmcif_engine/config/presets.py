"""Presets: settings that people ask for by a name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from qmcif_engine.config.fusion_config import DecisionConfig, Effort, FusionConfig, RuleName
from qmcif_engine.errors import InvalidConfigError

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
