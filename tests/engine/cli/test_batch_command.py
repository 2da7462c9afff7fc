"""``qmcif batch``: every stack, a table of what became of them, and the exit code that says whether all worked."""

import json
import shutil

import numpy as np
import pytest
import tifffile

from qmcif_engine.cli import main
from qmcif_engine.io.output.formats import write_image
from qmcif_engine.pipeline.file_run import FileRun
from qmcif_engine.stack.synthetic import make_focus_stack

FAST = ["--set", "effort=fast"]


@pytest.fixture(scope="module")
def images():
    return make_focus_stack(n_images=2, shape=(40, 48), seed=4).images


@pytest.fixture
def root(images, tmp_path):
    """Two good stacks, and one whose image is none."""
    folder = tmp_path / "stacks"
    for name in ("ant", "bee"):
        (folder / name).mkdir(parents=True)
        for number, image in enumerate(images):
            write_image(folder / name / f"{number}.png", image)
    (folder / "broken").mkdir()
    (folder / "broken" / "0.png").write_bytes(b"no picture")
    return folder


def interrupt_after(monkeypatch, n_finished):
    """Let some runs end, and the next one be interrupted."""
    calls, call = [], FileRun.__call__

    def interrupt(run, **options):
        calls.append(run)
        if len(calls) > n_finished:
            raise KeyboardInterrupt
        return call(run, **options)

    monkeypatch.setattr(FileRun, "__call__", interrupt)


def test_one_failure_among_many_is_told_and_ends_with_exit_code_1(root, tmp_path, capsys):
    assert main(["batch", str(root), "-o", str(tmp_path / "out"), "--maps", *FAST]) == 1

    shown = capsys.readouterr()
    table = shown.out.split("\n\n")[1].splitlines()
    assert [line.split()[:2] for line in table] == [["stack", "result"], ["ant", "fused"], ["bee", "fused"], ["broken", "failed"]]
    assert "a PNG, JPEG or TIFF file is needed" in table[3]
    assert "1 of 3 stacks failed" in shown.err
    assert "Traceback" not in shown.err
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["ant.ome.tif", "ant_maps", "bee.ome.tif", "bee_maps"]


@pytest.mark.parametrize(
    ("n_finished", "reason"), [(0, "nothing was left behind"), (1, "what is finished is kept: continue with --resume")]
)
def test_an_interruption_says_whether_something_was_finished(root, tmp_path, capsys, monkeypatch, n_finished, reason):
    interrupt_after(monkeypatch, n_finished)
    assert main(["batch", str(root), "-o", str(tmp_path / "out"), *FAST]) == 130

    assert f"interrupted; {reason}" in capsys.readouterr().err
    assert (tmp_path / "out").exists() == bool(n_finished)


def test_a_batch_that_was_to_replace_still_may_when_it_is_resumed(root, tmp_path, capsys, monkeypatch):
    arguments = ["batch", str(root), "-o", str(tmp_path / "out"), "--json", *FAST]
    shutil.rmtree(root / "broken")
    assert main([*arguments, "--set", "feather_px=8"]) == 0
    old = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    interrupt_after(monkeypatch, 1)
    assert main([*arguments, "--overwrite"]) == 130
    monkeypatch.undo()
    assert main(arguments) == 2
    assert "an unfinished run is in" in capsys.readouterr().err
    assert main([*arguments, "--resume", "--set", "feather_px=4"]) == 2
    assert "has other images, settings or another version" in capsys.readouterr().err

    assert main([*arguments, "--resume"]) == 0

    rows = json.loads(capsys.readouterr().out)["stacks"]
    assert [row["status"] for row in rows] == ["skipped", "fused"]
    assert all((tmp_path / "out" / name).read_bytes() != content for name, content in old.items())
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(old)


def test_a_second_batch_is_refused_while_the_first_goes_on(root, tmp_path, capsys, monkeypatch):
    arguments = ["batch", str(root), "-o", str(tmp_path / "out"), *FAST]
    shutil.rmtree(root / "broken")
    call, codes = FileRun.__call__, []

    def start_another(run, **options):
        codes.append(0)
        if len(codes) == 2:
            codes.append(main([*arguments, "--overwrite"]))
        return call(run, **options)

    monkeypatch.setattr(FileRun, "__call__", start_another)
    assert main(arguments) == 0
    assert codes == [0, 0, 2]
    assert "a run is going on in" in capsys.readouterr().err


def test_stacks_of_which_one_would_replace_results_of_another_are_refused(root, tmp_path, capsys):
    shutil.copytree(root / "ant", root / "ant_height")
    arguments = ["batch", str(root), "-o", str(tmp_path / "out"), "--z-step", "1", *FAST]

    assert main([*arguments, "--depth", "--overwrite"]) == 2

    assert "the stacks 'ant' and 'ant_height' would both write 'ant_height.ome.tif'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_resuming_skips_what_is_there_and_fuses_what_is_missing(root, images, tmp_path, capsys):
    arguments = ["batch", str(root), "-o", str(tmp_path / "out"), "--json", *FAST]
    main(arguments)
    (tmp_path / "out" / "bee.ome.tif").unlink()
    for number, image in enumerate(images):
        write_image(root / "broken" / f"{number}.png", image, overwrite=True)
    capsys.readouterr()

    assert main([*arguments, "--resume"]) == 0

    rows = json.loads(capsys.readouterr().out)["stacks"]
    assert {row["name"]: row["status"] for row in rows} == {"ant": "skipped", "bee": "fused", "broken": "fused"}
    assert rows[1]["outputs"] == [str(tmp_path / "out" / "bee.ome.tif")]


def test_resuming_refuses_results_of_other_settings(root, tmp_path, capsys):
    arguments = ["batch", str(root), "-o", str(tmp_path / "out"), "--json", *FAST]
    main(arguments)
    shutil.rmtree(root / "broken")
    capsys.readouterr()

    assert main([*arguments, "--resume", "--set", "feather_px=8"]) == 2

    shown = capsys.readouterr()
    rows = json.loads(shown.out)["stacks"]
    assert [row["status"] for row in rows] == ["failed", "failed"]
    assert all("exists already and is not known to be the result of these images and settings" in row["message"] for row in rows)
    assert "the outputs of all 2 stacks were refused" in shown.err
    (tmp_path / "out" / "ant.ome.tif").unlink()
    assert main([*arguments, "--resume", "--set", "feather_px=8"]) == 1
    assert [row["status"] for row in json.loads(capsys.readouterr().out)["stacks"]] == ["fused", "failed"]


def test_resuming_skips_finished_movies(tmp_path, capsys):
    times = np.stack([make_focus_stack(n_images=2, shape=(40, 48), seed=seed, is_color=False).images for seed in (1, 2)])
    for name in ("a", "b"):
        tifffile.imwrite(tmp_path / f"{name}.ome.tif", times, metadata={"axes": "TZYX"})
    arguments = ["batch", str(tmp_path), "--pattern", "{group}.ome.tif", "-o", str(tmp_path / "out"), "--json", *FAST]
    assert main(arguments) == 0
    (tmp_path / "out" / "b.ome.tif").unlink()
    capsys.readouterr()

    assert main([*arguments, "--resume"]) == 0

    rows = json.loads(capsys.readouterr().out)["stacks"]
    assert [row["status"] for row in rows] == ["skipped", "fused"]


def test_existing_results_are_failures_unless_they_may_be_replaced(root, tmp_path, capsys):
    arguments = ["batch", str(root), "-o", str(tmp_path / "out"), "--json", *FAST]
    main(arguments)
    capsys.readouterr()

    assert main(arguments) == 1
    assert "exists" in json.loads(capsys.readouterr().out)["stacks"][0]["message"]
    assert main([*arguments, "--overwrite"]) == 1
    assert [row["status"] for row in json.loads(capsys.readouterr().out)["stacks"]] == ["fused", "fused", "failed"]


def test_groups_of_a_pattern_with_heights_and_another_format(images, tmp_path, capsys):
    for name in ("a", "b"):
        for number, image in enumerate(images):
            write_image(tmp_path / f"{name}_z{number}.tif", image)
    arguments = ["batch", str(tmp_path), "-o", str(tmp_path / "out"), "--pattern", "{group}_z{frame}.tif", "--suffix", ".png"]

    assert main([*arguments, "--depth", "--z-step", "2", "--z-unit", "mm", "--quiet", *FAST]) == 0

    assert capsys.readouterr().out == ""
    heights = tifffile.imread(tmp_path / "out" / "a_height.ome.tif")
    assert heights.dtype == np.float32
    assert set(np.unique(heights)) == {0.0, 2.0}
    assert (tmp_path / "out" / "b.png").exists()


def test_hostile_names_write_nothing_outside_the_folder_of_results(images, tmp_path, capsys):
    for number, image in enumerate(images):
        write_image(tmp_path / f".._{number}.tif", image)
        (tmp_path / f".._{number}.tif").rename(tmp_path / f"x{number}-...tif")
    before = {path.name for path in tmp_path.iterdir()}

    assert main(["batch", str(tmp_path), "-o", str(tmp_path / "out"), "--pattern", "x{frame}-{group}.tif", "--maps", *FAST]) == 1

    assert "cannot name its results" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == before | {"out"}
    assert list((tmp_path / "out").iterdir()) == []


def test_names_with_control_characters_are_shown_escaped(root, tmp_path, capsys):
    (root / "bee").rename(root / "b\x1b[31mee")

    assert main(["batch", str(root), "-o", str(tmp_path / "out"), *FAST]) == 1

    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert r"b\x1b[31mee" in shown


def test_a_dry_run_lists_the_stacks_and_does_nothing(root, tmp_path, capsys):
    assert main(["batch", str(root), "-o", str(tmp_path / "out"), "--dry-run"]) == 0
    assert f"ant: {root / 'ant'} to {tmp_path / 'out' / 'ant.ome.tif'}" in capsys.readouterr().out.splitlines()

    assert main(["batch", str(root), "-o", str(tmp_path / "out"), "--dry-run", "--json"]) == 0
    assert [stack["name"] for stack in json.loads(capsys.readouterr().out)["stacks"]] == ["ant", "bee", "broken"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--suffix", ".txt"], "has the suffix '.txt'"),
        (["--pattern", "*.tif"], "names with one {group}"),
        (["--transforms", "nowhere.json"], "'nowhere.json' does not exist; transforms for all stacks are needed"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_written(root, tmp_path, capsys, arguments, message):
    assert main(["batch", str(root), "-o", str(tmp_path / "out"), *arguments]) == 2

    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
