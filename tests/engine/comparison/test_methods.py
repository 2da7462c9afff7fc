"""Other methods' pictures go to the right sets, or none is scored."""

from __future__ import annotations

from pathlib import Path

import pytest

from qmcif_engine.comparison.methods import Method, check_names, match_images, parse_fused_by
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import ImageFileError, InvalidConfigError


@pytest.mark.parametrize(
    ("names", "first"),
    [
        (["01.png", "02.png"], "01.png"),
        (["1.png", "2.png"], "1.png"),
        (["01_fused.png", "02_fused.png"], "01_fused.png"),
        (["lytro_01_cnn.png", "lytro_02_cnn.png"], "lytro_01_cnn.png"),
        (["lytro-01.jpg", "lytro-02.jpg"], "lytro-01.jpg"),
        (["01.png", "01_source_index.png", "02.png", "02_source_index.png"], "01.png"),
        (["v2_01.png", "v2_02.png", "readme.txt"], "v2_01.png"),
    ],
)
def test_pictures_are_found_by_the_name_of_the_set(tmp_path: Path, names: list[str], first: str) -> None:
    for name in names:
        (tmp_path / name).touch()
    matched = match_images(tmp_path, ["01", "02"])

    assert matched["01"].name == first
    assert "2" in matched["02"].stem


def test_set_names_of_several_parts_are_matched_whole(tmp_path: Path) -> None:
    for name in ("cnn_img_1_x.png", "cnn_img_11_x.png"):
        (tmp_path / name).touch()

    assert match_images(tmp_path, ["img_1"])["img_1"].name == "cnn_img_1_x.png"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["02.png"], "has no image of 01, 03; .* add the missing images or leave this method out"),
        (["01.png", "02.png", "x03y.png"], "has no image of 03"),
        (["a_01.png", "b_01.png", "02.png", "03.png"], "has several images of 01: a_01.png, b_01.png; .* remove the others"),
        (["01_02.png", "03.png"], "fits both set '01' and set '02'; .* rename it"),
    ],
)
def test_missing_and_ambiguous_pictures_are_refused_by_name(tmp_path: Path, names: list[str], message: str) -> None:
    for name in names:
        (tmp_path / name).touch()

    with pytest.raises(ImageFileError, match=message):
        match_images(tmp_path, ["01", "02", "03"])


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageFileError, match="cannot be read"):
        match_images(tmp_path / "gone", ["01"])


def test_name_and_folder_are_split_at_the_first_sign() -> None:
    assert parse_fused_by("cnn=a=b") == ("cnn", Path("a=b"))
    assert parse_fused_by(" <b> = x/y")[0] == "<b>"


@pytest.mark.parametrize("text", ["cnn", "=folder", "cnn=", " =folder"])
def test_half_requests_are_refused(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="lacks a part; NAME=DIR is needed"):
        parse_fused_by(text)


@pytest.mark.parametrize("name", ["x" * 61, "a\nb", "a\x1b[31m"])
def test_names_that_no_table_can_hold_are_refused(name: str) -> None:
    with pytest.raises(InvalidConfigError, match="cannot be printed in a table"):
        parse_fused_by(f"{name}=folder")


def test_a_name_given_twice_is_refused() -> None:
    check_names([Method(name="a"), Method(name="b")])

    with pytest.raises(InvalidConfigError, match="method 'a' was given twice"):
        check_names([Method(name="a", settings=FusionConfig()), Method(name="b"), Method(name="a")])


def test_tables_tell_presets_from_other_methods() -> None:
    assert Method(name="paper", settings=FusionConfig()).label == "preset paper"
    assert Method(name="cnn").label == "cnn"
