import json

import numpy as np
import pytest

from qmcif_engine.errors import InvalidConfigError, OutputError
from qmcif_engine.io.output.transform_files import load_transforms, save_transforms
from qmcif_engine.stack.alignment.transforms import IDENTITY, AlignmentWarning, TransformModel, Transforms

CONTENT = {
    "format": "qmcif transforms 1",
    "model": "similarity",
    "image_shape": [20, 30],
    "reference": 1,
    "matrices": [[[1.0, 0.0, 1 / 3], [0.0, 1.0, -2.0], [0, 0, 1]], IDENTITY],
    "warnings": [],
}


@pytest.fixture
def transforms():
    odd = ((1 + 1e-15, 0.1, np.pi), (-0.1, 1.0, -1e-300), IDENTITY[2])
    warnings = (AlignmentWarning(0, "near.png against far.png: ä"),)
    return Transforms(matrices=(odd, IDENTITY), model=TransformModel.SIMILARITY, image_shape=(20, 30), reference=1, warnings=warnings)


def test_transforms_come_back_to_the_last_bit(tmp_path, transforms):
    save_transforms(tmp_path / "t.json", transforms)

    assert load_transforms(tmp_path / "t.json") == transforms


def test_a_homography_comes_back_with_its_perspective(tmp_path):
    tilted = ((1.0, 0.1, np.pi), (-0.1, 1.0, -2.0), (1 / 3000, -1e-4, 1.0))
    transforms = Transforms(matrices=(tilted, IDENTITY), model=TransformModel.HOMOGRAPHY, image_shape=(20, 30), reference=1)
    save_transforms(tmp_path / "t.json", transforms)

    assert load_transforms(tmp_path / "t.json") == transforms


def test_an_existing_file_is_kept_unless_offered(tmp_path, transforms):
    path = tmp_path / "t.json"
    path.write_text("mine")

    with pytest.raises(OutputError, match="exists"):
        save_transforms(path, transforms)
    assert path.read_text() == "mine"

    save_transforms(path, transforms, overwrite=True)
    assert load_transforms(path) == transforms


def refused(path, reason):
    return pytest.raises(
        InvalidConfigError, match=rf"holds no usable transforms \(.*{reason}.*\); a file written by save_transforms is needed"
    )


def test_valid_content_is_accepted(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps(CONTENT))

    assert load_transforms(path).matrices[0][0][2] == 1 / 3


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("format", "other", "its format is 'other'"),
        ("model", "warped", "'warped' is not a valid TransformModel"),
        ("model", ["none"], "is not a valid TransformModel"),
        ("image_shape", [20], "not enough values"),
        ("image_shape", [20.0, 30], "'float' object cannot be interpreted as an integer"),
        ("image_shape", [0, 30], "height and width of 1 to"),
        ("reference", 2, "the reference of the transforms is image 2 of 2"),
        ("matrices", {}, "must be a string or a real number"),
        ("matrices", [], "is image 1 of 0"),
        ("matrices", [[[1, 0, 0], [0, 1, 0]]], "matrices of 3 x 3 numbers are expected"),
        ("matrices", [[[1, 0, 0], [0, 1, 0], [0, 0, 2]]], "the last row of a matrix is not 0, 0, 1"),
        ("matrices", [[[1, 0, "a"], [0, 1, 0], [0, 0, 1]]], "could not convert string to float"),
        ("matrices", [[[1, 0, 10**400], [0, 1, 0], [0, 0, 1]]], "too large to convert to float"),
        ("matrices", [IDENTITY, [[0, 0, 0], [0, 0, 0], [0, 0, 1]]], "an invertible 3 x 3 matrix"),
        ("matrices", [[[1, 0, float("nan")], [0, 1, 0], [0, 0, 1]], IDENTITY], "an invertible 3 x 3 matrix"),
        ("warnings", [[0]], "not enough values"),
    ],
)
def test_hostile_content_is_refused(tmp_path, key, value, reason):
    path = tmp_path / "t.json"
    path.write_text(json.dumps(CONTENT | {key: value}))

    with refused(path, reason):
        load_transforms(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "Expecting value"),
        (b"\xff\xfe\x00", ""),
        (b"[1, 2]", "one object with format, model"),
        (b'{"format": "qmcif transforms 1"}', "one object with format, model"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_transforms_file_is_refused(tmp_path, content, reason):
    path = tmp_path / "t.json"
    path.write_bytes(content)

    with refused(path, reason):
        load_transforms(path)


def test_a_huge_file_is_refused_before_it_is_read_whole(tmp_path):
    path = tmp_path / "t.json"
    with path.open("wb") as stream:
        stream.truncate(2**25 + 1)

    with refused(path, "it is larger than 33554432 bytes"):
        load_transforms(path)


def test_a_missing_file_is_named(tmp_path):
    with refused(tmp_path, "No such file"):
        load_transforms(tmp_path / "missing.json")
