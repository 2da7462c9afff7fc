"""Drive the command as a person would, and see its exit codes, messages and files."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image

from qmcif_engine.cli import main
from qmcif_engine.io.input.open import read_image
from qmcif_engine.io.output.formats import write_image
from qmcif_engine.pipeline.in_memory import fuse
from qmcif_engine.stack.synthetic import make_focus_stack

MAPS = {"source_index.tif", "base_map.tif", "detail_map.tif", "confidence.tif"}


@pytest.fixture(scope="module")
def stack():
    return make_focus_stack(n_images=2, shape=(48, 64), seed=4).images


@pytest.fixture
def pair(stack, tmp_path):
    paths = [tmp_path / "a.png", tmp_path / "b.png"]
    for path, image in zip(paths, stack, strict=True):
        write_image(path, image)
    return [str(path) for path in paths]


def refused(capsys, arguments):
    """Run the command, check that it refuses in one line without a traceback, and return the line."""
    assert main(arguments) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1
    return lines[0]


def test_fuse_writes_what_the_function_returns(stack, pair, tmp_path):
    result = fuse(list(stack), with_maps=True)

    assert main(["fuse", *pair, "-o", str(tmp_path / "out.png"), "--maps", str(tmp_path / "maps"), "--quiet"]) == 0
    np.testing.assert_array_equal(read_image(tmp_path / "out.png").samples, result.fused)
    assert {path.name for path in (tmp_path / "maps").iterdir()} == MAPS
    for name in MAPS:
        np.testing.assert_array_equal(tifffile.imread(tmp_path / "maps" / name), getattr(result, name.removesuffix(".tif")))


def test_json_is_one_object_with_times_memory_settings_and_paths(pair, tmp_path, capsys):
    target = tmp_path / "out.tif"
    assert main(["fuse", *pair, "-o", str(target), "--json", "--set", "iterations=2", "--preset", "paper"]) == 0

    report = json.loads(capsys.readouterr().out)
    assert report["outputs"] == [str(target)]
    assert report["settings"]["method"]["iterations"] == 2
    assert report["settings"]["method"]["is_low_rank"] is True
    assert report["wall_seconds"] >= 0
    assert report["cpu_seconds"] > 0
    assert report["peak_memory_bytes"] > 1e6


def test_a_configuration_file_stands_between_preset_and_single_settings(pair, tmp_path, capsys):
    (tmp_path / "c.toml").write_text("[method]\niterations = 3\nn_groups = 4\n", encoding="utf-8")
    arguments = ["fuse", *pair, "-o", str(tmp_path / "o.png"), "--json", "--preset", "paper", "--config", str(tmp_path / "c.toml")]
    assert main([*arguments, "--set", "n_groups=5"]) == 0

    settings = json.loads(capsys.readouterr().out)["settings"]["method"]
    assert (settings["iterations"], settings["n_groups"], settings["is_low_rank"]) == (3, 5, True)


def test_sixteen_bit_alpha_follows_the_decisions(stack, tmp_path):
    paths = [tmp_path / "a.png", tmp_path / "b.png"]
    for level, (path, image) in enumerate(zip(paths, stack, strict=True), start=1):
        write_image(path, image.astype(np.uint16) * 257, alpha=np.full(image.shape[:2], 20000 * level, np.uint16))

    assert main(["fuse", *map(str, paths), "-o", str(tmp_path / "o.png"), "--quiet"]) == 0
    written = read_image(tmp_path / "o.png")
    assert written.samples.dtype == np.uint16
    assert written.alpha is not None
    assert {20000, 40000} <= set(np.unique(written.alpha))


def test_significant_bits_settle_the_focus_range(stack, tmp_path, capsys):
    paths = [tmp_path / "a.ome.tif", tmp_path / "b.ome.tif"]
    for path, image in zip(paths, stack, strict=True):
        tifffile.imwrite(path, image[..., 0].astype(np.uint16) * 16, metadata={"axes": "YX", "SignificantBits": 12})
    assert main(["fuse", *map(str, paths), "-o", str(tmp_path / "o.tif"), "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["focus_range"] == [0.0, 4095.0]


def test_overwrite_is_needed_to_replace(pair, tmp_path, capsys):
    target = tmp_path / "o.png"
    target.write_bytes(b"precious")

    assert "exists already" in refused(capsys, ["fuse", *pair, "-o", str(target)])
    assert target.read_bytes() == b"precious"
    assert main(["fuse", *pair, "-o", str(target), "--overwrite", "--quiet"]) == 0
    assert read_image(target).samples.shape == (48, 64, 3)


def test_bad_requests_are_refused_by_name(pair, tmp_path, capsys):
    out = str(tmp_path / "o.png")
    write_image(tmp_path / "small.png", np.zeros((10, 10, 3), np.uint8))
    write_image(tmp_path / "deep.png", np.zeros((48, 64, 3), np.uint16))
    write_image(tmp_path / "clear.png", np.zeros((48, 64, 3), np.uint8), alpha=np.zeros((48, 64), np.uint8))
    write_image(tmp_path / "nan.tif", np.full((48, 64), np.nan, np.float32))
    Image.new("CMYK", (64, 48)).save(tmp_path / "cmyk.jpg")
    (tmp_path / "cut.png").write_bytes(Path(pair[0]).read_bytes()[:-200])
    (tmp_path / "bad.toml").write_text("[focus\n", encoding="utf-8")
    before = {path.name for path in tmp_path.iterdir()}
    requests = {
        "at least 2": [pair[0], "-o", out],
        "a.png' has shape (48, 64, 3) and '": [pair[0], str(tmp_path / "small.png"), "-o", out],
        "deep.png' uint16; all must be of one type": [pair[0], str(tmp_path / "deep.png"), "-o", out],
        "no alpha while others have": [pair[0], str(tmp_path / "clear.png"), "-o", out],
        "JPEG holds uint8": [str(tmp_path / "deep.png"), str(tmp_path / "deep.png"), "-o", str(tmp_path / "o.jpg")],
        "NaN": [str(tmp_path / "nan.tif"), str(tmp_path / "nan.tif"), "-o", str(tmp_path / "o.tif")],
        "CMYK": [pair[0], str(tmp_path / "cmyk.jpg"), "-o", out],
        "truncated or corrupt": [pair[0], str(tmp_path / "cut.png"), "-o", out],
        "cannot be read": [pair[0], str(tmp_path / "missing.png"), "-o", out],
        "suffix": [*pair, "-o", str(tmp_path / "o.bmp")],
        "does not exist": [*pair, "-o", str(tmp_path / "nowhere" / "o.png")],
        "is not known": [*pair, "-o", out, "--set", "sharpness=3"],
        "must lie between": [*pair, "-o", out, "--set", "iterations=0"],
        "has no value": [*pair, "-o", out, "--set", "iterations"],
        "a whole number is needed": [*pair, "-o", out, "--set", "iterations=many"],
        "not valid TOML": [*pair, "-o", out, "--config", str(tmp_path / "bad.toml")],
        "configuration": [*pair, "-o", out, "--config", str(tmp_path / "none.toml")],
        "the lower first": [*pair, "-o", out, "--focus-range", "9", "3"],
        "1e-320": [*pair, "-o", out, "--focus-range", "0", "1e-320"],
        "-inf": [*pair, "-o", out, "--focus-range", "-inf", "1"],
    }
    for expected, arguments in requests.items():
        assert expected in refused(capsys, ["fuse", *arguments])

    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("low", ["-1e3", "-1.5E+3", "-.5e3", "-3.", "-3"])
def test_negative_numbers_are_not_taken_for_options(pair, tmp_path, capsys, low):
    assert main(["fuse", *pair, "--focus-range", low, "1e3", "-o", str(tmp_path / "o.png"), "--json", "--set", "effort=fast"]) == 0

    assert json.loads(capsys.readouterr().out)["focus_range"] == [float(low), 1000.0]


def test_files_named_like_numbers_keep_their_names(capsys):
    assert "'-1e3' cannot be read" in refused(capsys, ["fuse", "-o", "never-written.png", "--", "-1e3", "-5"])


@pytest.mark.parametrize(
    "text",
    ["x = " + "[" * 5000 + "]" * 5000, "decision.dark_border_px = " + "9" * 5000, "decision.dark_border_px = 0x" + "f" * 5000],
    ids=["brackets", "digits", "hexadecimal"],
)
def test_absurd_configurations_are_refused(pair, tmp_path, capsys, text):
    (tmp_path / "c.toml").write_text(text, encoding="utf-8")

    message = refused(capsys, ["fuse", *pair, "-o", str(tmp_path / "o.png"), "--config", str(tmp_path / "c.toml")])
    assert len(message) < 400


def test_configurations_that_are_no_small_file_are_refused(pair, tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large.toml").write_bytes(b"#" * (2**14 + 1))
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")
    expected = {
        tmp_path / "pipe": "is a folder, pipe or device",
        tmp_path: "is a folder, pipe or device",
        Path("/dev/zero"): "is a folder, pipe or device",
        tmp_path / "large.toml": "is larger than 16384 bytes",
        tmp_path / "latin.toml": "cannot be read",
    }
    for path, reason in expected.items():
        assert reason in refused(capsys, ["fuse", *pair, "-o", str(tmp_path / "o.png"), "--config", str(path)])


@pytest.mark.parametrize("name", ["a.png", "link.png"])
def test_a_source_is_never_overwritten(pair, tmp_path, capsys, name):
    (tmp_path / "link.png").symlink_to(pair[0])
    before = Path(pair[0]).read_bytes()

    assert "is the input" in refused(capsys, ["fuse", *pair, "-o", str(tmp_path / name), "--overwrite"])
    assert Path(pair[0]).read_bytes() == before


def test_a_map_never_overwrites_a_source(stack, tmp_path, capsys):
    paths = [tmp_path / "confidence.tif", tmp_path / "b.tif"]
    for path, image in zip(paths, stack, strict=True):
        write_image(path, image)

    request = ["fuse", *map(str, paths), "-o", str(tmp_path / "o.tif"), "--maps", str(tmp_path), "--overwrite"]
    assert "confidence.tif' is the input" in refused(capsys, request)
    assert {path.name for path in tmp_path.iterdir()} == {"confidence.tif", "b.tif"}


def test_a_picture_with_the_name_of_a_map_is_refused_before_the_work(pair, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("qmcif_engine.pipeline.pipeline.run_tiles", lambda *_, **__: pytest.fail("the work was begun"))

    request = ["fuse", *pair, "-o", str(tmp_path / "confidence.tif"), "--maps", str(tmp_path)]
    assert "name of a map too" in refused(capsys, request)


def run_process(folder, *arguments, **options):
    command = [sys.executable, "-m", "qmcif_engine", *arguments]
    return subprocess.run(command, cwd=folder, stderr=subprocess.PIPE, check=False, **options)


def test_names_that_the_terminal_cannot_show_do_not_fail_a_finished_run(pair, tmp_path):
    target = tmp_path / "schärfe.png"
    finished = run_process(
        tmp_path,
        *("fuse", *pair, "-o", target.name),
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"},
    )

    assert (finished.returncode, finished.stderr) == (0, b"")
    assert rb"sch\xe4rfe.png" in finished.stdout
    assert target.exists()


@pytest.mark.parametrize(
    "arguments", [["fuse", "a.png", "b.png", "-o", "o.png"], ["fuse", "a.png", "b.png", "-o", "o.png", "--json"], ["fuse", "--help"]]
)
def test_nobody_reading_the_output_is_no_reason_to_complain(pair, tmp_path, arguments):
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    reading, writing = os.pipe()
    os.close(reading)
    try:
        finished = run_process(tmp_path, *arguments, stdout=writing, env=buffered)
    finally:
        os.close(writing)

    assert finished.stderr == b""
    assert finished.returncode in (0, 1)
    assert (tmp_path / "o.png").exists() == ("-o" in arguments)


def test_maps_and_picture_appear_together_or_not_at_all(pair, tmp_path, capsys, monkeypatch):
    calls = []
    sync = os.fsync

    def fail_at_the_last_file(descriptor):
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            calls.append(descriptor)
        if len(calls) == 2 + len(MAPS) + 1:  # lock and description of the job, maps, picture
            raise OSError(28, "No space left on device")
        sync(descriptor)

    before = {path.name for path in tmp_path.iterdir()}
    request = ["fuse", *pair, "-o", str(tmp_path / "o.png"), "--maps", str(tmp_path / "maps"), "--quiet"]
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail_at_the_last_file)
        assert main(request) == 1

    assert "No space left" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == before
    assert main([*request, "--resume"]) == 0
    assert {path.name for path in tmp_path.iterdir()} == before | {"o.png", "maps"}


def test_debug_shows_the_traceback(pair, tmp_path, capsys):
    assert main(["fuse", pair[0], "-o", str(tmp_path / "o.png"), "--debug"]) == 2

    assert "Traceback" in capsys.readouterr().err


def test_interrupting_a_real_run_leaves_nothing_and_ends_with_130(tmp_path):
    for letter, image in zip("ab", make_focus_stack(n_images=2, shape=(600, 800), seed=1).images, strict=True):
        write_image(tmp_path / f"{letter}.png", image)
    before = {path.name for path in tmp_path.iterdir()}
    settings = ["--set", "rule=paper", "--set", "iterations=1000"]
    command = [sys.executable, "-m", "qmcif_engine", "fuse", "a.png", "b.png", "-o", "o.png", *settings]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        try:
            while process.poll() is None and not (tmp_path / "o.png.qmcif-job" / "job.json").exists():
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            _, message = process.communicate()
        finally:
            process.kill()

    assert process.returncode == 130
    assert "Traceback" not in message
    assert "interrupted" in message
    assert {path.name for path in tmp_path.iterdir()} == before


def test_help_loads_no_heavy_library():
    heavy = "{'scipy', 'sklearn', 'tifffile', 'PIL', 'imagecodecs', 'napari', 'dask', 'numpy'}"
    code = (
        "import sys, contextlib\nfrom qmcif_engine.cli import main\nwith contextlib.suppress(SystemExit): main(['--help'])\n"
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert finished.stdout.strip().splitlines()[-1] == "[]"


@pytest.fixture
def small_demo(monkeypatch):
    """The scene of the demo, a fifth of its pixels; `tests/test_readme.py` runs the whole."""
    monkeypatch.setattr("qmcif_engine.cli.demo_command.SHAPE", (216, 288))


@pytest.mark.usefixtures("small_demo")
def test_the_demo_writes_its_images_and_tells_psnr(tmp_path, capsys):
    folder = tmp_path / "new" / "demo"
    assert main(["demo", "-o", str(folder)]) == 0

    shown = capsys.readouterr().out
    assert "PSNR against the truth" in shown
    assert len(list(folder.glob("input_*.png"))) > 3
    for name in ("fused.png", "truth.png", "side_by_side.png"):
        assert read_image(folder / name).samples.size
    assert {path.name for path in (folder / "maps").iterdir()} == MAPS
    truth, fused = read_image(folder / "truth.png").samples, read_image(folder / "fused.png").samples
    errors = [np.mean((truth.astype(float) - read_image(path).samples) ** 2) for path in folder.glob("input_*.png")]
    assert np.mean((truth.astype(float) - fused) ** 2) < min(errors) / 8

    (folder / "fused.png").unlink()
    (folder / "truth.png").write_bytes(b"precious")
    (folder / "maps" / "confidence.tif").write_bytes(b"precious")
    assert "input_1.png' exists already" in refused(capsys, ["demo", "-o", str(folder)])
    assert not (folder / "fused.png").exists()
    assert (folder / "truth.png").read_bytes() == b"precious"
    assert main(["demo", "-o", str(folder), "--overwrite"]) == 0
    np.testing.assert_array_equal(read_image(folder / "truth.png").samples, truth)


@pytest.mark.usefixtures("small_demo")
def test_a_demo_that_fails_leaves_nothing(tmp_path, capsys, monkeypatch):
    calls = []

    def fail_at_the_last_file(descriptor):
        calls.append(descriptor)
        if len(calls) == 6 + len(MAPS):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail_at_the_last_file)

    assert main(["demo", "-o", str(tmp_path / "new" / "demo")]) == 1
    assert "No space left" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_demo_refuses_a_folder_it_cannot_make(tmp_path, capsys):
    (tmp_path / "file").write_text("", encoding="utf-8")

    assert "cannot be written (Not a directory)" in refused(capsys, ["demo", "-o", str(tmp_path / "file" / "demo")])
