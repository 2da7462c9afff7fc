"""The benchmarks keep running as the engine changes: here on a small pair, once."""

from __future__ import annotations

import runpy
from importlib import import_module
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
    assert shown.count("decompose (QFED)") == shown.count("two runs byte-identical") == 3


def test_every_variant_of_the_ablation_changes_settings_and_constants_that_exist() -> None:
    script = runpy.run_path(str(BENCHMARKS / "quality.py"))

    for preset, changes in script["VARIANTS"].values():
        script["PRESETS"][preset].replaced({name: value for name, value in changes.items() if "." not in name})
        for module, _, constant in (name.partition(".") for name in changes if "." in name):
            assert hasattr(import_module(f"qmcif_engine.{module}"), constant)


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


def test_the_seam_report_compares_tiles_with_the_whole_image(capsys: pytest.CaptureFixture[str]) -> None:
    script = runpy.run_path(str(BENCHMARKS / "seams.py"))
    images = list(script["make_focus_stack"](n_images=2, shape=(150, 170), seed=1).images)

    comparison = script["compare"](images, 64)
    script["print_row"]("small", 64, [comparison])

    assert 0.95 < comparison.equal_share <= 1
    assert len(comparison.border_steps) == 2 + 2
    assert "| small | 64 |" in capsys.readouterr().out


def test_the_scaling_report_has_a_row_a_case(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    script = runpy.run_path(str(BENCHMARKS / "scaling.py"))
    script["main"].__globals__.update(SIZES={"4": (100, 130)}, TILE_PX=64)
    monkeypatch.setattr("sys.argv", ["scaling.py", "--deep"])

    script["main"]()

    assert capsys.readouterr().out.count("| 0 | ") == 2


def test_the_speed_report_compares_presets_workers_and_numbers_of_images(capsys: pytest.CaptureFixture[str]) -> None:
    script = runpy.run_path(str(BENCHMARKS / "speed.py"))
    script["main"].__globals__.update(SHAPE=(210, 230), watch_enfuse=lambda *_: None)

    script["main"]()

    shown = capsys.readouterr().out
    for title in (
        "default, 2 threads",
        "default, 1 thread",
        "fast, 2 threads",
        "default, five images",
        "throughput",
        "five images against two",
    ):
        assert title in shown


def test_the_alignment_report_measures_generated_stacks(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    script = runpy.run_path(str(BENCHMARKS / "alignment.py"))
    script["main"].__globals__.update(N_CASES=1, CASE_SHAPE=(240, 320), CASE_N_IMAGES=3)
    monkeypatch.setattr("sys.argv", ["alignment.py", "generated"])

    script["main"]()

    assert "ours" in capsys.readouterr().out


def test_the_profile_names_the_stages(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["profile.py", "--shape", "96", "120"])
    script = runpy.run_path(str(BENCHMARKS / "profile.py"))

    script["main"]()

    shown = capsys.readouterr().out
    assert "decompose" in shown
    assert "peak of arrays" in shown
