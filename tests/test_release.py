"""Metadata and the release check: addresses from one place, links that show on PyPI, and a plain word where something is missing."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
REPOSITORY = "https://forge.example/people/stacker"


@pytest.fixture(scope="module")
def metadata() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "hatch_build.py"))


@pytest.fixture(scope="module")
def release() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "check_release.py"))


def project_of(version: str = "1.2.0", **addresses: str) -> dict[str, Any]:
    known = {"repository": REPOSITORY, "documentation": "https://docs.example/stacker", "paper": "https://paper.example"}
    return {"project": {"version": version}, "tool": {"qmcif": known | addresses}}


def test_without_an_address_only_the_paper_is_named_and_links_stay_as_they_are(metadata: dict[str, Any]) -> None:
    urls = metadata["list_urls"]({"repository": "", "documentation": "", "paper": "https://paper.example"})

    assert urls == {"Paper": "https://paper.example"}
    assert metadata["make_links_absolute"]("[a](docs/a.md)", "") == "[a](docs/a.md)"


def test_with_an_address_all_urls_and_links_lead_there(metadata: dict[str, Any]) -> None:
    urls = metadata["list_urls"](project_of()["tool"]["qmcif"])
    text = "![b](docs/b.png) [a](docs/a.md#part) [c](https://elsewhere.example) [d](#here)"

    assert {"Homepage", "Source", "Issues", "Documentation", "Changelog", "Paper"} == set(urls)
    assert urls["Issues"] == f"{REPOSITORY}/issues"
    assert metadata["make_links_absolute"](text, REPOSITORY) == (
        f"![b]({REPOSITORY}/raw/main/docs/b.png) [a]({REPOSITORY}/blob/main/docs/a.md#part) [c](https://elsewhere.example) [d](#here)"
    )


def test_the_release_check_finds_nothing_where_all_is_there(release: dict[str, Any]) -> None:
    assert release["find_obstacles"](project_of(), "## [1.2.0] - 2026-12-01\n", tag="v1.2.0") == []


@pytest.mark.parametrize(
    ("project", "changelog", "tag", "message"),
    [
        (project_of(repository=""), "## [1.2.0]", None, "address of the repository is unknown"),
        (project_of(documentation=""), "## [1.2.0]", None, "address of the documentation is unknown"),
        (project_of(repository="forge/x"), "## [1.2.0]", None, "begins with https://"),
        (project_of(), "## [Unreleased]", None, "no heading [1.2.0]"),
        (project_of(), "## [1.2.0]", "v1.3.0", "the tag is v1.3.0, the version 1.2.0"),
    ],
)
def test_the_release_check_says_what_is_missing(
    release: dict[str, Any], project: dict[str, Any], changelog: str, tag: str | None, message: str
) -> None:
    (obstacle,) = release["find_obstacles"](project, changelog, tag=tag)

    assert message in obstacle


def test_the_release_check_wants_both_distributions(release: dict[str, Any], tmp_path: Path) -> None:
    (obstacle,) = release["check_distributions"](tmp_path)

    assert "holds 0 distributions" in obstacle
