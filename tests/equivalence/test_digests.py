"""Small fusions of every kind give the recorded samples; after a change that is meant: ``python tests/golden/record.py digests``."""

from __future__ import annotations

import json
import platform
import runpy
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
RECORDED = json.loads((TESTS / "equivalence" / "digests.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    return runpy.run_path(str(TESTS / "golden" / "record.py"))


@pytest.mark.skipif(platform.machine() != RECORDED["machine"], reason="last bits differ between types of processors")
@pytest.mark.parametrize("name", RECORDED["samples"])
def test_a_small_fusion_has_the_recorded_samples(record: dict[str, Any], name: str) -> None:
    assert record["digest_fusion"](name) == RECORDED["samples"][name]
