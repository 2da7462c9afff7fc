"""A digest changes with everything that may change a result, and with nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qmcif_engine.comparison.fingerprints import digest_engine, digest_file, digest_settings, digest_texts
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import ImageFileError

if TYPE_CHECKING:
    from pathlib import Path


def test_the_borders_between_texts_count() -> None:
    assert digest_texts(["ab", "c"]) != digest_texts(["a", "bc"])
    assert digest_texts(["a", "b"]) == digest_texts(iter(["a", "b"]))


def test_files_are_told_by_content_not_by_name(tmp_path: Path) -> None:
    for name, content in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / name).write_bytes(content)
    first, same, other = (digest_file(tmp_path / name) for name in "abc")

    assert first == same != other


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageFileError, match="cannot be read"):
        digest_file(tmp_path / "gone")


def test_every_setting_counts() -> None:
    settings = FusionConfig()

    assert digest_settings(settings) == digest_settings(FusionConfig())
    assert digest_settings(settings) != digest_settings(settings.replaced({"iterations": 7}))
    assert (
        len({digest_settings(settings), digest_settings(None), digest_settings(None, rival="sr"), digest_settings(None, rival="csr")}) == 4
    )


def test_the_program_counts_without_its_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    for folder in ("cli", "comparison/rivals"):
        (package / folder).mkdir(parents=True)
    for name in ("__init__.py", "focus.py", "cli/parser.py", "comparison/report.py", "comparison/rivals/matting.py"):
        (package / name).write_text("a", encoding="utf-8")
    monkeypatch.setattr("qmcif_engine.__file__", str(package / "__init__.py"))

    def digest() -> str:
        digest_engine.cache_clear()
        return digest_engine()

    try:
        before = digest()
        for name in ("cli/parser.py", "comparison/report.py"):
            (package / name).write_text("b", encoding="utf-8")
        assert digest() == before
        (package / "comparison" / "rivals" / "matting.py").write_text("b", encoding="utf-8")
        with_rival = digest()
        assert with_rival != before
        (package / "focus.py").write_text("b", encoding="utf-8")
        assert digest() != with_rival
    finally:
        digest_engine.cache_clear()
