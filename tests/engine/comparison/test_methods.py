"""Other methods' pictures go to the right sets, or none is scored."""

from __future__ import annotations

from pathlib import Path

import pytest

from qmcif_engine.comparison.methods import BASELINES, Method, check_names, find_baseline, match_images, parse_fused_by
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
def test_pictures_are_found_by_the_name_of_the_set(tmp_path, names, first):
    for name in names:
        (tmp_path / name).touch()
    matched = match_images(tmp_path, ["01", "02"])

    assert matched["01"].name == first
    assert "2" in matched["02"].stem


def test_set_names_of_several_parts_are_matched_whole(tmp_path):
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
def test_missing_and_ambiguous_pictures_are_refused_by_name(tmp_path, names, message):
    for name in names:
        (tmp_path / name).touch()

    with pytest.raises(ImageFileError, match=message):
        match_images(tmp_path, ["01", "02", "03"])


def test_name_and_folder_are_split_at_the_first_sign():
    assert parse_fused_by("cnn=a=b") == ("cnn", Path("a=b"))
    assert parse_fused_by(" <b> = x/y")[0] == "<b>"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, "lacks a part; NAME=DIR is needed") for text in ("cnn", "=folder", "cnn=", " =folder")),
        *((f"{name}=folder", "cannot be printed in a table") for name in ("x" * 61, "a\nb", "a\x1b[31m")),
    ],
)
def test_half_requests_and_names_that_no_table_can_hold_are_refused(text, message):
    with pytest.raises(InvalidConfigError, match=message):
        parse_fused_by(text)


def test_a_name_given_twice_is_refused():
    check_names([Method(name="a"), Method(name="b")])

    with pytest.raises(InvalidConfigError, match="method 'a' was given twice"):
        check_names([Method(name="a", settings=FusionConfig()), Method(name="b"), Method(name="a")])


def test_tables_tell_presets_from_other_methods():
    assert Method(name="paper", settings=FusionConfig()).label == "preset paper"
    assert Method(name="cnn").label == "cnn"
    assert Method(name="sr", baseline="sr").label == "SR"


def test_baselines_are_found_by_name_and_others_refused():
    assert find_baseline("SR") is BASELINES["sr"]
    with pytest.raises(InvalidConfigError, match=r"--method 'cnn' is not known; choose one of: sr, csr, mgimf, qhosvd, guided-filter"):
        find_baseline("cnn")
