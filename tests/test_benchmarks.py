"""The benchmarks keep running as the engine changes: here on a small pair, once."""

from __future__ import annotations

import json
import runpy
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

from qmcif_engine import make_focus_stack, write_image

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make benchmarks import each other, as when one is run; at the end, for their `profile.py` is not that of the standard library."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(BENCHMARKS)])


@pytest.fixture
def scenes(beside_each_other: None) -> dict[str, Any]:
    return runpy.run_path(str(BENCHMARKS / "scenes.py"))


@pytest.fixture
def stack_report(beside_each_other: None) -> dict[str, Any]:
    return runpy.run_path(str(BENCHMARKS / "stacks.py"))


def test_every_variant_of_the_ablation_changes_settings_and_constants_that_exist(beside_each_other: None) -> None:
    script = runpy.run_path(str(BENCHMARKS / "quality.py"))

    for preset, changes in script["VARIANTS"].values():
        script["PRESETS"][preset].replaced({name: value for name, value in changes.items() if "." not in name})
        for module, _, constant in (name.rpartition(".") for name in changes if "." in name):
            assert hasattr(import_module(f"qmcif_engine.{module}"), constant)


def test_borders_are_left_out_for_presets_and_for_folders_of_pictures(tmp_path: Path, beside_each_other: None) -> None:
    script = runpy.run_path(str(BENCHMARKS / "borders.py"))
    kept: dict[str, Any] = {}
    script["main"].__globals__.update(PAIRS=tmp_path / "data", save_result=lambda name, **table: kept.update({name: table}))
    pictures = tmp_path / "pictures" / "mfi_whu" / "sr"
    pictures.mkdir(parents=True)
    (tmp_path / "data").mkdir()
    stack = make_focus_stack(n_images=2, shape=(48, 64), seed=1)
    for role, image in (("a", stack.images[0]), ("b", stack.images[1]), ("truth", stack.truth)):
        write_image(tmp_path / "data" / f"01_{role}.png", image)
    write_image(pictures / "01.png", stack.images[0])

    script["main"](["-o", str(tmp_path / "report"), "--pictures", str(tmp_path / "pictures")])

    rows = kept["borders"]["rows"]
    assert [row[:3] for row in rows] == [
        [scored, 1, method] for scored in ("whole", "outer 8 px left out") for method in ("default", "preset fast", "preset paper", "SR")
    ]
    assert rows[0][3:] != rows[4][3:]
    scores = json.loads((tmp_path / "report" / "benchmark.json").read_text(encoding="utf-8"))["scores"]
    unfinished = [*scores, {**scores[0], "set_name": "02", "figures": dict.fromkeys(scores[0]["figures"], 0.0)}]
    assert script["average_scores"](unfinished) == rows


def test_the_depth_report_names_every_scene_and_setting_and_writes_its_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, beside_each_other: None
) -> None:
    script = runpy.run_path(str(BENCHMARKS / "depth.py"))
    kept: dict[str, Any] = {}
    script["main"].__globals__.update(SHAPE=(72, 96), N_IMAGES=4, BACKGROUND=2, CROP=(slice(40), slice(40)))
    script["main"].__globals__["save_result"] = lambda name, **table: kept.update({name: table})
    monkeypatch.setattr("sys.argv", ["depth.py", "--save", "--pictures", str(tmp_path)])

    script["main"]()

    shown = capsys.readouterr().out
    assert shown.count("within half a step") == 1
    assert shown.count("between images") == 4
    assert "preference=front | " in shown
    assert (len(kept["heights"]["rows"]), len(kept["see_through"]["rows"])) == (12, 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["depth-see-through.png", "depth-steps.png"]


def test_the_report_of_stack_settings_has_a_row_for_each_scene(beside_each_other: None, capsys: pytest.CaptureFixture[str]) -> None:
    script = runpy.run_path(str(BENCHMARKS / "stack_settings.py"))
    kept: dict[str, Any] = {}
    script["main"].__globals__.update(N_IMAGES=3, SHAPE=(64, 80), ORDER_CASES=(("dome", "none"),), NOISE_CASES=(("plane", "photons 10"),))
    script["main"].__globals__["save_result"] = lambda name, **table: kept.update({name: table})

    script["main"]()

    assert [len(row) for table in kept.values() for row in table["rows"]] == [5, 4]
    assert [len(table["columns"]) for table in kept.values()] == [5, 4]
    assert "tilted plane, 10 photons | " in capsys.readouterr().out


def test_the_seam_report_compares_tiles_with_the_whole_image(beside_each_other: None) -> None:
    script = runpy.run_path(str(BENCHMARKS / "seams.py"))
    images = list(script["make_focus_stack"](n_images=2, shape=(150, 170), seed=1).images)

    comparison = script["compare"](images, 64)
    cells = dict(zip(script["COLUMNS"], script["list_cells"]("small", 64, [comparison]), strict=True))

    assert 0.95 < comparison.equal_share <= 1
    assert len(comparison.border_steps) == 2 + 2
    assert (cells["images"], cells["tile side"], cells["mean"]) == ("small", 64, comparison.equal_share)
    assert str(cells["borders outside"]).endswith(" of 4")
    assert set(script["FORMATS"]) <= set(cells)


def test_the_scaling_report_has_a_row_a_case(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, beside_each_other: None
) -> None:
    script = runpy.run_path(str(BENCHMARKS / "scaling.py"))
    script["main"].__globals__.update(SIZES={"4": (100, 130)}, TILE_PX=64)
    monkeypatch.setattr("sys.argv", ["scaling.py", "--deep"])

    script["main"]()

    assert capsys.readouterr().out.count("| 0 | ") == 2


@pytest.fixture
def speed(monkeypatch: pytest.MonkeyPatch, beside_each_other: None) -> dict[str, Any]:
    """The report of speed on small images, without a first run to warm up; what it saves is under ``saved``."""
    script = runpy.run_path(str(BENCHMARKS / "speed.py"))
    script["saved"] = {}
    small = {"SCENE_SHAPE": (100, 120), "SCENE_REPEATS": (2, 2), "SHAPE": (210, 230), "DEEP_SHAPE": (120, 140), "DEEP_STACKS": (2, 4)}
    # the functions of a script look their constants up in its own namespace
    script["main"].__globals__.update(
        **small, warm_up=lambda *_: None, save_result=lambda name, **table: script["saved"].update({name: table})
    )
    monkeypatch.setattr(script["shutil"], "which", lambda _: None)
    return script


@pytest.mark.slow
def test_the_speed_report_compares_presets_threads_and_other_programs(monkeypatch: pytest.MonkeyPatch, speed: dict[str, Any]) -> None:
    monkeypatch.setattr("sys.argv", ["speed.py", "edges", "--turns", "1"])

    speed["main"]()

    table = speed["saved"]["speed_edges"]
    assert [row[0] for row in table["rows"]] == ["default", "fast", "default, 1 thread"]
    assert all(len(row) == len(table["columns"]) and min(row[1:]) > 0 for row in table["rows"])
    assert "times as fast as one" in table["note"]


def test_the_speed_report_compares_a_smooth_pair_in_the_same_way(speed: dict[str, Any], tmp_path: Path) -> None:
    compared = []
    speed["main"].__globals__["compare_pair"] = lambda name, images, *_: compared.append((name, [tifffile.imread(path) for path in images]))

    speed["compare_smooth"](tmp_path, None)

    ((name, images),) = compared
    assert name == "speed_smooth"
    assert [image.shape for image in images] == [(210, 230, 3)] * 2


@pytest.mark.slow
def test_the_speed_report_takes_deep_stacks_by_megapixel_and_image(monkeypatch: pytest.MonkeyPatch, speed: dict[str, Any]) -> None:
    monkeypatch.setattr("sys.argv", ["speed.py", "deep", "--turns", "1"])

    speed["main"]()

    rows = speed["saved"]["speed_deep"]["rows"]
    assert [row[0] for row in rows] == [2, 4]
    for n_images, seconds, *_, share, _peak in rows:
        assert share == pytest.approx(seconds / (120 * 140 / 1e6) / n_images)


def test_the_alignment_report_measures_generated_stacks(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    script = runpy.run_path(str(BENCHMARKS / "alignment.py"))
    script["main"].__globals__.update(N_CASES=1, CASE_SHAPE=(240, 320), CASE_N_IMAGES=3)
    monkeypatch.setattr("sys.argv", ["alignment.py", "generated"])

    script["main"]()

    assert "ours" in capsys.readouterr().out


def test_the_profile_names_the_stages(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, beside_each_other: None) -> None:
    monkeypatch.setattr("sys.argv", ["profile.py", "--shape", "96", "120"])
    script = runpy.run_path(str(BENCHMARKS / "profile.py"))

    script["main"]()

    shown = capsys.readouterr().out
    assert all(stage in shown for stage in ("detail_layer", "find_candidates", "halo_costs", "propagate", "draw", "compose_samples"))
    assert "peak of arrays" in shown


@pytest.mark.parametrize("name", ["dome", "plane", "steps", "threads", "beads", "simple steps", "simple threads", "simple beads"])
def test_every_scene_is_sharpest_at_its_true_depth_and_shows_its_beads_there(scenes: dict[str, Any], name: str) -> None:
    scene = scenes["make_scene"](name, 6, shape=(96, 112))
    nearest = np.clip(np.rint(scene.depth), 0, 5).astype(int)
    rows, columns = np.indices(nearest.shape)

    def error(index: np.ndarray) -> float:
        return float(np.mean((scene.images[index, rows, columns].astype(float) - scene.truth) ** 2))

    assert scenes["measure_right_share"](scene, nearest) == 1
    assert scenes["measure_right_share"](scene, (nearest + 3) % 6) < 0.01
    assert error(nearest) < 0.5 * min(error(np.full_like(nearest, number)) for number in range(6))
    assert all(scenes["find_kept_beads"](scene, scene.images[nearest, rows, columns]))
    assert bool(scene.beads) == name.endswith("beads")


def test_without_a_veil_the_image_nearest_to_the_truth_is_that_of_the_depth(scenes: dict[str, Any]) -> None:
    shares = {}
    for name in ("threads", "simple threads"):
        scene = scenes["make_scene"](name, 8, shape=(160, 160))
        shares[name] = scenes["measure_right_share"](scene, scenes["find_nearest_to_truth"](scene))

    assert shares["threads"] < shares["simple threads"]
    assert shares["simple threads"] > 0.95


@pytest.mark.parametrize(("noise", "expected"), [("gaussian 10", 10.0), ("photons 30", 255 / 60**0.5), ("photons 10", 255 / 20**0.5)])
def test_the_noise_of_a_scene_is_as_strong_as_its_name_says(scenes: dict[str, Any], noise: str, expected: float) -> None:
    noisy = scenes["add_noise"](np.full((200, 200), 127.5), noise, generator=np.random.default_rng(0))

    assert noisy.mean() == pytest.approx(127.5, abs=1)
    assert noisy.std() == pytest.approx(expected, rel=0.02)


def test_hot_pixels_are_where_they_were_put_and_lie_elsewhere_in_every_image(scenes: dict[str, Any]) -> None:
    scene = scenes["make_scene"]("plane", 8, noise=scenes["HOT"], shape=(200, 200))
    again = scenes["make_scene"]("plane", 8, noise=scenes["HOT"], shape=(200, 200))

    assert np.array_equal(scene.images, again.images)
    assert scenes["measure_hot_share"](scene.truth) == 0
    assert scenes["measure_hot_share"](scene.images) == pytest.approx(2e-4, rel=0.5)
    assert (scene.images == 255).all(axis=-1).sum(axis=0).max() == 1


def test_the_stack_report_measures_scenes_and_the_confidence_of_their_decisions(
    stack_report: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stack_report["main"].__globals__.update(N_IMAGES=(3,), SHAPE=(96, 112))

    stack_report["main"](
        ["scenes", "confidence", "--jobs", "1", "--shared", str(tmp_path), "--only", "beads-3", "--pictures", str(tmp_path)]
    )

    printed = capsys.readouterr()
    rows = [line for line in printed.out.splitlines() if line.startswith("| beads | 3 |")]
    assert len(rows) == 1
    assert len(rows[0].split("|")) == 11
    assert "The bar holds in" in printed.out
    assert "| 0.9 ± 0.05 |" in printed.out
    assert len(list(tmp_path.glob("scene_beads_003_*.png"))) == 4


def test_the_stack_report_refuses_parts_that_it_does_not_have(stack_report: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        stack_report["main"](["stocks"])

    assert ended.value.code == 2
    assert "stocks is no part of the report; choose from scenes, confidence" in capsys.readouterr().err


def test_the_stack_report_skips_what_needs_the_shared_measures_where_they_are_absent(
    stack_report: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stack_report["main"](["objects", "halos", "--jobs", "1", "--shared", str(tmp_path)])

    assert "objects, halos: skipped, for" in capsys.readouterr().err


def test_rows_measured_again_replace_those_of_a_result_file_and_stand_beside_the_floors(
    beside_each_other: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["stacks.py"])
    rows = runpy.run_path(str(BENCHMARKS / "quality_rows.py"))
    of_seed = [
        rows["Row"]("halos", f"wide, seed {seed}", "ours", {"halo": halo, "psnr": 40.0, "psnr_of_best_choice": 50.0})
        for seed, halo in enumerate((0.1, 0.3))
    ]
    rows["keep_rows"]("report", [of_seed[0]._replace(figures={"halo": 0.9, "psnr": 1.0})], folder=tmp_path)
    rows["keep_rows"]("report", of_seed, folder=tmp_path)

    kept = rows["load_rows"]("report", folder=tmp_path)
    floors = [row._replace(figures={**row.figures, "psnr": 36.0 + number}) for number, row in enumerate(kept)]
    header, lines = rows["tabulate"]("halos", kept, floors)

    assert kept == of_seed
    assert header[2:] == ["present default: halo / psnr", "floor (ef70af8): halo / psnr"]
    assert lines == [["wide", "50", "0.3000 / 40.00", "0.3000 / 36.50"]]


@pytest.mark.parametrize(("change", "largest"), [("as it is", 0), ("10 % brighter", 20), ("shifted by .5 px", 255)])
def test_changed_frames_keep_their_type_and_differ_as_they_say(beside_each_other: None, change: str, largest: int) -> None:
    script = runpy.run_path(str(BENCHMARKS / "stack_quality.py"))
    frames = list(np.random.default_rng(0).integers(50, 200, (3, 20, 30, 3)).astype(np.uint8))

    changed, gains = script["change_frames"](frames, change)
    differences = [int(np.abs(one.astype(int) - other).max()) for one, other in zip(changed, frames, strict=True)]

    assert {frame.dtype.name for frame in changed} == {"uint8"}
    assert gains.max() == (1.1 if change.startswith("10") else 1)
    assert (max(differences) == 0) == (change == "as it is")
    assert (differences[0] == 0) != change.startswith("shifted")
    assert max(differences) <= largest
