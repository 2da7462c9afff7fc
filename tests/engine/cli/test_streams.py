"""Runs of real processes: killed, out of space, on a cluster; whatever happens, the same bytes or a clear refusal."""

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tifffile

from qmcif_engine import read_image, write_image
from qmcif_engine.cli import main
from qmcif_engine.cli.terminal import parse_bytes, show_bytes, show_seconds
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.stack.synthetic import make_focus_stack

FAST = ("--set", "tile_px=128", "--set", "measure=laplacian", "--set", "smoothness=0")


@pytest.fixture(scope="module")
def scene():
    return make_focus_stack(shape=(400, 520), n_images=2, seed=3).images


@pytest.fixture
def folder(scene, tmp_path):
    tifffile.imwrite(tmp_path / "stack.tif", scene, tile=(128, 128), compression="zlib", photometric="rgb")
    return tmp_path


@pytest.fixture(scope="module")
def expected(scene, tmp_path_factory):
    """The bytes of a run that nothing happened to."""
    folder = tmp_path_factory.mktemp("expected")
    tifffile.imwrite(folder / "stack.tif", scene, tile=(128, 128), compression="zlib", photometric="rgb")
    assert (
        main(["fuse", str(folder / "stack.tif"), "-o", str(folder / "out.ome.tif"), "--maps", str(folder / "maps"), *FAST, "--quiet"]) == 0
    )
    return digests(folder)


def digests(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "stack.tif"
    }


def count_finished(folder):
    return sum(path.suffix != ".unfinished" for path in folder.glob("out.ome.tif.qmcif-job/tile-*"))


def command(*arguments):
    return [sys.executable, "-m", "qmcif_engine", "fuse", "stack.tif", "-o", "out.ome.tif", "--maps", "maps", *FAST, "--quiet", *arguments]


STANDING_STILL = """
import sys, time
from qmcif_engine import read_image, write_image
from qmcif_engine.cli import main
from qmcif_engine.run.job import Job

write, kept = Job.write, []

def write_and_stand_still(job, part, tile, result):
    write(job, part, tile, result)
    kept.append(tile)
    while len(kept) >= int(sys.argv[1]):
        time.sleep(1)

Job.write = write_and_stand_still
sys.exit(main(sys.argv[2:]))
"""


@contextlib.contextmanager
def run_that_stands_still(folder, *, after_tiles):
    """Start a run that goes no further than so many tiles, and wait until it has them."""
    python, _, _, *arguments = command("--workers", "1")
    program = [python, "-c", STANDING_STILL, str(after_tiles), *arguments]
    with subprocess.Popen(program, cwd=folder, stderr=subprocess.PIPE) as process:
        try:
            while count_finished(folder) < after_tiles:
                assert process.poll() is None
                time.sleep(0.01)
            yield process
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 130)])
def test_a_killed_run_leaves_no_output_and_resumes_to_the_same_bytes(folder, expected, sent, code):
    with run_that_stands_still(folder, after_tiles=3) as process:
        process.send_signal(sent)
        message = process.communicate()[1].decode()

    assert process.returncode == code
    assert sent is signal.SIGKILL or "continue with --resume" in message
    assert sorted(path.name for path in folder.iterdir()) == ["out.ome.tif.qmcif-job", "stack.tif"]
    resumed = subprocess.run(command("--resume", "--json"), cwd=folder, stdout=subprocess.PIPE, check=True)
    assert json.loads(resumed.stdout)["resumed_tiles"] == 3
    assert digests(folder) == expected


@contextlib.contextmanager
def small_file_system(place, size):
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=False, capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("mounting a small file system needs rights this machine does not give")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="mounting a small file system needs the administrator's rights")
def test_a_full_disk_ends_with_a_clear_message_and_resumes_to_the_same_bytes(folder, expected):
    place = folder / "full"
    place.mkdir()
    with small_file_system(place, "2500k"):
        request = [sys.executable, "-m", "qmcif_engine", "fuse", "../stack.tif", "-o", "out.ome.tif", "--maps", "maps", *FAST, "--quiet"]
        failed = subprocess.run(request, cwd=place, stderr=subprocess.PIPE, check=False)
        assert failed.returncode == 1
        assert b"No space left on device" in failed.stderr
        assert [path.name for path in place.iterdir()] == ["out.ome.tif.qmcif-job"]
        n_finished = count_finished(place)
        assert n_finished > 0

        subprocess.run(["mount", "-o", "remount,size=50m", str(place)], check=True)
        resumed = subprocess.run([*request, "--resume", "--json"], cwd=place, stdout=subprocess.PIPE, check=True)
        assert json.loads(resumed.stdout)["resumed_tiles"] == n_finished
        assert digests(place) == expected


def test_a_dry_run_says_what_it_would_take_and_does_nothing(folder, capsys):
    request = ["fuse", str(folder / "stack.tif"), "-o", str(folder / "out.tif"), "--dry-run", *FAST]
    assert main([*request, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert main(request) == 0
    text = capsys.readouterr().out

    assert plan["tiles"] == 4 * 5
    assert plan["output_bytes"] == 400 * 520 * 3
    assert {"memory_bytes", "scratch_bytes", "cpu_seconds", "overlap_px", "tiles_at_once"} <= plan.keys()
    for word in ("tiles", "memory", "scratch", "output", "time"):
        assert word in text
    assert [path.name for path in folder.iterdir()] == ["stack.tif"]


def test_a_dry_run_of_one_tile_counts_it_once_however_many_workers_there_are(folder, capsys):
    request = ["fuse", str(folder / "stack.tif"), "-o", str(folder / "out.tif"), "--dry-run", "--json", "--set", "tile_px=2048"]
    plans = []
    for workers in ("1", "4"):
        assert main([*request, "--workers", workers]) == 0
        plans.append(json.loads(capsys.readouterr().out))

    assert [plan["tiles_at_once"] for plan in plans] == [1, 1]
    assert plans[0]["memory_bytes"] == plans[1]["memory_bytes"]


def test_a_dry_run_says_which_budget_would_keep_all_workers_busy(folder, capsys):
    request = ["fuse", str(folder / "stack.tif"), "-o", str(folder / "out.tif"), "--dry-run", "--workers", "2", *FAST]
    assert main([*request, "--json"]) == 0
    tile_bytes = json.loads(capsys.readouterr().out)["memory_bytes"] // 2

    assert main([*request, "--memory", str(tile_bytes + 1)]) == 0
    advised = re.search(r"--memory (\d+MB) would allow 2 at once", capsys.readouterr().out)[1]

    assert main([*request, "--memory", advised]) == 0
    assert "would allow" not in (text := capsys.readouterr().out)
    assert "2 at once" in text


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--memory", "1KB"], "the memory budget is 0.001 MB; one tile needs"),
        (["--exclude", "2"], "at least 2"),
        (["--time", "3"], "time is 3"),
        (["--scheduler", "tcp://127.0.0.1:9"], "cannot be reached"),
        (["--scheduler", "nonsense"], "cannot be reached (missing port number"),
        (["--axes", "QYX"], "QYX"),
        (["--reference", "9"], "a number from 1 to 2 is needed"),
        (["--reference", "9", "--dry-run"], "a number from 1 to 2 is needed"),
        (["--slab", "9", "--dry-run"], "slabs of 9 images were asked of a stack of 2"),
        (["--transforms", "missing.json", "--dry-run"], "'missing.json' does not exist"),
        (["--align", "translation", "--transforms", "missing/t.json"], "the folder 'missing' does not exist"),
    ],
)
def test_requests_that_cannot_be_met_are_refused_before_the_work(folder, capsys, arguments, reason, monkeypatch):
    monkeypatch.setattr("qmcif_engine.run.execution.CONNECT_SECONDS", 0.2)
    assert main(["fuse", str(folder / "stack.tif"), "-o", str(folder / "out.tif"), *FAST, *arguments]) == 2

    assert reason in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["stack.tif"]


def test_frames_can_be_left_out_and_turned_around(scene, tmp_path):
    for number, image in enumerate([scene[0], 255 - scene[0], scene[1]], start=1):
        tifffile.imwrite(tmp_path / f"frame{number}.tif", image[:100, :120], photometric="rgb")
    folder = str(tmp_path)
    for name, arguments in (("a", ["--exclude", "2"]), ("b", ["--exclude", "frame2*", "--order", "reversed"])):
        assert main(["fuse", folder, "-o", f"{folder}/{name}.ome.zarr", "--maps", f"{folder}/{name}", "--quiet", *arguments]) == 0

    forward, backward = (tifffile.imread(tmp_path / name / "source_index.tif").astype(int) for name in "ab")
    assert np.mean(forward == 1 - backward) > 0.95


@pytest.mark.parametrize(
    ("text", "amount"), [("1GB", 10**9), ("512 MiB", 512 * 2**20), ("1.5kb", 1500), ("2000000", 2_000_000), ("3B", 3), ("1tib", 2**40)]
)
def test_amounts_of_memory_are_read_as_people_write_them(text, amount):
    assert parse_bytes(text) == amount


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "0", "1XB", "1e9", "1 GB x", "9" * 40])
def test_other_amounts_are_refused(text):
    with pytest.raises(InvalidConfigError, match="a number and a unit are needed"):
        parse_bytes(text)


def test_amounts_are_shown_in_the_unit_that_suits_them():
    assert [show_bytes(amount) for amount in (12, 1500, 2_340_000, 10**9, 5 * 10**12)] == ["12 bytes", "1.5 KB", "2.34 MB", "1 GB", "5 TB"]
    assert [show_seconds(seconds) for seconds in (0.5, 42, 600, 7200)] == ["0.5 s", "42 s", "10 min", "2.0 h"]


@pytest.mark.skipif(os.name != "posix", reason="closes the streams as a shell does")
def test_a_run_whose_streams_are_all_closed_writes_its_output(tmp_path):
    for number, image in enumerate(make_focus_stack(shape=(40, 50), n_images=2).images):
        write_image(tmp_path / f"{number}.png", image)
    command = f"exec '{sys.executable}' -m qmcif_engine fuse 0.png 1.png -o fused.png --set measure=laplacian <&- >&- 2>&-"
    finished = subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, check=False)

    assert finished.returncode == 0
    assert read_image(tmp_path / "fused.png").samples.shape == (40, 50, 3)
