"""Bad pictures are named before any work, and a result's fingerprint follows all it depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from qmcif_engine.comparison.inspection import fingerprint_inputs
from qmcif_engine.comparison.methods import Method
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import ImageFileError, InvalidImageError
from qmcif_engine.io.input.readers import read_image
from qmcif_engine.io.output.writers import write_image

if TYPE_CHECKING:
    from pathlib import Path

    from qmcif_engine.comparison.datasets import Dataset

OURS = Method(name="default", settings=FusionConfig())


def inspect(dataset: Dataset, *methods: Method) -> dict[tuple[str, str], str]:
    return fingerprint_inputs(dataset, methods, progress=lambda done, total: None)


def brighten(path: Path) -> None:
    samples = read_image(path).samples.copy()
    samples[0, 0] ^= 1
    write_image(path, samples, overwrite=True)


def test_a_fingerprint_follows_sources_truth_settings_and_other_pictures(dataset: Dataset, tmp_path: Path) -> None:
    picture = tmp_path / "other.png"
    write_image(picture, read_image(dataset.sets[0].sources[0]).samples)
    other = Method(name="other", images={"01": picture, "02": dataset.sets[1].sources[0]})
    before = inspect(dataset, OURS, other)

    assert len(set(before.values())) == 4
    assert inspect(dataset, OURS, other) == before
    changed = inspect(dataset, Method(name="default", settings=FusionConfig().replaced({"iterations": 2})), other)
    assert {key for key in before if before[key] != changed[key]} == {("01", "default"), ("02", "default")}
    brighten(picture)
    changed = inspect(dataset, OURS, other)
    assert {key for key in before if before[key] != changed[key]} == {("01", "other")}
    for path in (dataset.sets[0].sources[1], dataset.sets[0].truth):
        assert path is not None
        unchanged = inspect(dataset, OURS)
        brighten(path)
        changed = inspect(dataset, OURS)
        assert {key for key in changed if changed[key] != unchanged[key]} == {("01", "default")}


def test_progress_counts_the_sets(dataset: Dataset) -> None:
    steps: list[tuple[int, int]] = []
    fingerprint_inputs(dataset, [OURS], progress=lambda done, total: steps.append((done, total)))

    assert steps == [(1, 2), (2, 2)]


@pytest.mark.parametrize("name", ["01_b.png", "01_truth.png"])
def test_another_size_within_a_set_is_refused(dataset: Dataset, name: str) -> None:
    write_image(dataset.folder / name, np.zeros((48, 63, 3), np.uint8), overwrite=True)

    with pytest.raises(InvalidImageError, match=rf"{name}' is 63 x 48 px RGB and .*01_a.png' 64 x 48 px RGB; .* crop or convert"):
        inspect(dataset, OURS)


def test_gray_among_color_is_refused(dataset: Dataset) -> None:
    write_image(dataset.folder / "02_a.png", np.zeros((48, 64), np.uint8), overwrite=True)

    with pytest.raises(InvalidImageError, match="64 x 48 px gray"):
        inspect(dataset, OURS)


def test_another_size_of_another_methods_picture_is_refused(dataset: Dataset, tmp_path: Path) -> None:
    write_image(tmp_path / "small.png", np.zeros((8, 8, 3), np.uint8))
    other = Method(name="other", images={"01": tmp_path / "small.png", "02": tmp_path / "small.png"})

    with pytest.raises(InvalidImageError, match=r"small.png' is 8 x 8 px RGB"):
        inspect(dataset, other)


def test_deep_and_broken_pictures_are_refused(dataset: Dataset) -> None:
    write_image(dataset.folder / "01_a.png", np.zeros((48, 64, 3), np.uint16), overwrite=True)
    with pytest.raises(InvalidImageError, match="uint16 samples"):
        inspect(dataset, OURS)

    (dataset.folder / "01_a.png").write_bytes(b"no picture")
    with pytest.raises(ImageFileError, match="a PNG, JPEG or TIFF file is needed"):
        inspect(dataset, OURS)
