"""Whatever layout a folder has, its sets are found completely or the odd file is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from qmcif_engine.comparison.datasets import find_dataset, read_eight_bit, read_opaque
from qmcif_engine.errors import ImageFileError, InvalidImageError
from qmcif_engine.io.output.formats import write_image

SHARED = Path(__file__).parents[4] / "shared" / "data"


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()


def test_pairs_and_truths_are_found_by_name(tmp_path):
    touch(tmp_path, "02_b.png", "02_a.png", "01_a.jpg", "01_b.jpg", "01_truth.jpg")
    found = find_dataset(tmp_path)

    assert found.name == tmp_path.name
    assert [image_set.name for image_set in found.sets] == ["01", "02"]
    assert [path.name for path in found.sets[0].files] == ["01_a.jpg", "01_b.jpg", "01_truth.jpg"]
    assert found.sets[1].truth is None
    assert [path.name for path in found.sets[1].files] == ["02_a.png", "02_b.png"]


def test_further_letters_are_further_images(tmp_path):
    touch(tmp_path, "x_1_a.png", "x_1_b.png", "x_1_c.png", "x_1_d.TIF")

    (image_set,) = find_dataset(tmp_path).sets
    assert image_set.name == "x_1"
    assert [path.name for path in image_set.sources] == ["x_1_a.png", "x_1_b.png", "x_1_c.png", "x_1_d.TIF"]


def test_capital_letters_count_as_small_ones(tmp_path):
    touch(tmp_path, "1_A.png", "1_B.png", "1_Truth.png")

    (image_set,) = find_dataset(tmp_path).sets
    assert image_set.truth is not None
    assert len(image_set.sources) == 2


def test_each_subfolder_is_a_set_in_natural_order(tmp_path):
    touch(tmp_path, *(f"s2/image{number}.png" for number in (10, 1, 2)), "s10/p.png", "s10/q.png", "s10/truth.png", "notes/readme.txt")
    found = find_dataset(tmp_path)

    assert [image_set.name for image_set in found.sets] == ["s2", "s10"]
    assert [path.name for path in found.sets[0].sources] == ["image1.png", "image2.png", "image10.png"]
    assert [path.name for path in found.sets[1].files] == ["p.png", "q.png", "truth.png"]


def test_other_files_hidden_files_and_subfolders_beside_images_are_left_alone(tmp_path):
    touch(tmp_path, "01_a.png", "01_b.png", "readme.txt", ".01_c.png", "results/01.png")
    (tmp_path / "odd.png").mkdir()

    assert [len(image_set.sources) for image_set in find_dataset(tmp_path).sets] == [2]


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "sizes", "has_truth"),
    [
        ("lytro", {2}, False),
        ("mffw", {2}, False),
        ("mfi_whu", {2}, True),
        ("nyu_d", {2}, True),
        ("lytro_triple", {3}, False),
        ("mffw3", {3, 6}, False),
    ],
)
def test_every_layout_of_the_development_pictures_is_known(name, sizes, has_truth):
    if not (SHARED / name).is_dir():
        pytest.skip("the development pictures are not here")
    sets = find_dataset(SHARED / name).sets

    assert {len(image_set.sources) for image_set in sets} == sizes
    assert {image_set.truth is not None for image_set in sets} == {has_truth}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "holds no image; .* check the name"),
        (["readme.txt"], "holds no image"),
        (["01_a.png"], "set '01' has only 01_a.png; .* add 01_b or remove the set"),
        (["01_b.png", "01_c.png"], "set '01' has only 01_b.png, 01_c.png; .* add 01_a"),
        (["01_a.png", "01_b.png", "01_d.png"], "add 01_c"),
        (["01_truth.png"], "set '01' has only 01_truth.png; .* add 01_a"),
        (["01_a.png", "01_b.png", "photo.png"], "photo.png' has no partner; .* rename or remove it"),
        (["01_a.png", "01_b.png", "01_a.jpg"], "01_a.jpg' and '01_a.png' are the same image of one set; .* remove the other"),
        (["s/1.png"], "has 1.png; at least two images .* complete or remove the set"),
        (["s/1.png", "s/2.png", "s/truth.png", "s/truth.jpg"], "at most one truth"),
    ],
)
def test_incomplete_folders_are_refused(tmp_path, names, message):
    touch(tmp_path, *names)

    with pytest.raises(ImageFileError, match=message):
        find_dataset(tmp_path)
    with pytest.raises(ImageFileError, match=r"gone' cannot be read \(No such file or directory\)"):
        find_dataset(tmp_path / "gone")


@pytest.mark.parametrize(("dtype", "opaque"), [(np.uint8, 255), (np.uint16, 65535), (np.float32, 1.0)])
def test_an_alpha_channel_that_hides_nothing_is_dropped(tmp_path, dtype, opaque):
    samples = np.arange(60).reshape(4, 5, 3).astype(dtype)
    alpha = np.full((4, 5), opaque, dtype)
    write_image(tmp_path / "p.tif", samples, alpha=alpha)

    np.testing.assert_array_equal(read_opaque(tmp_path / "p.tif"), samples)

    alpha[1, 1] = 0
    write_image(tmp_path / "p.tif", samples, alpha=alpha, overwrite=True)
    with pytest.raises(ImageFileError, match=r"p.tif' has transparent pixels; .* remove its alpha channel"):
        read_opaque(tmp_path / "p.tif")


def test_deeper_samples_are_refused_for_benchmarks(tmp_path):
    write_image(tmp_path / "p.png", np.zeros((4, 5), np.uint16))

    with pytest.raises(InvalidImageError, match=r"p.png' has uint16 samples; .* convert it to 8 bits"):
        read_eight_bit(tmp_path / "p.png")
