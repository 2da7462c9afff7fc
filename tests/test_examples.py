"""Run every example as a reader would, in a folder of its own."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
STARTS_PROCESSES = "11_local_cluster"
"""Its workers import the program that started them."""


def test_there_are_examples_and_each_is_short() -> None:
    assert EXAMPLES
    assert all(len(path.read_text(encoding="utf-8").splitlines()) < 40 for path in EXAMPLES)


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.stem != STARTS_PROCESSES], ids=lambda path: path.stem)
def test_the_example_runs_and_says_something(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process: loading the libraries once for each would take longer than what the examples do."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path)])

    runpy.run_path(str(path), run_name="__main__")

    assert capsys.readouterr().out


def test_the_example_of_a_cluster_runs_and_says_something(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", EXAMPLES[0].with_stem(STARTS_PROCESSES)]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert finished.returncode == 0, finished.stderr
    assert finished.stdout
