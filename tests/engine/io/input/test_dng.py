"""Camera raw files that the tests write themselves: DNG with a Bayer pattern, developed by the real library."""

from __future__ import annotations

import numpy as np
import pytest
import tifffile
from PIL import Image

from qmcif_engine import fuse, open_stack
from qmcif_engine.cli import main
from qmcif_engine.stack.synthetic import make_focus_stack
from qmcif_engine.stack.window import Window

rawpy = pytest.importorskip("rawpy", reason="the extra raw is not installed")

BLACK, WHITE = 512, 4095
ONE = (10000, 10000)
NONE = (0, 10000)


def save_dng(path, image, *, orientation=1):
    """Write colors, shape (H, W, 3) from 0 to 255, as a camera with a Bayer pattern of 12 bits would record them."""
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
