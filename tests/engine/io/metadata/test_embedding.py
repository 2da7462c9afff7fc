from __future__ import annotations

import base64
import io
import json
import logging

import numpy as np
import pytest
import tifffile
import zarr
from PIL import Image, ImageCms
from PIL.TiffImagePlugin import IFDRational

from qmcif_engine.io.input.open import read_image
from qmcif_engine.io.output.formats import place_contents, write_image
from qmcif_engine.io.output.windowed_image import ArrayImage, assemble_content
from qmcif_engine.stack.image_metadata import ImageMetadata

SAMPLES = (np.arange(60 * 50 * 3) % 256).reshape(60, 50, 3).astype(np.uint8)
PROVENANCE = {"version": "1.2.3", "identity": "abc", "inputs": ["ä.png"], "settings": {"rounds": 3}}
FILES = (".jpg", ".png", ".tif", ".ome.tif")
DPI_TOLERANCE = 0.02  # PNG counts whole pixels a meter
RGB_PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def camera_block(*, is_big_endian: bool = False, note: bytes = b"maker's note") -> bytes:
    exif = Image.Exif()
    exif.endian = ">" if is_big_endian else "<"
    exif[0x010F], exif[0x0110], exif[0x0112], exif[0x0132] = "Maker", "Model", 6, "2020:01:02 03:04:05"
    exif.get_ifd(0x8769).update({0x829A: IFDRational(1, 250), 0x8827: 200, 0x927C: note, 0xA002: 999, 0xA003: 777})
    exif.get_ifd(0x8825).update({1: "N", 2: (1.0, 2.0, 3.5)})
    return exif.tobytes().removeprefix(b"Exif\0\0")


def stream(target, samples=SAMPLES, *, provenance=PROVENANCE, **metadata) -> None:
    content = assemble_content(ArrayImage(samples), None, metadata=ImageMetadata(**metadata), provenance=provenance)
    place_contents({target: content}, overwrite=False)


@pytest.mark.parametrize("suffix", FILES)
@pytest.mark.parametrize("is_big_endian", [False, True])
def test_exif_comes_back_upright_and_with_the_true_size(tmp_path, suffix, is_big_endian):
    stream(tmp_path / f"p{suffix}", exif=camera_block(is_big_endian=is_big_endian))
    with Image.open(tmp_path / f"p{suffix}") as image:
        exif = image.getexif()
        assert (exif[0x010F], exif[0x0110], exif.get(0x0112, 1)) == ("Maker", "Model", 1)
        details = exif.get_ifd(0x8769)
        assert (details[0xA002], details[0xA003], details[0x8827], float(details[0x829A])) == (50, 60, 200, 0.004)
        assert exif.get_ifd(0x8825)[2] == (1.0, 2.0, 3.5)
    read = read_image(tmp_path / f"p{suffix}").samples if suffix != ".ome.tif" else tifffile.imread(tmp_path / "p.ome.tif")
    assert read.shape == SAMPLES.shape
    if suffix != ".jpg":
        np.testing.assert_array_equal(read, SAMPLES)


@pytest.mark.parametrize("suffix", [".tif", ".ome.tif"])
@pytest.mark.parametrize("is_big", [False, True])
def test_tifffile_finds_exif_in_classic_and_big_tiff(tmp_path, suffix, is_big, monkeypatch):
    if is_big:
        monkeypatch.setattr("qmcif_engine.io.tiff.tiff_writer.LARGEST_CLASSIC_BYTES", 0)
        monkeypatch.setattr("qmcif_engine.io.tiff.tiff_writer.LARGEST_STRIPPED_BYTES", 0)
    stream(tmp_path / f"p{suffix}", exif=camera_block())
    with tifffile.TiffFile(tmp_path / f"p{suffix}") as tiff:
        assert tiff.is_bigtiff == is_big
        tags = tiff.pages.first.tags
        assert list(tags.keys()) == sorted(tags.keys())
        assert tags["ExifTag"].value["ISOSpeedRatings"] == 200
        assert tags["ExifTag"].value["PixelXDimension"] == 50
        assert "MakerNote" not in tags["ExifTag"].value
        assert tags["GPSTag"].value["GPSLatitudeRef"] == "N"
        assert tags["Make"].value == "Maker"


@pytest.mark.parametrize("suffix", FILES)
def test_profile_and_resolution_come_back(tmp_path, suffix):
    stream(tmp_path / f"p{suffix}", icc_profile=RGB_PROFILE, dpi=(300.0, 200.0))
    with Image.open(tmp_path / f"p{suffix}") as image:
        assert image.info["icc_profile"] == RGB_PROFILE
        np.testing.assert_allclose([float(dots) for dots in image.info["dpi"]], (300, 200), atol=DPI_TOLERANCE)


@pytest.mark.parametrize("suffix", FILES)
def test_pixel_size_becomes_resolution_where_none_is_given(tmp_path, suffix):
    stream(tmp_path / f"p{suffix}", pixel_size=(2.0, 1.0), unit="micrometer")
    with Image.open(tmp_path / f"p{suffix}") as image:
        np.testing.assert_allclose([float(dots) for dots in image.info["dpi"]], (25400, 12700), rtol=1e-6)


def test_profiles_of_another_color_space_are_left_out(tmp_path):
    for suffix in FILES:
        stream(tmp_path / f"p{suffix}", SAMPLES[..., 0], icc_profile=RGB_PROFILE)
        with Image.open(tmp_path / f"p{suffix}") as image:
            assert image.info.get("icc_profile") is None


def test_long_profiles_are_cut_into_pieces_that_come_back_whole(tmp_path):
    profile = RGB_PROFILE + np.random.default_rng(1).bytes(150_000)
    for suffix in FILES:
        stream(tmp_path / f"p{suffix}", icc_profile=profile)
        with Image.open(tmp_path / f"p{suffix}") as image:
            assert image.info["icc_profile"] == profile


def test_provenance_is_found_where_each_format_keeps_text(tmp_path):
    for suffix in FILES:
        stream(tmp_path / f"p{suffix}")
    with Image.open(tmp_path / "p.jpg") as image:
        assert json.loads(image.info["comment"]) == {"qmcif": PROVENANCE}
    with Image.open(tmp_path / "p.png") as image:
        assert json.loads(image.text["Comment"]) == {"qmcif": PROVENANCE}
        assert image.text["Software"] == "napari-qmcif 1.2.3"
    with tifffile.TiffFile(tmp_path / "p.tif") as tiff:
        assert json.loads(tiff.pages.first.description) == {"qmcif": PROVENANCE}
        assert tiff.pages.first.software == "napari-qmcif 1.2.3"


def test_long_provenance_fills_several_comments_of_a_jpeg(tmp_path):
    long = {"inputs": [f"frame {number:05}.png" for number in range(9000)]}
    stream(tmp_path / "p.jpg", provenance=long)
    with Image.open(tmp_path / "p.jpg") as image:
        comments = [payload for marker, payload in image.applist if marker == "COM"]
        assert len(comments) > 1
        assert json.loads(b"".join(comments)) == {"qmcif": long}
        image.load()


def test_zarr_keeps_camera_metadata_under_our_key(tmp_path):
    stream(tmp_path / "p.ome.zarr", icc_profile=RGB_PROFILE, exif=camera_block())
    own = zarr.open_group(tmp_path / "p.ome.zarr", mode="r").attrs["qmcif"]
    assert base64.b64decode(own["icc_profile"]) == RGB_PROFILE
    exif = Image.Exif()
    exif.load(b"Exif\0\0" + base64.b64decode(own["exif"]))
    assert (exif[0x0112], exif.get_ifd(0x8769)[0xA002]) == (1, 50)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"exif": camera_block(note=bytes(70_000))}, "JPEG cannot hold EXIF of"),
        ({"pixel_size": (0.01, 0.01), "unit": "micrometer"}, "JPEG cannot hold a resolution of 1000000 by 1000000 pixels per centimeter"),
        ({"icc_profile": RGB_PROFILE + bytes(17_000_000)}, "JPEG cannot hold a color profile of"),
    ],
)
def test_what_a_jpeg_cannot_hold_is_left_out_with_a_word(tmp_path, caplog, metadata, message):
    with caplog.at_level(logging.WARNING):
        stream(tmp_path / "p.jpg", **metadata)
    assert message in caplog.text
    with Image.open(tmp_path / "p.jpg") as image:
        image.load()
        assert "exif" not in image.info
        assert "icc_profile" not in image.info


@pytest.mark.parametrize("suffix", FILES)
def test_damaged_or_impossible_metadata_never_stops_the_picture(tmp_path, suffix):
    stream(tmp_path / f"p{suffix}", exif=b"broken", icc_profile=b"short", dpi=(0.0, float("nan")), pixel_size=(0.0, 1.0), unit="parsec")
    with Image.open(io.BytesIO((tmp_path / f"p{suffix}").read_bytes())) as image:
        image.load()
        assert image.info.get("icc_profile") is None
        assert 0x8769 not in image.getexif()


@pytest.mark.parametrize("side", [1e-300, 5e-324, 1e-12, 1e12, 1e300])
@pytest.mark.parametrize("name", ["a.tif", "a.ome.tif", "a.png", "a.jpg"])
def test_a_pixel_that_no_fraction_of_whole_numbers_can_tell_of_is_left_out(tmp_path, name, side):
    """Damaged metadata claim such sizes; the image is written all the same."""
    write_image(tmp_path / name, np.zeros((8, 9), np.uint8), pixel_size=(side, side), unit="micrometer")

    assert read_image(tmp_path / name).samples.shape == (8, 9)
