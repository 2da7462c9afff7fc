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


def png(**options: object) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.zeros((4, 6, 3), np.uint8)).save(stream, "PNG", **options)
    return stream.getvalue()


def inspected(folder, content):
    path = folder / "image.png"
    path.write_bytes(content)
    return open_file(path, cache=SegmentCache()).description


def with_chunk(content: bytes, kind: bytes, payload: bytes) -> bytes:
    chunk = struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(kind + payload))
    return content[:33] + chunk + content[33:]


@pytest.mark.parametrize(("mode", "n_samples"), [("L", 1), ("LA", 2), ("RGB", 3), ("RGBA", 4), ("I;16", 1)])
def test_header_tells_size_type_and_channels_without_decoding(tmp_path, mode, n_samples, monkeypatch):
    monkeypatch.delattr("qmcif_engine.io.png_jpeg.png.imagecodecs.png_decode")
    Image.new(mode, (6, 4)).save(tmp_path / "image.png")
    header = open_file(tmp_path / "image.png", cache=SegmentCache()).description
    assert header.stored_shape == (4, 6, n_samples)
    assert header.dtype == (np.uint16 if mode == "I;16" else np.uint8)


def test_profile_resolution_and_exif_are_read(tmp_path):
    exif = Image.Exif()
    exif[ORIENTATION_TAG], exif[271] = 6, "Maker"
    header = inspected(tmp_path, png(icc_profile=PROFILE, dpi=(300, 150), exif=exif))
    assert header.orientation == 6
    assert (header.height, header.width) == (6, 4)
    assert header.metadata.icc_profile == PROFILE
    assert header.metadata.dpi == pytest.approx((300, 150), rel=1e-3)
    block = Image.Exif()
    block.load(header.metadata.exif)
    assert dict(block) == {271: "Maker", ORIENTATION_TAG: 1}


def test_plain_file_has_no_metadata(tmp_path):
    found = inspected(tmp_path, png()).metadata
    assert (found.icc_profile, found.dpi, found.exif) == (None, None, None)


def test_resolution_without_unit_is_left_out(tmp_path):
    assert inspected(tmp_path, with_chunk(png(), b"pHYs", struct.pack(">IIB", 3000, 3000, 0))).metadata.dpi is None
    assert inspected(tmp_path, with_chunk(png(), b"pHYs", struct.pack(">IIB", 0, 3000, 1))).metadata.dpi is None


@pytest.mark.parametrize(
    "payload", [b"", b"name\0\0not deflated", b"name\0\0" + zlib.compress(b"no profile"), b"name\0\0" + zlib.compress(bytes(2**25))]
)
def test_damaged_or_enormous_profile_is_left_out(tmp_path, payload):
    assert inspected(tmp_path, with_chunk(png(), b"iCCP", payload)).metadata.icc_profile is None


def test_truncated_file_is_refused_by_its_header(tmp_path):
    info = PngImagePlugin.PngInfo()
    info.add_text("note", "x" * 100)
    with pytest.raises(ImageFileError, match="the end of the file is missing"):
        inspected(tmp_path, png(pnginfo=info)[:-20])


@pytest.mark.parametrize("n_colors", [2, 4, 16, 200])
def test_palette_becomes_the_colors_that_another_reader_sees(tmp_path, n_colors):
    generator = np.random.default_rng(n_colors)
    image = Image.fromarray(generator.integers(0, n_colors, (33, 47), np.uint8), "P")
    image.putpalette(generator.integers(0, 256, 3 * n_colors, np.uint8).tobytes())
    image.save(tmp_path / "palette.png", bits={2: 1, 4: 2, 16: 4, 200: 8}[n_colors])

    samples = read_image(tmp_path / "palette.png").samples

    with Image.open(tmp_path / "palette.png") as stored:
        assert stored.mode == "P"
        np.testing.assert_array_equal(samples, np.asarray(stored.convert("RGB")))


def test_palette_with_a_transparent_color_is_refused(tmp_path):
    image = Image.fromarray(np.zeros((8, 9), np.uint8), "P")
    image.putpalette([1, 2, 3])
    image.save(tmp_path / "palette.png", transparency=0)

    with pytest.raises(ImageFileError, match="a transparent color key"):
        read_image(tmp_path / "palette.png")
