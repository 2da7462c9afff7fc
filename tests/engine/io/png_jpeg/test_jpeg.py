from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageCms

from qmcif_engine.io.input.open import open_file
from qmcif_engine.io.input.segments import SegmentCache

PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
ORIENTATION_TAG = 274


def jpeg(**options: object) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.zeros((4, 6, 3), np.uint8)).save(stream, "JPEG", **options)
    return stream.getvalue()


def inspected(folder, content):
    path = folder / "image.jpg"
    path.write_bytes(content)
    return open_file(path, cache=SegmentCache()).description


def test_header_tells_size_and_channels_without_decoding(tmp_path, monkeypatch):
    monkeypatch.delattr("qmcif_engine.io.png_jpeg.jpeg.imagecodecs.jpeg8_decode")
    header = inspected(tmp_path, jpeg())
    assert (header.stored_shape, header.dtype) == ((4, 6, 3), np.uint8)


def test_profile_resolution_and_exif_are_read(tmp_path):
    exif = Image.Exif()
    exif[ORIENTATION_TAG], exif[271] = 8, "Maker"
    header = inspected(tmp_path, jpeg(icc_profile=PROFILE, dpi=(300, 150), exif=exif))
    assert (header.height, header.width) == (6, 4)
    assert header.metadata.icc_profile == PROFILE
    assert header.metadata.dpi == (300, 150)
    block = Image.Exif()
    block.load(header.metadata.exif)
    assert dict(block) == {271: "Maker", ORIENTATION_TAG: 1}


def test_profile_in_several_pieces_is_joined_and_one_with_a_gap_left_out(tmp_path):
    large = (70000).to_bytes(4, "big") + PROFILE[4:128] + bytes(range(256)) * 273
    large = large[:70000]
    content = jpeg(icc_profile=large)
    assert inspected(tmp_path, content).metadata.icc_profile == large
    second = content.index(b"ICC_PROFILE\0\x02")
    assert inspected(tmp_path, content.replace(b"ICC_PROFILE\0\x02", b"ICC_PROFILE\0\x03")).metadata.icc_profile is None
    assert second > 65000


def test_resolution_in_centimeters_becomes_dots_an_inch(tmp_path):
    content = bytearray(jpeg(dpi=(100, 50)))
    content[content.index(b"JFIF\0") + 7] = 2
    assert inspected(tmp_path, bytes(content)).metadata.dpi == pytest.approx((254, 127))


def test_aspect_ratio_is_no_resolution(tmp_path):
    assert inspected(tmp_path, jpeg()).metadata.dpi is None
