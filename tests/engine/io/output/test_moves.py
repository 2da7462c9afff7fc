"""Outputs arrive together: whatever was moved when a process was killed is taken back by the next, and twice does no harm."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from qmcif_engine.io.output.leftovers import Kind, name_temporary
from qmcif_engine.io.output.moves import Journal, Move, clear_away, mark_of, roll_back, sweep
from qmcif_engine.io.output.placement import place_files

ZARR = json.dumps({"zarr_format": 3, "node_type": "group"})


def make_output(path, text, *, is_store):
    if is_store:
        path.mkdir()
        (path / "zarr.json").write_text(ZARR)
        (path / "c").write_text(text)
    else:
        path.write_text(text)


def read_output(path):
    if not path.exists():
        return None
    return (path / "c").read_text() if path.is_dir() else path.read_text()


def planned(folder, *, is_old, is_store):
    """A move of a new output to a target with or without an old one."""
    source, target = folder / name_temporary(), folder / "out"
    make_output(source, "new", is_store=is_store)
    if is_old:
        make_output(target, "old", is_store=is_store)
    return Move(source, target, folder / name_temporary(Kind.BACKUP), mark_of(source), is_store, False)


@pytest.mark.parametrize("is_store", [False, True])
@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("n_calls", range(4))
def test_whatever_was_done_is_taken_back(tmp_path, monkeypatch, is_store, is_old, n_calls):
    """The process is killed before the n-th call that changes a name."""
    move = planned(tmp_path, is_old=is_old, is_store=is_store)
    journal = tmp_path / "placing.moves"
    Journal(journal).note([move])
    calls = []

    def killing(ordinary):
        def call(*arguments, **options):
            calls.append(1)
            if len(calls) > n_calls:
                raise SystemExit
            return ordinary(*arguments, **options)

        return call

    for name in ("link", "rename", "replace"):
        monkeypatch.setattr(os, name, killing(getattr(os, name)))
    try:
        move.carry_out(overwrite=is_old)
    except SystemExit:
        assert read_output(tmp_path / "out") in {"old", "new", None}
    monkeypatch.undo()

    for _ in range(2):
        roll_back(journal)
        assert read_output(tmp_path / "out") == ("old" if is_old else None)
        assert [path.name for path in tmp_path.iterdir()] == (["out"] if is_old else [])


def test_what_somebody_else_put_there_stays(tmp_path):
    move = planned(tmp_path, is_old=True, is_store=False)
    journal = tmp_path / "placing.moves"
    Journal(journal).note([move])
    move.carry_out(overwrite=True)
    (tmp_path / "out").unlink()
    (tmp_path / "out").write_text("foreign")

    roll_back(journal)
    assert read_output(tmp_path / "out") == "foreign"


def test_settled_moves_leave_nothing_aside(tmp_path):
    move = planned(tmp_path, is_old=True, is_store=True)
    journal = tmp_path / "placing.moves"
    Journal(journal).note([move])
    move.carry_out(overwrite=True)
    assert move.backup.exists()

    clear_away(journal)
    assert read_output(tmp_path / "out") == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "placing.moves"]


@pytest.mark.parametrize("content", ["", "{", "[3]", "[{}]", '{"a": 1}', "forged source", "forged backup"])
def test_a_journal_that_is_not_ours_moves_nothing(tmp_path, content):
    (tmp_path / "precious").write_text("precious")
    backup = str(tmp_path / name_temporary(Kind.BACKUP))
    move = {"source": str(tmp_path / name_temporary()), "target": str(tmp_path / "new"), "backup": backup}
    move |= {"mark": mark_of(tmp_path / "precious"), "is_store": False, "goes_back": False}
    if content.startswith("forged"):
        move |= {content.split()[1]: str(tmp_path / "precious")}
        content = json.dumps([move])
    (tmp_path / "placing.moves").write_text(content)

    roll_back(tmp_path / "placing.moves")
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


KILLED = """
import os, signal, sys
from pathlib import Path
from qmcif_engine.io.output.placement import place_files

calls, n_calls = [], int(sys.argv[2])
def killing(ordinary):
    def call(*arguments, **options):
        if len(calls) == n_calls:
            os.kill(os.getpid(), signal.SIGKILL)
        calls.append(1)
        return ordinary(*arguments, **options)
    return call
for name in ("link", "rename", "replace", "unlink", "fsync"):
    setattr(os, name, killing(getattr(os, name)))
writes = {Path(sys.argv[1]) / name: lambda stream: stream.write(b"new") for name in ("a", "b")}
place_files(writes, overwrite=True)
"""


@pytest.mark.parametrize("n_calls", [4, 6, 8, 9, 11])
def test_several_files_of_a_killed_process_are_all_old_or_all_new_for_the_next(tmp_path, n_calls):
    for name in ("a", "b"):
        (tmp_path / name).write_text("old")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(n_calls)], check=False)
    assert killed.returncode == -9
    assert all(read_output(tmp_path / name) in {"old", "new"} for name in ("a", "b"))

    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    assert len({read_output(tmp_path / name) for name in ("a", "b")}) == 1


def test_what_was_replaced_comes_back_when_a_later_output_fails(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name).write_text("old")
    ordinary = Path.replace

    def fail_at_b(self, target):
        if Path(target).name == "b":
            raise KeyboardInterrupt
        return ordinary(self, target)

    monkeypatch.setattr(Path, "replace", fail_at_b)
    with pytest.raises(KeyboardInterrupt):
        place_files({tmp_path / name: lambda stream: stream.write(b"new") for name in ("a", "b")}, overwrite=True)
    monkeypatch.undo()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "old", "b": "old"}
