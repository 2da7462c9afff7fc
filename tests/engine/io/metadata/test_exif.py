from __future__ import annotations

import io
import struct

import pytest
import tifffile
from PIL import Image
from PIL.TiffImagePlugin import IFDRational

from qmcif_engine.io.metadata.exif import (
    EXIF_DIRECTORY_TAG,
    GPS_DIRECTORY_TAG,
    check_profile,
    fit_exif,
    parse_exif_orientation,
    split_exif,
)

MAKER_NOTE = b"positions in here are counted from the start of the block"


def camera_block(*, is_big_endian: bool = False) -> bytes:
    """A block as cameras write it, with a maker's note, a position on earth and claims about the size of the image."""
    exif = Image.Exif()
    exif.endian = ">" if is_big_endian else "<"
    exif[0x0100], exif[0x010F], exif[0x0112], exif[0x0132] = 999, "Maker", 6, "2020:01:02 03:04:05"
    exif.get_ifd(0x8769).update({0x829A: IFDRational(1, 250), 0x8827: 200, 0x927C: MAKER_NOTE, 0xA002: 999, 0xA003: 777})
    exif.get_ifd(0x8825).update({1: "N", 2: (1.0, 2.0, 3.5)})
    return exif.tobytes().removeprefix(b"Exif\0\0")


def with_thumbnail(block: bytes) -> bytes:
    """Add a second directory with a thumbnail behind it, and link the first to it."""
    start = len(block) + len(block) % 2
    entries = struct.pack("<HHHIIHHII", 2, 0x0201, 4, 1, start + 30, 0x0202, 4, 1, 9) + bytes(4)
    (first,) = struct.unpack_from("<I", block, 4)
    (n_entries,) = struct.unpack_from("<H", block, first)
    link = first + 2 + 12 * n_entries
    return (block[:link] + struct.pack("<I", start) + block[link + 4 :]).ljust(start, b"\0") + entries + b"THUMBNAIL"


def read_back(block: bytes) -> Image.Exif:
    exif = Image.Exif()
    exif.load(b"Exif\0\0" + block)
    return exif


def count_directories(block: bytes) -> int:
    with tifffile.TiffFile(io.BytesIO(block)) as tiff:
        return len(tiff.pages)


@pytest.mark.parametrize("is_big_endian", [False, True])
def test_claims_about_the_picture_become_true_and_the_rest_stays(is_big_endian):
    block = camera_block(is_big_endian=is_big_endian)
    fitted = fit_exif(block, height=60, width=70_000)
    exif = read_back(fitted)
    assert (exif[0x0100], exif[0x0112], exif[0x010F]) == (70_000, 1, "Maker")
    details = exif.get_ifd(0x8769)
    assert (details[0xA002], details[0xA003], details[0x8827], float(details[0x829A])) == (70_000, 60, 200, 0.004)
    assert exif.get_ifd(0x8825)[2] == (1.0, 2.0, 3.5)
    assert MAKER_NOTE in fitted


def test_the_thumbnail_is_cut_off():
    block = with_thumbnail(camera_block())
    assert count_directories(block) == 2
    fitted = fit_exif(block, height=6, width=7)
    assert b"THUMBNAIL" not in fitted
    assert len(fitted) < len(block)
    assert count_directories(fitted) == 1
    assert fit_exif(fitted, height=6, width=7) == fitted


@pytest.mark.parametrize("is_big_endian", [False, True])
def test_entries_are_listed_without_what_is_bound_to_its_place(is_big_endian):
    found = split_exif(fit_exif(camera_block(is_big_endian=is_big_endian), height=60, width=50))
    details = found[EXIF_DIRECTORY_TAG]
    assert (details[0x8827], float(details[0x829A])) == (200, 0.004)
    assert 0x927C not in details
    assert set(found[GPS_DIRECTORY_TAG]) == {1, 2}
    assert found[0] == {0x010F: "Maker", 0x0132: "2020:01:02 03:04:05"}


@pytest.mark.parametrize("length", range(0, 300, 33))
def test_damaged_blocks_are_not_passed_on(length):
    block = camera_block()
    fitted = fit_exif(block[:length], height=6, width=7)
    assert fitted is None


def test_blocks_that_lead_in_circles_or_hold_nonsense_end():
    assert fit_exif(b"no block at all", height=6, width=7) is None
    assert fit_exif(b"II*\0\xff\xff\xff\xff", height=6, width=7) is None
    circle = b"II*\0" + struct.pack("<IHHHIII", 8, 1, EXIF_DIRECTORY_TAG, 4, 1, 8, 8)
    assert fit_exif(circle, height=6, width=7) is not None
    unknown_kind = b"II*\0" + struct.pack("<IHHHIII", 8, 1, 0x0110, 99, 1, 8, 0)
    assert fit_exif(unknown_kind, height=6, width=7) is None
    beyond = b"II*\0" + struct.pack("<IHHHIII", 8, 1, 0x0110, 2, 2**31, 8, 0)
    assert fit_exif(beyond, height=6, width=7) is None


def test_what_pillow_writes_into_a_jpeg_is_taken():
    stream = io.BytesIO()
    Image.new("RGB", (7, 6)).save(stream, "jpeg", exif=b"Exif\0\0" + camera_block())
    with Image.open(stream) as image:
        assert fit_exif(image.info["exif"][6:], height=6, width=7) is not None


@pytest.mark.parametrize("is_big_endian", [False, True])
def test_the_orientation_is_found_in_damaged_blocks_too(is_big_endian):
    block = camera_block(is_big_endian=is_big_endian)
    assert parse_exif_orientation(block) == 6
    assert parse_exif_orientation(block[:100]) == 6
    assert parse_exif_orientation(fit_exif(block, height=6, width=7)) == 1


@pytest.mark.parametrize("exif", [b"", b"II", b"something else", b"II*\0", b"II*\0\x08\0\0\0", b"MM\0*\xff\xff\xff\xff\0\1"])
def test_what_is_no_block_is_upright_and_left_out(exif):
    assert parse_exif_orientation(exif) == 1
    assert fit_exif(exif, height=6, width=7) is None


def test_profile_must_have_its_length_and_signature():
    sound = (200).to_bytes(4, "big") + bytes(32) + b"acsp" + bytes(160)
    assert check_profile(sound) == sound
    assert check_profile(sound[:-1]) is None
    assert check_profile(sound.replace(b"acsp", b"....")) is None
    assert check_profile(b"") is None
