"""Workflows and templates are valid by their schemas, and cover what we promise: three systems, every Python, docs, wheels, release."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEMPLATES = ROOT / ".github" / "ISSUE_TEMPLATE"

pytest.importorskip("check_jsonschema")


def read(name: str) -> dict[str, object]:
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", WORKFLOWS),
        ("custom.github-workflows-require-timeout", WORKFLOWS),
        ("vendor.github-issue-forms", sorted(set(TEMPLATES.glob("*.yml")) - {TEMPLATES / "config.yml"})),
        ("vendor.github-issue-config", [TEMPLATES / "config.yml"]),
        ("vendor.citation-file-format", [ROOT / "CITATION.cff"]),
    ],
)
def test_files_follow_their_schema(schema: str, files: list[Path]) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--default-filetype", "yaml", "--builtin-schema", schema, *files]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)

    assert files
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.skipif(
    shutil.which("actionlint") is None,
    reason="actionlint is not installed: its package on PyPI downloads the program from elsewhere; the workflow `tests` runs it",
)
def test_workflows_pass_actionlint() -> None:
    checked = subprocess.run(["actionlint", *WORKFLOWS], capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stdout


def test_the_engine_is_tested_on_three_systems_and_every_python_that_we_name() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    named = [line.rpartition(" ")[2] for line in classifiers if line.startswith("Programming Language :: Python :: 3.")]
    jobs = read("tests.yml")["jobs"]

    assert jobs["engine"]["strategy"]["matrix"]["python"] == named
    for job in ("engine", "viewer"):
        assert set(jobs[job]["strategy"]["matrix"]["os"]) == {"ubuntu-latest", "macos-latest", "windows-latest"}
    assert {"docs", "wheels"} <= set(jobs)


def test_a_release_is_checked_before_it_is_published_without_a_stored_token() -> None:
    jobs = read("release.yml")["jobs"]
    steps = [step.get("run", "") for step in jobs["build"]["steps"]]

    assert any("tools/check_release.py" in step for step in steps)
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
