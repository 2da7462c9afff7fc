from __future__ import annotations

import pytest
from PIL import Image

from qmcif_engine.io.metadata.exif import check_profile, set_upright

ORIENTATION_TAG = 274


def block(orientation: int | None, byteorder: str = "<") -> bytes:
    exif = Image.Exif()
    exif.endian = byteorder
    exif[271] = "Maker"
    if orientation is not None:
        exif[ORIENTATION_TAG] = orientation
    return exif.tobytes().removeprefix(b"Exif\0\0")


@pytest.mark.parametrize("byteorder", ["<", ">"])
def test_block_says_upright_and_keeps_the_rest(byteorder):
    turned = block(6, byteorder)
    upright = set_upright(turned)
    assert upright is not None
    assert len(upright) == len(turned)
    read = Image.Exif()
    read.load(upright)
    assert dict(read) == {271: "Maker", ORIENTATION_TAG: 1}


def test_block_without_orientation_stays_as_it_is():
    assert set_upright(block(None)) == block(None)


@pytest.mark.parametrize("exif", [b"", b"II", b"something else"])
def test_what_is_no_block_is_left_out(exif):
    assert set_upright(exif) is None


def test_profile_must_have_its_length_and_signature():
    sound = (200).to_bytes(4, "big") + bytes(32) + b"acsp" + bytes(160)
    assert check_profile(sound) == sound
    assert check_profile(sound[:-1]) is None
    assert check_profile(sound.replace(b"acsp", b"....")) is None
    assert check_profile(b"") is None
