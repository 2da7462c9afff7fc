"""What killed runs left behind is listed and removed; what somebody uses, and what can be gone on with, stays."""

import json
import subprocess
import sys

import pytest

from qmcif_engine.cli import main
from qmcif_engine.io.output.leftovers import Kind, name_scratch, name_temporary, this_process
from qmcif_engine.run.lock import RunLock

GONE = this_process()._replace(start="1").tag


@pytest.fixture
def left(tmp_path):
    """A folder with leftovers of a killed process and of this one, and with files that are nobody's leftovers."""
    (tmp_path / "scratch").mkdir()
    (tmp_path / "out" / "maps").mkdir(parents=True)
    gone = name_temporary().replace(this_process().tag, GONE)
    (tmp_path / "out" / gone).write_bytes(b"x" * 1000)
    (tmp_path / "out" / "maps" / gone).write_bytes(b"x")
    (tmp_path / "out" / name_temporary()).write_bytes(b"mine")
    (tmp_path / "out" / ".qmcif-notes.txt").write_bytes(b"precious")
    scratch = name_scratch().replace(this_process().tag, GONE)
    (tmp_path / "scratch" / f"{scratch}abcdefgh").mkdir()
    (tmp_path / "scratch" / f"{scratch}abcdefgh" / "a.npy").write_bytes(b"x" * 10**6)
    (tmp_path / "scratch" / "qmcif-mine").mkdir()
    job = tmp_path / "out" / "o.tif.qmcif-job"
    job.mkdir()
    (job / "job.json").write_text("{}")
    return tmp_path


def clean(folder, *options, capsys):
    code = main(["clean", str(folder / "out"), "--scratch", str(folder / "scratch"), "--json", *options])
    return code, {row["path"].rpartition("/")[2]: row["state"] for row in json.loads(capsys.readouterr().out)["leftovers"]}


def names(folder):
    return sorted(path.name for path in folder.rglob("*"))


def test_leftovers_are_listed_and_nothing_happens_where_only_that_was_asked(left, capsys):
    before = names(left)
    code, states = clean(left, "--dry-run", capsys=capsys)

    assert code == 0
    assert sorted(states.values()) == ["in use", "kept: continue it with --resume, or remove it with --jobs"] + 2 * ["would be removed"]
    assert names(left) == before


def test_leftovers_of_killed_processes_are_removed_and_others_stay(left, capsys):
    code, _ = clean(left, capsys=capsys)

    assert code == 0
    kept = [name for name in names(left / "out") if name.endswith(".tmp")]
    assert len(kept) == 1
    assert this_process().tag in kept[0]  # the tag that is gone may be the beginning of ours
    assert names(left / "scratch") == ["qmcif-mine"]
    assert {".qmcif-notes.txt", "o.tif.qmcif-job", "job.json"} <= set(names(left / "out"))


def test_unfinished_runs_are_removed_when_asked_unless_they_are_going_on(left, capsys):
    lock = RunLock(left / "out" / "o.tif.qmcif-job" / "lock")
    lock.acquire()
    assert clean(left, "--jobs", capsys=capsys)[1]["o.tif.qmcif-job"] == "in use"
    lock.release()

    assert clean(left, "--jobs", capsys=capsys)[1]["o.tif.qmcif-job"] == "removed"
    assert "o.tif.qmcif-job" not in names(left / "out")


def test_a_folder_that_only_looks_like_a_run_stays(left, capsys):
    (left / "out" / "o.tif.qmcif-job" / "holiday.jpg").write_bytes(b"precious")

    code, states = clean(left, "--jobs", capsys=capsys)
    assert code == 1
    assert "it holds other files" in states["o.tif.qmcif-job"]
    assert (left / "out" / "o.tif.qmcif-job" / "holiday.jpg").exists()


def test_a_store_that_was_being_replaced_comes_back(tmp_path):
    """The process is killed when the old store is aside and the new one not yet in its place."""
    code = """
import os, signal, sys
from pathlib import Path
from qmcif_engine.io.output.placement import place_files

def fill(folder):
    folder.mkdir()
    (folder / "zarr.json").write_text('{"zarr_format": 3, "new": 1}')

rename, calls = Path.rename, []
def kill(self, target):
    calls.append(1)
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(self, target)

Path.rename = kill
place_files({}, stores={Path(sys.argv[1]) / "o.zarr": fill}, overwrite=True)
"""
    (tmp_path / "o.zarr").mkdir()
    (tmp_path / "o.zarr" / "zarr.json").write_text('{"zarr_format": 3, "old": 1}')
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == -9
    assert not (tmp_path / "o.zarr").exists()
    assert any(path.name.endswith(Kind.BACKUP) for path in tmp_path.iterdir())

    assert main(["clean", str(tmp_path), "--scratch", str(tmp_path)]) == 0
    assert names(tmp_path) == ["o.zarr", "zarr.json"]
    assert "old" in (tmp_path / "o.zarr" / "zarr.json").read_text()


def test_a_name_that_is_no_folder_is_refused(tmp_path, capsys):
    assert main(["clean", str(tmp_path / "none")]) == 2
    assert "is no folder; folders in which outputs were written are needed" in capsys.readouterr().err


def test_nothing_left_is_said(tmp_path, capsys):
    assert main(["clean", str(tmp_path), "--scratch", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "nothing is left behind\n"
