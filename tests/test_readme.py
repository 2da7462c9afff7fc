"""Run what the README tells people to type."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from qmcif_engine.cli import main

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_python_example_is_about_ten_lines_and_runs(tmp_path: Path) -> None:
    (example,) = blocks("python")
    finished = subprocess.run([sys.executable, "-W", "error", "-c", example], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert finished.returncode == 0, finished.stderr
    assert len(example.strip().splitlines()) <= 10
    assert (tmp_path / "fused.png").exists()


@pytest.mark.slow
def test_the_commands_run_in_the_order_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In this process, which has loaded what they need: their own start is tested with the command line."""
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("qmcif ")]
    monkeypatch.chdir(tmp_path)

    assert lines
    for line in lines:
        assert main(shlex.split(line)[1:]) == 0, (line, capsys.readouterr().err)
    assert (tmp_path / "all-in-focus.png").exists()
    assert (tmp_path / "maps" / "confidence.tif").exists()
    assert (tmp_path / "paper.tif").exists()


@pytest.mark.parametrize("target", ["demo", "test"])
def test_the_two_commands_are_targets_of_the_makefile(target: str) -> None:
    makefile = (Path(__file__).parents[1] / "Makefile").read_text(encoding="utf-8")

    assert f"make {target}" in README
    assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


def test_links_and_pictures_exist() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)

    assert targets
    assert [target for target in targets if not (Path(__file__).parents[1] / target).exists()] == []
