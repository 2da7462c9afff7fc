"""What only Linux has is guarded: the rest of the program runs without it, and with the paths that other systems allow."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from qmcif_engine import open_stack, read_image, write_image
from qmcif_engine.cli.terminal import peak_memory_bytes
from qmcif_engine.io.dask_threads import count_cores
from qmcif_engine.io.output.moves import sync_folder

ROOT = Path(__file__).parents[1]
NOT_EVERYWHERE = {"crypt", "fcntl", "grp", "posix", "pwd", "resource", "termios", "tty"}
LONGER_THAN_WINDOWS_ALLOWS = 300


def test_cores_are_counted_where_the_system_does_not_say_which_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)

    assert count_cores() == os.cpu_count()


def test_peak_memory_is_unknown_where_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)

    assert peak_memory_bytes() is None


def test_a_system_that_cannot_open_folders_is_no_obstacle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def refuse(path: object, *_: object) -> int:
        asked.append(path)
        raise PermissionError

    monkeypatch.setattr(os, "open", refuse)

    sync_folder(tmp_path)

    assert asked == [tmp_path]


def test_no_module_imports_what_only_some_systems_have_before_it_is_needed() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name.name}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Import)
        for name in node.names
        if name.name in NOT_EVERYWHERE
    ]

    assert found == []


def test_nothing_forks() -> None:
    """A forked process inherits locks that nobody releases, and Windows has none; spawned ones are the same everywhere."""
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))

    assert "os.fork(" not in text
    assert '"fork"' not in text


@pytest.mark.parametrize("folder", ["with a space", "Ünïcödé 焦点", "/".join(["deep" * 10] * (LONGER_THAN_WINDOWS_ALLOWS // 41 + 1))])
def test_images_are_written_and_read_at_any_path_that_the_system_has(folder: str, tmp_path: Path) -> None:
    place = tmp_path / folder
    place.mkdir(parents=True)
    image = np.arange(48, dtype=np.uint8).reshape(6, 8)
    for name in ("a.png", "B.TIF"):
        write_image(place / name, image)

    with open_stack([place / "a.png", place / "B.TIF"]) as stack:
        assert stack.n_images == 2
    assert all((read_image(place / name).samples == image).all() for name in ("a.png", "B.TIF"))
