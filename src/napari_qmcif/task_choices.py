"""Choices in the words of the task, and the settings of the method that each stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qmcif_engine import FusionConfig


@dataclass(frozen=True, slots=True)
class TaskChoice:
    """One question to the user, what its answers change, and by answer the settings it stands for; the first is the default."""

    label: str
    tooltip: str
    answers: Mapping[str, Mapping[str, Any]]

    def find_answer(self, config: FusionConfig) -> str | None:
        """Return the answer that settings amount to, or None where they were set one by one."""
        return next((answer for answer, values in self.answers.items() if config.replaced(dict(values)) == config), None)


TASK_CHOICES = {
    "noise": TaskChoice(
        "Noise",
        "How much decisions look past noise.\nStrong also lets neighboring decisions agree more.",
        {
            "measured": {"focus.adapts_to_noise": True, "decision.consistency": 1.0},
            "none": {"focus.adapts_to_noise": False, "decision.consistency": 1.0},
            "strong": {"focus.adapts_to_noise": True, "decision.consistency": 2.0},
        },
    ),
    "structures": TaskChoice(
        "Structures",
        "Fine: decisions are made on smaller patches, for hairs, bristles and fibers; noise shows more.",
        {
            "ordinary": {"focus.smallest_detail_patch_px": 9, "focus.largest_detail_patch_px": 17},
            "fine": {"focus.smallest_detail_patch_px": 5, "focus.largest_detail_patch_px": 9},
        },
    ),
    "see_through": TaskChoice(
        "See-through",
        "Which end of the stack wins where several images are sharp, as with wings and glass.",
        {
            "sharpest": {"decision.preference": "none"},
            "front (first images)": {"decision.preference": "front"},
            "back (last images)": {"decision.preference": "back"},
        },
    ),
    "background": TaskChoice(
        "Background",
        "Smooth: large areas without texture follow the nearest sharp part further, and brightness is blended wider.",
        {
            "ordinary": {"decision.follow_reach_px": 64, "decision.feather_px": 16},
            "smooth": {"decision.follow_reach_px": 512, "decision.feather_px": 48},
        },
    ),
    "halo": TaskChoice(
        "Halos",
        "How far from an edge pixels are decided again by which image explains the other.\n"
        "Wide: for edges far out of focus; off: edges stay as they come.",
        {
            "ordinary": {"decision.edge_band_px": 8},
            "wide": {"decision.edge_band_px": 24},
            "off": {"decision.edge_band_px": 0},
        },
    ),
}
"""Beside these five stands the preset, which is quality against speed."""

PRESET_WORDS = {"default": "balanced", "fast": "fast", "paper": "as published (slow)"}
