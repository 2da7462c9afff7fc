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


def test_the_depth_report_names_every_scene_and_setting_and_writes_its_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = runpy.run_path(str(BENCHMARKS / "depth.py"))
    script["main"].__globals__.update(SHAPE=(72, 96), N_IMAGES=4, BACKGROUND=2, CROP=(slice(40), slice(40)))
    monkeypatch.setattr("sys.argv", ["depth.py", "--pictures", str(tmp_path)])

    script["main"]()

    shown = capsys.readouterr().out
    assert shown.count("within half a step") == 1
    assert shown.count("between images") == 4
    assert "| preference=front |" in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == ["depth-see-through.png", "depth-steps.png"]
