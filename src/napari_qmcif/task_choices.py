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
            "measured": {"decision.noise": "auto", "decision.smoothness": 1.0},
            "none": {"decision.noise": "off", "decision.smoothness": 1.0},
            "strong": {"decision.noise": "auto", "decision.smoothness": 2.0},
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
        "Smooth: brightness is blended wider where a narrow blend would show as a step.",
        {
            "ordinary": {"decision.feather_px": 3.0},
            "smooth": {"decision.feather_px": 12.0},
        },
    ),
}
"""Beside these three stands the preset, which is quality against speed."""

PRESET_WORDS = {"default": "balanced", "fast": "fast", "paper": "as published (slow)"}
