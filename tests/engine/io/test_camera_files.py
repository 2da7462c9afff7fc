"""AVIF that the tests encode, a small HEIC file, and camera raw: DNG that the tests write, and a stand-in for the library."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import imagecodecs
import numpy as np
import pytest
import tifffile
from PIL import Image

from qmcif_engine import fuse, open_stack
from qmcif_engine.cli import main
from qmcif_engine.errors import ImageFileError, InvalidConfigError, MissingExtraError
from qmcif_engine.stack.synthetic import make_focus_stack
from qmcif_engine.stack.window import Window

HEIC = (Path(__file__).parents[3] / "tools" / "attack" / "phone.heic").read_bytes()
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


@pytest.fixture
def raw_files(tmp_path):
    for number in range(2):
        (tmp_path / f"shot{number}.NEF").write_bytes(bytes([number]) * 100)
    return tmp_path


@pytest.fixture
def stand_in(monkeypatch):
    """What rawpy offers, for files of one repeated byte: no camera's file is small and free enough to be part of the tests."""
    module = ModuleType("rawpy")
    module.options, module.flip = [], 0

    class Raw:
        def __init__(self, content):
            self.value = content[0]
            self.sizes = SimpleNamespace(height=20, width=30, flip=module.flip)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def postprocess(self, **options):
            module.options.append(options)
            shape = (30, 20, 3) if module.flip in (5, 6) else (20, 30, 3)
            return np.full(shape, 1000 + self.value, np.uint16)

    def imread(stream):
        content = stream.read()
        if content[:1] == b"\xff":
            msg = "b'Unsupported file format or not RAW file'"
            raise RuntimeError(msg)
        return Raw(content)

    module.imread = imread
    monkeypatch.setitem(sys.modules, "rawpy", module)
    return module


def test_raw_files_are_developed_alike_when_they_are_read(raw_files, stand_in):
    stack = open_stack(raw_files)
    assert (stack.image_shape, stack.dtype) == ((20, 30, 3), np.uint16)
    assert stand_in.options == []
    np.testing.assert_array_equal(stack.read(1, Window(0, 0, 2, 2)), np.full((2, 2, 3), 1001))
    assert stand_in.options == [{"use_camera_wb": True, "no_auto_bright": True, "gamma": (1, 1), "output_bps": 16}]


@pytest.mark.parametrize(("flip", "shape"), [(0, (20, 30, 3)), (3, (20, 30, 3)), (5, (30, 20, 3)), (6, (30, 20, 3))])
def test_upright_size_is_known_before_developing(raw_files, stand_in, flip, shape):
    stand_in.flip = flip
    stack = open_stack(raw_files)
    assert stack.image_shape == shape
    assert stack.read(0, Window.whole(shape)).shape == shape


@pytest.mark.usefixtures("stand_in")
def test_what_is_no_raw_file_is_refused(raw_files):
    (raw_files / "shot1.NEF").write_bytes(b"\xff" * 100)
    with pytest.raises(ImageFileError, match=r"shot1.NEF' is truncated or corrupt \(RuntimeError: b'Unsupported file format"):
        open_stack(raw_files)


def test_message_without_rawpy_says_what_to_install(raw_files, monkeypatch):
    monkeypatch.setitem(sys.modules, "rawpy", None)
    with pytest.raises(
        MissingExtraError, match=r"shot0.NEF' is a camera raw file; rawpy is needed .* pip install 'napari-qmcif\[raw\]', or"
    ):
        open_stack(raw_files)


BLACK, WHITE = 512, 4095
ONE = (10000, 10000)
NONE = (0, 10000)


def save_dng(path, image, *, orientation=1):
    """Write colors, shape (H, W, 3) from 0 to 255, as a camera with a Bayer pattern of 12 bits would record them."""
    pytest.importorskip("rawpy", reason="the extra raw is not installed")
    levels = BLACK + image.astype(np.float64) / 255 * (WHITE - BLACK)
    mosaic = np.empty(image.shape[:2], np.uint16)
    for row, column, channel in ((0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 2)):
        mosaic[row::2, column::2] = np.rint(levels[row::2, column::2, channel])
    tags = [
        (271, "s", 0, "Testmaker", True),
        (272, "s", 0, "Model 1", True),
        (306, "s", 0, "2026:01:02 03:04:05", True),
        (274, "H", 1, orientation, True),
        (33421, "H", 2, (2, 2), True),
        (33422, "B", 4, (0, 1, 1, 2), True),
        (50706, "B", 4, (1, 4, 0, 0), True),
        (50708, "s", 0, "Testmaker Model 1", True),
        (50714, "H", 1, BLACK, True),
        (50717, "H", 1, WHITE, True),
        (50721, "2i", 9, (*ONE, *NONE, *NONE, *NONE, *ONE, *NONE, *NONE, *NONE, *ONE), True),
        (50728, "2I", 3, (*ONE, *ONE, *ONE), True),
        (50778, "H", 1, 21, True),
    ]
    tifffile.imwrite(path, mosaic, photometric="cfa", extratags=tags, metadata=None)
    return path


@pytest.fixture
def shots(tmp_path):
    images = make_focus_stack(n_images=3, shape=(64, 96)).images
    for number, image in enumerate(images):
        save_dng(tmp_path / f"shot{number}.dng", image)
    return tmp_path


def develop(path):
    import rawpy

    with rawpy.imread(str(path)) as raw:
        return raw.postprocess(use_camera_wb=True, no_auto_bright=True, gamma=(1, 1), output_bps=16)


def test_dng_is_developed_to_16_bits(shots):
    stack = open_stack(shots)
    assert (stack.n_images, stack.image_shape, stack.dtype) == (3, (64, 96, 3), np.uint16)
    np.testing.assert_array_equal(stack.read(1, Window(3, 5, 40, 60)), develop(shots / "shot1.dng")[3:40, 5:60])


def test_raw_workflow_ends_in_a_16_bit_tiff_with_what_the_camera_said(shots, tmp_path):
    target = tmp_path / "fused.tif"
    assert main(["fuse", *(str(path) for path in sorted(shots.glob("*.dng"))), "-o", str(target)]) == 0
    picture = tifffile.imread(target)
    assert (picture.shape, picture.dtype) == ((64, 96, 3), np.uint16)
    sources = np.stack([develop(path) for path in sorted(shots.glob("*.dng"))])
    np.testing.assert_array_equal(picture, fuse(list(sources)).fused)
    with Image.open(target) as opened:
        assert (opened.getexif()[271], opened.getexif()[272]) == ("Testmaker", "Model 1")
        assert opened.getexif().get(274, 1) == 1


@pytest.mark.parametrize(("orientation", "turns"), [(6, -1), (8, 1)])
def test_picture_taken_on_its_side_is_upright(tmp_path, orientation, turns):
    image = make_focus_stack(n_images=2, shape=(64, 96)).images[0]
    for number in range(2):
        save_dng(tmp_path / f"{number}.dng", image, orientation=orientation)
    upright = save_dng(tmp_path.parent / f"upright{orientation}.dng", image)
    stack = open_stack(tmp_path)
    assert stack.image_shape == (96, 64, 3)
    np.testing.assert_array_equal(stack.read(0, Window(0, 0, 96, 64)), np.rot90(develop(upright), turns))


@pytest.mark.parametrize("part", [0.1, 0.5, 0.95])
def test_truncated_dng_is_refused_without_a_traceback(shots, tmp_path, capsys, part):
    content = (shots / "shot1.dng").read_bytes()
    (shots / "shot1.dng").write_bytes(content[: int(len(content) * part)])
    assert main(["fuse", str(shots), "-o", str(tmp_path / "fused.tif")]) == 2
    message = capsys.readouterr().err
    assert "shot1.dng" in message
    assert "Traceback" not in message
    assert not (tmp_path / "fused.tif").exists()


def test_16_bit_tiff_of_a_raw_developer_keeps_exif_and_profile(tmp_path):
    """As darktable and RawTherapee write it: RGB of 16 bits, an EXIF directory, an ICC profile, a resolution."""
    images = make_focus_stack(n_images=2, shape=(64, 96), dtype=np.uint16).images
    profile = bytearray(200)
    profile[:4], profile[16:20], profile[36:40] = (200).to_bytes(4, "big"), b"RGB ", b"acsp"
    tags = [(271, "s", 0, "Testmaker", True), (272, "s", 0, "Model 1", True)]
    for number, image in enumerate(images):
        form = {"photometric": "rgb", "compression": "zlib", "predictor": True, "resolution": (300, 300), "resolutionunit": "INCH"}
        tifffile.imwrite(tmp_path / f"{number}.tif", image, iccprofile=bytes(profile), extratags=tags, metadata=None, **form)
    target = tmp_path / "out" / "fused.tif"
    target.parent.mkdir()
    assert main(["fuse", str(tmp_path / "0.tif"), str(tmp_path / "1.tif"), "-o", str(target)]) == 0
    with tifffile.TiffFile(target) as file:
        page = file.pages.first
        assert (page.dtype, page.shape) == (np.uint16, (64, 96, 3))
        assert bytes(page.tags[34675].value) == bytes(profile)
        assert (page.tags[271].value, page.tags[272].value) == ("Testmaker", "Model 1")
        assert page.tags["XResolution"].value[0] / page.tags["XResolution"].value[1] == 300
