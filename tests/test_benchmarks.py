"""The benchmarks keep running as the engine changes: here on a small pair, once."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_the_timing_report_names_every_stage_for_every_preset(capsys: pytest.CaptureFixture[str]) -> None:
    script = runpy.run_path(str(BENCHMARKS / "run.py"))
    # the functions of a script look their constants up in its own namespace
    constants = script["main"].__globals__
    constants.update(SHARED_PAIR=(Path("missing.png"),), GENERATED_SHAPE=(64, 80), REPEATS=1)

    script["main"]()

    shown = capsys.readouterr().out
    assert "generated_a.png" in shown
    assert shown.count("decompose (QFED)") == shown.count("two runs byte-identical") == 2


def test_every_variant_of_the_ablation_is_a_valid_setting() -> None:
    script = runpy.run_path(str(BENCHMARKS / "quality.py"))

    for preset, changes in script["VARIANTS"].values():
        script["PRESETS"][preset].replaced(changes)
