"""Run every example as a reader would: in a folder of its own, in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def test_there_are_examples_and_each_is_short() -> None:
    assert EXAMPLES
    assert all(len(path.read_text(encoding="utf-8").splitlines()) < 40 for path in EXAMPLES)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs_and_says_something(path: Path, tmp_path: Path) -> None:
    finished = subprocess.run([sys.executable, "-W", "error", path], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert finished.returncode == 0, finished.stderr
    assert finished.stdout
