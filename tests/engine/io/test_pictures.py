from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageCms, PngImagePlugin

from qmcif_engine.errors import ImageFileError
from qmcif_engine.io.input.open import open_file, read_image
from qmcif_engine.io.input.segments import SegmentCache

PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
ORIENTATION_TAG = 274


def encoded(kind: str, mode: str = "RGB", **options: object) -> bytes:
    stream = io.BytesIO()
    Image.new(mode, (6, 4)).save(stream, kind, **options)
    return stream.getvalue()


def inspected(folder, content):
    path = folder / "image.bin"
    path.write_bytes(content)
    return open_file(path, cache=SegmentCache()).description


def with_chunk(kind: bytes, payload: bytes) -> bytes:
    content = encoded("PNG")
    chunk = struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(kind + payload))
    return content[:33] + chunk + content[33:]


@pytest.mark.parametrize(
    ("kind", "mode", "n_samples"),
    [("PNG", "L", 1), ("PNG", "LA", 2), ("PNG", "RGB", 3), ("PNG", "RGBA", 4), ("PNG", "I;16", 1), ("JPEG", "L", 1), ("JPEG", "RGB", 3)],
)
def test_header_tells_size_type_and_channels_without_decoding(tmp_path, kind, mode, n_samples, monkeypatch):
    monkeypatch.delattr("qmcif_engine.io.pictures.imagecodecs.png_decode")
    monkeypatch.delattr("qmcif_engine.io.pictures.imagecodecs.jpeg8_decode")
    header = inspected(tmp_path, encoded(kind, mode))
    assert header.stored_shape == (4, 6, n_samples)
    assert header.dtype == (np.uint16 if mode == "I;16" else np.uint8)
    assert (header.metadata.icc_profile, header.metadata.dpi, header.metadata.exif) == (None, None, None)


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_profile_resolution_and_exif_are_read(tmp_path, kind):
    exif = Image.Exif()
    exif[ORIENTATION_TAG], exif[271] = 6, "Maker"
    header = inspected(tmp_path, encoded(kind, icc_profile=PROFILE, dpi=(300, 150), exif=exif))
    assert (header.orientation, header.height, header.width) == (6, 6, 4)
    assert header.metadata.icc_profile == PROFILE
    assert header.metadata.dpi == pytest.approx((300, 150), rel=1e-3)
    block = Image.Exif()
    block.load(header.metadata.exif)
    assert dict(block) == {271: "Maker", ORIENTATION_TAG: 1}


@pytest.mark.parametrize("densities", [(3000, 3000, 0), (0, 3000, 1)])
def test_resolution_of_a_png_without_unit_is_left_out(tmp_path, densities):
    assert inspected(tmp_path, with_chunk(b"pHYs", struct.pack(">IIB", *densities))).metadata.dpi is None


def test_resolution_of_a_jpeg_in_centimeters_becomes_dots_an_inch(tmp_path):
    content = bytearray(encoded("JPEG", dpi=(100, 50)))
    content[content.index(b"JFIF\0") + 7] = 2
    assert inspected(tmp_path, bytes(content)).metadata.dpi == pytest.approx((254, 127))


@pytest.mark.parametrize(
    "payload", [b"", b"name\0\0not deflated", b"name\0\0" + zlib.compress(b"no profile"), b"name\0\0" + zlib.compress(bytes(2**25))]
)
def test_damaged_or_enormous_profile_is_left_out(tmp_path, payload):
    assert inspected(tmp_path, with_chunk(b"iCCP", payload)).metadata.icc_profile is None


def test_profile_of_a_jpeg_in_several_pieces_is_joined_and_one_with_a_gap_left_out(tmp_path):
    large = ((70000).to_bytes(4, "big") + PROFILE[4:128] + bytes(range(256)) * 273)[:70000]
    content = encoded("JPEG", icc_profile=large)
    assert inspected(tmp_path, content).metadata.icc_profile == large
    assert b"ICC_PROFILE\0\x02" in content
    assert inspected(tmp_path, content.replace(b"ICC_PROFILE\0\x02", b"ICC_PROFILE\0\x03")).metadata.icc_profile is None


def test_truncated_png_is_refused_by_its_header(tmp_path):
    info = PngImagePlugin.PngInfo()
    info.add_text("note", "x" * 100)
    with pytest.raises(ImageFileError, match="the end of the file is missing"):
        inspected(tmp_path, encoded("PNG", pnginfo=info)[:-20])


@pytest.mark.parametrize("n_colors", [2, 4, 16, 200])
def test_palette_becomes_the_colors_that_another_reader_sees(tmp_path, n_colors):
    generator = np.random.default_rng(n_colors)
    image = Image.fromarray(generator.integers(0, n_colors, (33, 47), np.uint8), "P")
    image.putpalette(generator.integers(0, 256, 3 * n_colors, np.uint8).tobytes())
    image.save(tmp_path / "palette.png", bits={2: 1, 4: 2, 16: 4, 200: 8}[n_colors])

    with Image.open(tmp_path / "palette.png") as stored:
        assert stored.mode == "P"
        np.testing.assert_array_equal(read_image(tmp_path / "palette.png").samples, np.asarray(stored.convert("RGB")))

    image.save(tmp_path / "palette.png", transparency=0)
    with pytest.raises(ImageFileError, match="a transparent color key"):
        read_image(tmp_path / "palette.png")
