"""What users and scripts rely on is as recorded in ``tests/golden``; after a change that is meant: ``python tests/golden/record.py``."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    return runpy.run_path(str(GOLDEN / "record.py"))


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="argparse words its help differently in other versions; it was recorded by 3.11"
)
def test_the_help_of_every_command_is_as_recorded(record: dict[str, Any]) -> None:
    assert record["join_help"]() == (GOLDEN / "help.txt").read_text(encoding="utf-8")


def test_json_outputs_have_the_recorded_keys(record: dict[str, Any]) -> None:
    recorded = json.loads((GOLDEN / "json.json").read_text(encoding="utf-8"))
    found = record["collect_json"]()

    assert {name: set(record["list_keys"](one)) for name, one in found.items()} == {
        name: set(record["list_keys"](one)) for name, one in recorded.items()
    }


def test_messages_are_listed_with_their_class_and_their_text(record: dict[str, Any]) -> None:
    messages = record["list_messages"]()

    assert len(messages) > 300
    assert any(line.startswith("InvalidConfigError: {message}; see {self.prog} --help") for line in messages)
