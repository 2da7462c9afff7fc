from __future__ import annotations

import struct

import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms

from qmcif_engine.io.input.open import open_stack

EXPOSURE, POSITION = 0x8769, 0x8825


def saved(folder, **options):
    path = folder / "stack.tif"
    tifffile.imwrite(path, np.zeros((3, 20, 24), np.uint16), **{"photometric": "minisblack"} | options)
    return path


def test_ome_sizes_and_names_are_read(tmp_path):
    metadata = {"axes": "ZYX", "PhysicalSizeX": 0.3, "PhysicalSizeY": 0.4, "PhysicalSizeZ": 1.5, "Channel": {"Name": ["red"]}}
    found = open_stack(saved(tmp_path, ome=True, metadata=metadata)).metadata
    assert (found.pixel_size, found.z_step, found.unit, found.channel_names) == ((0.4, 0.3), 1.5, "micrometer", ("red",))


def test_significant_bits_of_ome_are_read(tmp_path):
    path = saved(tmp_path, ome=True, metadata={"axes": "ZYX", "SignificantBits": 12})
    assert open_stack(path).metadata.significant_bits == 12


def test_imagej_spacing_is_read(tmp_path):
    metadata = {"axes": "ZYX", "spacing": 2.5, "unit": "um"}
    found = open_stack(saved(tmp_path, imagej=True, resolution=(4.0, 2.0), metadata=metadata)).metadata
    assert found.pixel_size == pytest.approx((0.5, 0.25))
    assert (found.z_step, found.unit) == (2.5, "micrometer")


def test_imagej_without_unit_of_length_has_no_sizes(tmp_path):
    found = open_stack(saved(tmp_path, imagej=True, resolution=(4.0, 2.0), metadata={"axes": "ZYX", "unit": "pixel"})).metadata
    assert (found.pixel_size, found.z_step, found.unit) == (None, None, None)


@pytest.mark.parametrize(("unit", "expected"), [("INCH", (300.0, 150.0)), ("CENTIMETER", (762.0, 381.0)), ("NONE", None)])
def test_printing_resolution_is_read_horizontal_first(tmp_path, unit, expected):
    found = open_stack(saved(tmp_path, resolution=(300, 150), resolutionunit=unit)).metadata.dpi
    assert found == (None if expected is None else pytest.approx(expected))


def test_color_profile_is_read(tmp_path):
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    assert open_stack(saved(tmp_path, iccprofile=profile)).metadata.icc_profile == profile


@pytest.mark.parametrize("profile", [b"", b"not a profile", bytes(200), struct.pack(">I", 200) + bytes(196)])
def test_what_is_no_color_profile_is_left_out(tmp_path, profile):
    assert open_stack(saved(tmp_path, iccprofile=profile)).metadata.icc_profile is None


@pytest.mark.parametrize("is_big", [False, True])
@pytest.mark.parametrize("byteorder", ["<", ">"])
def test_exposure_of_the_camera_is_collected_into_a_block_of_its_own(tmp_path, is_big, byteorder):
    for number in range(2):
        Image.fromarray(np.zeros((20, 24, 3), np.uint8)).save(tmp_path / f"{number}.tif", exif=camera_block(byteorder), big_tiff=is_big)
    block = Image.Exif()
    block.load(open_stack(tmp_path).metadata.exif)
    assert (block[271], block[306]) == ("Maker", "2024:01:02 03:04:05")
    assert block.get_ifd(EXPOSURE) == {33434: (1, 125), 36867: "2024:01:02 03:04:05"}  # and no note of the maker
    assert block.get_ifd(POSITION) == {1: "N", 2: (48.0, 51.0, 29.5)}
    assert 256 not in block


def camera_block(byteorder: str) -> Image.Exif:
    block = Image.Exif()
    block.endian = byteorder
    block.update({271: "Maker", 306: "2024:01:02 03:04:05"})
    block.get_ifd(EXPOSURE).update({33434: (1, 125), 36867: "2024:01:02 03:04:05", 37500: b"note of the maker"})
    block.get_ifd(POSITION).update({1: "N", 2: (48.0, 51.0, 29.5)})
    loaded = Image.Exif()
    loaded.load(block.tobytes())
    return loaded


def test_picture_without_camera_has_no_block(tmp_path):
    assert open_stack(saved(tmp_path)).metadata.exif is None


@pytest.mark.parametrize("place", [1, 2**31, 10**6])
def test_damaged_camera_directory_is_left_out(tmp_path, place):
    path = saved(tmp_path, extratags=[(34664, 4, 1, place, True), (271, 2, 0, "Maker", True)])
    content = path.read_bytes()
    path.write_bytes(content.replace(struct.pack("<HHI", 34664, 4, 1), struct.pack("<HHI", 34665, 4, 1)))
    block = Image.Exif()
    block.load(open_stack(path).metadata.exif)
    assert dict(block) == {271: "Maker"}


def test_imagej_channels_have_the_colors_of_their_tables(tmp_path):
    ramp, dark = np.arange(256, dtype=np.uint8), np.zeros(256, np.uint8)
    tables = [np.stack([dark, ramp, dark]), np.stack([ramp, dark, ramp])]
    target = tmp_path / "dyes.tif"
    tifffile.imwrite(target, np.zeros((3, 2, 8, 9), np.uint16), imagej=True, metadata={"axes": "ZCYX", "LUTs": tables})

    assert open_stack(target).metadata.channel_colors == ("#00ff00", "#ff00ff")
