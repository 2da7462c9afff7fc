"""Images of phones: AVIF that the tests encode, and one small HEIC file."""

from __future__ import annotations

import sys
from pathlib import Path

import imagecodecs
import numpy as np
import pytest

from qmcif_engine import open_stack
from qmcif_engine.cli import main
from qmcif_engine.errors import ImageFileError, InvalidConfigError, MissingExtraError
from qmcif_engine.stack.window import Window

HEIC = (Path(__file__).parents[4] / "tools" / "attack" / "phone.heic").read_bytes()
"""64 x 48 pixels stored on their side: red 4 x, green 5 y, blue 128. Its EXIF block names the maker `Testmaker`. No library that we use
encodes HEIC, so it was encoded once."""

LARGEST_CODING_ERROR = 12
NOISE = np.random.default_rng(2).integers(0, 256, (2, 40, 48, 3), dtype=np.uint8)


def save_avif(folder, images=NOISE, **options):
    for number, image in enumerate(images):
        (folder / f"{number}.avif").write_bytes(imagecodecs.avif_encode(image, **{"level": 100} | options))
    return folder


def test_avif_is_read_as_it_was_encoded(tmp_path):
    stack = open_stack(save_avif(tmp_path))
    assert (stack.n_images, stack.image_shape, stack.dtype) == (2, (40, 48, 3), np.uint8)
    for number in range(2):
        expected = imagecodecs.avif_decode((tmp_path / f"{number}.avif").read_bytes())
        np.testing.assert_array_equal(stack.read(number, Window(2, 3, 30, 40)), expected[2:30, 3:40])


def test_avif_of_ten_bits_keeps_them(tmp_path):
    stack = open_stack(save_avif(tmp_path, NOISE.astype(np.uint16) * 4, bitspersample=10))
    assert stack.dtype == np.uint16
    assert stack.read(0, Window(0, 0, 40, 48)).max() > 255


def test_command_line_fuses_avif(tmp_path):
    target = tmp_path / "fused.png"
    folder = tmp_path / "shots"
    folder.mkdir()
    assert main(["fuse", str(save_avif(folder)), "-o", str(target)]) == 0
    assert target.exists()


@pytest.fixture
def phone(tmp_path):
    for number in range(2):
        (tmp_path / f"{number}.heic").write_bytes(HEIC)
    return tmp_path


def test_heic_is_upright_and_keeps_what_the_camera_said(phone):
    pytest.importorskip("pi_heif", reason="the extra heic is not installed")
    stack = open_stack(phone)
    assert (stack.n_images, stack.image_shape, stack.dtype) == (2, (64, 48, 3), np.uint8)
    rows, columns = np.mgrid[:48, :64]
    picture = np.stack([4 * columns, 5 * rows, np.full_like(rows, 128)], axis=-1)
    found = stack.read(0, Window(0, 0, 64, 48)).astype(int)
    assert np.abs(found - np.rot90(picture, -1)).mean() < LARGEST_CODING_ERROR
    assert b"Testmaker" in stack.metadata.exif


def test_heic_without_the_extra_names_the_command(phone, monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "pi_heif", None)
    with pytest.raises(MissingExtraError, match="is a HEIC file; pi-heif is needed to read it; install it with: pip install"):
        open_stack(phone)
    assert main(["fuse", str(phone), "-o", str(tmp_path / "fused.png")]) == 2
    assert "pip install 'napari-qmcif[heic]'" in capsys.readouterr().err


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("kind", ["heic", "avif"])
def test_truncated_file_is_refused(tmp_path, kind, part):
    if kind == "heic":
        pytest.importorskip("pi_heif")
    content = HEIC if kind == "heic" else imagecodecs.avif_encode(NOISE[0], level=100)
    for number in range(2):
        (tmp_path / f"{number}.{kind}").write_bytes(content[: int(len(content) * part)])
    with pytest.raises(ImageFileError, match="truncated or corrupt"):
        open_stack(tmp_path).read(0, Window(0, 0, 8, 8))


def test_header_that_claims_too_many_pixels_is_refused_before_anything_is_decoded(tmp_path):
    content = imagecodecs.avif_encode(NOISE[0], level=100)
    place = content.index(b"ispe") + 8
    for number in range(2):
        (tmp_path / f"{number}.avif").write_bytes(content[:place] + b"\0\1\0\0\0\1\0\0" + content[place + 8 :])
    with pytest.raises(ImageFileError, match="65536 x 65536 pixels according to its header"):
        open_stack(tmp_path)


def test_header_without_a_size_is_refused(tmp_path):
    for number in range(2):
        (tmp_path / f"{number}.avif").write_bytes(imagecodecs.avif_encode(NOISE[0], level=100).replace(b"ispe", b"xxxx"))
    with pytest.raises(ImageFileError, match="its header claims no size"):
        open_stack(tmp_path)


def test_animation_is_refused(tmp_path):
    content = imagecodecs.avif_encode(NOISE[0], level=100)
    length = int.from_bytes(content[:4], "big")
    for number in range(2):
        (tmp_path / f"{number}.avif").write_bytes(content[:length].replace(b"mif1", b"avis") + content[length:])
    with pytest.raises(ImageFileError, match="holds an animation, or an image that has to be turned; one upright image is needed"):
        open_stack(tmp_path)


def test_axes_of_one_image_are_refused(tmp_path):
    with pytest.raises(InvalidConfigError, match=r"the axes 'ZYX' were named and .* is one AVIF or HEIC image"):
        open_stack(save_avif(tmp_path), axes="ZYX")
