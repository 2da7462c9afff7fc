from __future__ import annotations

import io
import os
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image, ImageOps

from qmcif_engine.errors import ImageFileError, InvalidImageError
from qmcif_engine.io.input.image_file import ImageFile
from qmcif_engine.io.input.open import read_image
from qmcif_engine.io.limits import MAX_PIXELS

SHAPE = (13, 17)
JPEG_TOLERANCE = 12  # levels; smooth pictures at quality 95
ORIENTATION_TAG = 274


def smooth(n_channels: int, dtype: str) -> np.ndarray:
    """Ramps that use the whole range of the type, no two channels alike; values of the low byte vary too."""
    rows, columns = np.mgrid[: SHAPE[0], : SHAPE[1]]
    ramps = [rows / 12, columns / 16, (rows + columns) / 28, (rows + 16 - columns) / 28][:n_channels]
    planes = np.stack(ramps, axis=-1)
    top = np.iinfo(dtype).max if dtype.startswith("u") else 1.0
    return (planes * top).astype(dtype)


def png_chunk(kind: bytes, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(kind + payload))


def png_bytes(channels: np.ndarray, *, extra: bytes = b"", behind: bytes = b"", size: tuple[int, int] | None = None) -> bytes:
    """A PNG built by hand from its specification, so that reader and test do not share a codec."""
    height, width, n_channels = channels.shape
    color_type = {1: 0, 2: 4, 3: 2, 4: 6}[n_channels]
    claimed_height, claimed_width = size or (height, width)
    header = struct.pack(">IIBBBBB", claimed_width, claimed_height, channels.itemsize * 8, color_type, 0, 0, 0)
    rows = channels.astype(channels.dtype.newbyteorder(">")).reshape(height, -1)
    raw = b"".join(b"\0" + row.tobytes() for row in rows)
    picture = png_chunk(b"IDAT", zlib.compress(raw))
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + extra + picture + behind + png_chunk(b"IEND", b"")


def exif_bytes(orientation: int, *, order: str = "<", kind: int = 3) -> bytes:
    mark = b"II*\0" if order == "<" else b"MM\0*"
    other = struct.pack(order + "HHIHH", 256, 3, 1, 7, 0)
    entry = struct.pack(order + "HHIHH", ORIENTATION_TAG, kind, 1, orientation, 0)
    return mark + struct.pack(order + "IH", 8, 2) + other + entry + struct.pack(order + "I", 0)


def jpeg_bytes(image: np.ndarray, **options: object) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "JPEG", quality=95, subsampling=0, **options)
    return stream.getvalue()


def stored(folder: Path, content: bytes, name: str = "image.bin") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def tiff(folder: Path, array: np.ndarray, **options: object) -> Path:
    path = folder / "image.tif"
    tifffile.imwrite(path, array, **options)
    return path


def refusal(path: Path) -> str:
    """The message, known to be one line that begins with the file's name."""
    with pytest.raises(ImageFileError) as caught:
        read_image(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(repr(str(path)))
    return message


def assert_same(image: ImageFile, channels: np.ndarray) -> None:
    n_colors = 1 if channels.shape[2] < 3 else 3
    expected = channels[..., 0] if n_colors == 1 else channels[..., :3]
    assert image.samples.dtype == channels.dtype
    assert image.samples.flags.c_contiguous
    np.testing.assert_array_equal(image.samples, expected)
    if channels.shape[2] > n_colors:
        assert image.alpha is not None
        assert image.alpha.dtype == channels.dtype
        assert image.alpha.flags.c_contiguous
        np.testing.assert_array_equal(image.alpha, channels[..., n_colors])
    else:
        assert image.alpha is None


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("n_channels", [1, 2, 3, 4])
def test_png_of_every_depth_and_channel_count_is_read_exactly(tmp_path, dtype, n_channels):
    channels = smooth(n_channels, dtype)
    image = read_image(stored(tmp_path, png_bytes(channels)))
    assert_same(image, channels)
    assert image.significant_bits is None


def test_four_bit_png_is_spread_over_eight_bits(tmp_path):
    levels = np.arange(16, dtype=np.uint8).reshape(2, 8)
    packed = (levels[:, ::2] << 4 | levels[:, 1::2])[..., np.newaxis]
    content = bytearray(png_bytes(packed, size=(2, 8)))
    content[24] = 4  # bits per sample
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    assert_same(read_image(stored(tmp_path, bytes(content))), levels[..., np.newaxis] * 17)


@pytest.mark.parametrize("n_channels", [1, 3])
@pytest.mark.parametrize("progressive", [False, True])
def test_jpeg_is_read(tmp_path, n_channels, progressive):
    channels = smooth(n_channels, "uint8")
    content = jpeg_bytes(channels if n_channels == 3 else channels[..., 0], progressive=progressive)
    image = read_image(stored(tmp_path, content))
    assert image.alpha is None
    assert image.samples.dtype == np.uint8
    difference = image.samples.astype(int) - (channels if n_channels == 3 else channels[..., 0])
    assert np.abs(difference).max() <= JPEG_TOLERANCE


def test_first_picture_of_a_jpeg_with_more_behind_it_is_read(tmp_path):
    first = jpeg_bytes(smooth(3, "uint8"))
    alone = read_image(stored(tmp_path, first)).samples
    followed = read_image(stored(tmp_path, first + jpeg_bytes(np.zeros((5, 5, 3), np.uint8))[:-40])).samples
    np.testing.assert_array_equal(followed, alone)


@pytest.mark.parametrize(
    ("dtype", "n_channels", "planar", "byteorder"),
    [
        ("uint8", 1, "contig", "<"), ("uint8", 2, "separate", ">"), ("uint8", 4, "contig", ">"), ("uint16", 1, "separate", ">"),
        ("uint16", 3, "contig", "<"), ("uint16", 4, "separate", "<"), ("float32", 1, "contig", ">"), ("float32", 2, "contig", "<"),
        ("float32", 3, "separate", ">"), ("float64", 3, "contig", ">"), ("float64", 4, "separate", ">"), ("float64", 2, "separate", "<"),
    ],
)  # fmt: skip
def test_tiff_of_every_type_channel_count_and_layout_is_read_exactly(tmp_path, dtype, n_channels, planar, byteorder):
    channels = smooth(n_channels, dtype)
    array = np.moveaxis(channels, -1, 0) if planar == "separate" else channels
    path = tiff(
        tmp_path,
        array[..., 0] if n_channels == 1 and planar == "contig" else array,
        photometric="rgb" if n_channels > 2 else "minisblack",
        planarconfig=planar if n_channels > 1 else None,
        extrasamples=["unassalpha"] if n_channels in (2, 4) else None,
        byteorder=byteorder,
        metadata=None,
    )
    image = read_image(path)
    assert_same(image, channels)
    assert image.samples.dtype.isnative
    assert image.significant_bits is None


@pytest.mark.parametrize("compression", ["lzw", "zlib", "packbits", "zstd", "lzma"])
@pytest.mark.parametrize("layout", [{"rowsperstrip": 4}, {"tile": (16, 16)}])
def test_losslessly_compressed_tiff_is_read_exactly(tmp_path, compression, layout):
    channels = smooth(3, "uint16")
    assert_same(read_image(tiff(tmp_path, channels, photometric="rgb", compression=compression, **layout)), channels)


@pytest.mark.parametrize("stored_as", ["ycbcr", "rgb"])
def test_jpeg_compressed_tiff_is_read_as_pillow_reads_it(tmp_path, stored_as):
    options = {"level": 95, "outcolorspace": stored_as}
    path = tiff(tmp_path, smooth(3, "uint8"), photometric="rgb", compression="jpeg", compressionargs=options, subsampling=(1, 1))
    with Image.open(path) as picture:
        expected = np.asarray(picture.convert("RGB"))
    image = read_image(path)
    assert np.abs(image.samples.astype(int) - expected).max() <= 1
    assert np.abs(image.samples.astype(int) - smooth(3, "uint8")).max() <= JPEG_TOLERANCE


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_tiff_with_white_as_zero_is_inverted(tmp_path, dtype):
    channels = smooth(1, dtype)
    path = tiff(tmp_path, np.iinfo(dtype).max - channels[..., 0], photometric="miniswhite")
    assert_same(read_image(path), channels)


def test_only_gray_is_inverted_not_alpha(tmp_path):
    channels = smooth(2, "uint8")
    inverted = np.dstack([255 - channels[..., 0], channels[..., 1]])
    path = tiff(tmp_path, inverted, photometric="miniswhite", planarconfig="contig", extrasamples=["unassalpha"])
    assert_same(read_image(path), channels)


def test_smaller_copies_behind_the_first_page_are_left_alone(tmp_path):
    channels = smooth(3, "uint8")
    with tifffile.TiffWriter(tmp_path / "image.tif") as writer:
        writer.write(channels, photometric="rgb", metadata=None)
        writer.write(channels[::2, ::2], photometric="rgb", subfiletype=1, metadata=None)
    assert_same(read_image(tmp_path / "image.tif"), channels)


def test_kind_of_file_is_told_by_content_not_by_name(tmp_path):
    channels = smooth(3, "uint8")
    assert_same(read_image(stored(tmp_path, png_bytes(channels), "really_png.jpg")), channels)


def test_a_path_may_be_given_as_text(tmp_path):
    channels = smooth(3, "uint8")
    assert_same(read_image(str(stored(tmp_path, png_bytes(channels)))), channels)


@pytest.mark.parametrize(("claim", "expected"), [("12", 12), ("16", 16), ("0", None), ("17", None)])
def test_significant_bits_of_ome_tiff_are_kept_where_possible(tmp_path, claim, expected):
    description = (
        '<?xml version="1.0" encoding="UTF-8"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">'
        '<Image ID="Image:0"><Pixels ID="Pixels:0" SizeX="17" SizeY="13" SizeZ="1" SizeC="1" SizeT="1" DimensionOrder="XYZCT" '
        f'SignificantBits="{claim}" Type="uint16"/></Image></OME>'
    )
    path = tiff(tmp_path, smooth(1, "uint16")[..., 0] >> 4, description=description, metadata=None)
    assert read_image(path).significant_bits == expected


def test_significant_bits_contradicted_by_the_samples_are_dropped(tmp_path):
    sizes = 'SizeX="17" SizeY="13" SizeZ="1" SizeC="1" SizeT="1" DimensionOrder="XYZCT"'
    description = f'<OME><Image ID="Image:0"><Pixels ID="Pixels:0" {sizes} Type="uint16" SignificantBits="12"/></Image></OME>'
    path = tiff(tmp_path, np.full(SHAPE, 4096, np.uint16), description=description, metadata=None)
    assert read_image(path).significant_bits is None


def test_packed_twelve_bit_tiff_says_twelve_bits(tmp_path):
    samples = smooth(1, "uint16")[:, :16, 0] >> 4
    packed = bytearray()
    for left, right in samples.reshape(-1, 2).tolist():
        packed += bytes([left >> 4, (left & 15) << 4 | right >> 8, right & 255])
    path = tiff(tmp_path, np.frombuffer(packed, np.uint8).reshape(13, 24), metadata=None)
    with tifffile.TiffFile(path, mode="r+b") as file:
        file.pages.first.tags["BitsPerSample"].overwrite(12)
        file.pages.first.tags["ImageWidth"].overwrite(16)
    image = read_image(path)
    assert image.samples.dtype == np.uint16
    np.testing.assert_array_equal(image.samples, samples)
    assert image.significant_bits == 12


@pytest.mark.parametrize(("orientation", "order"), [(number, "<>"[number % 2]) for number in range(1, 9)])
def test_png_is_turned_as_pillow_turns_it_in_every_orientation(tmp_path, orientation, order):
    content = png_bytes(smooth(4, "uint8"), extra=png_chunk(b"eXIf", exif_bytes(orientation, order=order)))
    with Image.open(io.BytesIO(content)) as picture:
        expected = np.asarray(ImageOps.exif_transpose(picture))
    assert_same(read_image(stored(tmp_path, content)), expected)


def test_orientation_stored_behind_the_picture_is_applied(tmp_path):
    channels = smooth(3, "uint16")
    content = png_bytes(channels, behind=png_chunk(b"eXIf", exif_bytes(6)))
    assert_same(read_image(stored(tmp_path, content)), np.rot90(channels, -1))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_jpeg_is_turned_as_pillow_turns_it_in_every_orientation(tmp_path, orientation):
    content = jpeg_bytes(smooth(3, "uint8"), exif=b"Exif\0\0" + exif_bytes(orientation))
    with Image.open(io.BytesIO(content)) as picture:
        expected = np.asarray(ImageOps.exif_transpose(picture))
    image = read_image(stored(tmp_path, content))
    assert image.samples.shape == expected.shape
    assert np.abs(image.samples.astype(int) - expected).max() <= 1


def test_first_of_several_orientations_counts(tmp_path):
    content = jpeg_bytes(smooth(3, "uint8"), exif=b"Exif\0\0" + exif_bytes(6))
    block = b"Exif\0\0" + exif_bytes(1)
    end_of_first = content.index(b"\xff\xdb")
    doubled = content[:end_of_first] + b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block + content[end_of_first:]
    np.testing.assert_array_equal(read_image(stored(tmp_path, doubled)).samples, read_image(stored(tmp_path, content)).samples)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_tiff_orientation_tag_turns_samples_and_alpha(tmp_path, orientation):
    channels = smooth(4, "uint16")
    path = tiff(tmp_path, channels, photometric="rgb", extrasamples=["unassalpha"], extratags=[(ORIENTATION_TAG, 3, 1, orientation, True)])
    with_exif = stored(tmp_path, png_bytes(channels, extra=png_chunk(b"eXIf", exif_bytes(orientation))))
    expected = read_image(with_exif)
    image = read_image(path)
    np.testing.assert_array_equal(image.samples, expected.samples)
    np.testing.assert_array_equal(image.alpha, expected.alpha)


@pytest.mark.parametrize(
    "exif",
    [
        b"",
        b"II*\0",
        b"XX*\0" + exif_bytes(6)[4:],
        exif_bytes(9),
        exif_bytes(0),
        exif_bytes(6)[:30],
        b"II*\0\xff\xff\xff\xff\x01\x00",
    ],
)
def test_damaged_or_senseless_orientation_leaves_the_picture_as_stored(tmp_path, exif):
    channels = smooth(3, "uint8")
    assert_same(read_image(stored(tmp_path, png_bytes(channels, extra=png_chunk(b"eXIf", exif)))), channels)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none.png", "cannot be read (No such file or directory); a readable image file is needed; check its name"),
        (".", "is a folder; an image file is needed; pass a PNG, JPEG or TIFF file"),
        ("pipe", "is a pipe, socket or device; an image file is needed"),
        ("empty\nfile.png", "is empty; a PNG, JPEG or TIFF file is needed; convert the image to one of these"),
        ("other.gif", r"begins with b'GIF89a\x00\x00'; a PNG, JPEG or TIFF file is needed"),
    ],
)
def test_what_is_no_image_file_is_refused(tmp_path, name, words):
    os.mkfifo(tmp_path / "pipe")
    stored(tmp_path, b"", "empty\nfile.png")
    stored(tmp_path, b"GIF89a" + bytes(20), "other.gif")
    assert words in refusal(tmp_path / name)


def test_unreadable_file_is_refused(tmp_path, monkeypatch):
    path = stored(tmp_path, png_bytes(smooth(3, "uint8")))

    def deny(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", deny)
    assert "cannot be read (Permission denied)" in refusal(path)


def test_impossible_name_is_refused():
    with pytest.raises(ImageFileError, match=r"is not a possible file name \(.*embedded null .*; the name of an image file is needed"):
        read_image("a\0b.png")


def test_file_that_does_not_fit_into_memory_is_refused(tmp_path, monkeypatch):
    path = stored(tmp_path, png_bytes(smooth(3, "uint8")))

    def fail(*_args):
        raise MemoryError

    monkeypatch.setattr("qmcif_engine.io.pictures.imagecodecs.png_decode", fail)
    assert "does not fit into memory; more memory or a smaller image is needed; crop or reduce it first" in refusal(path)


def every_format(folder: Path) -> dict[str, bytes]:
    channels = smooth(3, "uint8")
    contents = {
        "png": png_bytes(channels),
        "png16": png_bytes(smooth(3, "uint16")),
        "jpeg": jpeg_bytes(channels),
        "progressive": jpeg_bytes(channels, progressive=True),
    }
    for compression in ("none", "lzw", "zlib", "packbits", "jpeg"):
        path = tiff(folder, channels, photometric="rgb", compression=compression, rowsperstrip=5, metadata=None)
        contents["tiff " + compression] = path.read_bytes()
    return contents


def test_every_truncation_of_every_format_is_refused(tmp_path):
    for content in every_format(tmp_path).values():
        ends = {1, 2, 4, 9, 12, 13, 40, len(content) // 2} | {len(content) - cut for cut in (1, 2, 4, 12, 13, 20, 60)}
        for end in ends:
            refusal(stored(tmp_path, content[:end]))


def test_truncated_files_say_what_is_wrong_and_what_to_do(tmp_path):
    contents = every_format(tmp_path)
    for kind in ("png", "jpeg"):
        message = refusal(stored(tmp_path, contents[kind][:-2]))
        assert "is truncated or corrupt (the end of the file is missing); a complete file is needed; copy or export it again" in message


def test_damaged_bytes_never_raise_anything_else(tmp_path):
    generator = np.random.default_rng(7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for content in every_format(tmp_path).values():
            for _ in range(40):
                damaged = bytearray(content)
                for position in generator.integers(8, len(content), 3):
                    damaged[position] = generator.integers(256)
                path = stored(tmp_path, bytes(damaged))
                try:
                    read_image(path)
                except (ImageFileError, InvalidImageError) as error:
                    assert "\n" not in str(error)  # noqa: PT017 - most damage is found, damage of bare samples cannot be


def test_corrupt_samples_of_a_png_are_refused(tmp_path):
    content = bytearray(png_bytes(smooth(3, "uint8")))
    content[len(content) // 2] ^= 0xFF
    assert "is truncated or corrupt (PngError: " in refusal(stored(tmp_path, bytes(content)))


def test_png_without_header_chunk_is_refused(tmp_path):
    assert "no PNG header" in refusal(stored(tmp_path, b"\x89PNG\r\n\x1a\n" + png_chunk(b"IDAT", bytes(20))))


def patched_header(position: int, value: int) -> bytes:
    content = bytearray(png_bytes(smooth(3, "uint8")))
    content[position] = value
    return bytes(content)


def test_png_kinds_that_cannot_be_kept_are_refused_by_name(tmp_path):
    assert "color type 5 does not exist" in refusal(stored(tmp_path, patched_header(25, 5)))
    assert "holds bilevel (1-bit) samples; 8 or 16 bits per sample is needed" in refusal(stored(tmp_path, patched_header(24, 1)))
    channels = smooth(3, "uint8")
    animated = png_bytes(channels, extra=png_chunk(b"acTL", bytes(8)))
    assert "holds an animation; one image a file is needed" in refusal(stored(tmp_path, animated))
    keyed = png_bytes(channels, extra=png_chunk(b"tRNS", bytes(6)))
    assert "holds a transparent color key; a full alpha channel or none is needed" in refusal(stored(tmp_path, keyed))


def test_png_whose_samples_are_not_what_its_header_claims_is_refused(tmp_path, monkeypatch):
    path = stored(tmp_path, png_bytes(smooth(3, "uint8")))
    monkeypatch.setattr("qmcif_engine.io.pictures.imagecodecs.png_decode", lambda _: np.zeros((2, 2), np.uint8))
    assert "header claims (13, 17, 3) uint8, samples are (2, 2, 1) uint8" in refusal(path)


def test_jpeg_far_larger_than_its_picture_is_not_read_into_memory(tmp_path):
    content = jpeg_bytes(smooth(3, "uint8"))
    path = stored(tmp_path, content)
    expected = read_image(path).samples
    os.truncate(path, 2**40)  # sparse: takes no room on the disk
    np.testing.assert_array_equal(read_image(path).samples, expected)


def test_more_pixels_than_the_ceiling_are_refused_before_memory_is_taken(tmp_path):
    png = png_bytes(smooth(3, "uint8"), size=(2**16, 2**15))
    jpeg = jpeg_with_size(65000, 65000)
    expected = f"pixels according to its header; an image of at most {MAX_PIXELS} pixels (MAX_PIXELS) is needed; crop or reduce it first"
    for path in (stored(tmp_path, png, "png"), stored(tmp_path, jpeg, "jpeg")):
        assert expected in refusal(path)


def jpeg_with_size(height: int, width: int) -> bytes:
    content = bytearray(jpeg_bytes(smooth(3, "uint8")))
    frame = content.index(b"\xff\xc0")
    content[frame + 5 : frame + 9] = struct.pack(">HH", height, width)
    return bytes(content)


def test_size_that_cannot_come_from_so_few_bytes_is_refused(tmp_path):
    png = png_bytes(smooth(3, "uint8"), size=(20000, 20000))
    for content in (png, jpeg_with_size(20000, 20000)):
        message = refusal(stored(tmp_path, content))
        assert f"its header claims 20000 x 20000 pixels, which cannot come from {len(content)} bytes" in message


@pytest.mark.parametrize("size", [(0, 17), (13, 0)])
def test_empty_pictures_are_refused(tmp_path, size):
    expected = f"its header claims {size[1]} x {size[0]} pixels"
    assert expected in refusal(stored(tmp_path, png_bytes(smooth(3, "uint8"), size=size)))
    assert expected in refusal(stored(tmp_path, jpeg_with_size(*size)))


@pytest.mark.parametrize("mode", ["CMYK", "YCCK"])
def test_four_channel_jpeg_is_refused_by_name(tmp_path, mode):
    stream = io.BytesIO()
    Image.fromarray(smooth(3, "uint8")).convert("CMYK").save(stream, "JPEG")
    content = stream.getvalue()
    if mode == "YCCK":
        content = content.replace(b"Adobe\0d\0\0\0\0\0", b"Adobe\0d\0\0\0\0\2")
    assert "holds CMYK or YCCK colors; gray or RGB is needed; convert the image to RGB" in refusal(stored(tmp_path, content))


def patched_frame(offset: int, value: int) -> bytes:
    content = bytearray(jpeg_bytes(smooth(3, "uint8")))
    content[content.index(b"\xff\xc0") + offset] = value
    return bytes(content)


def test_unusual_jpeg_frames_are_refused_by_name(tmp_path):
    assert "holds 12-bit JPEG samples; 8-bit JPEG is needed; save the image as PNG" in refusal(stored(tmp_path, patched_frame(4, 12)))
    assert "holds 2 color channels; gray or RGB is needed" in refusal(stored(tmp_path, patched_frame(9, 2)))


def test_damaged_jpeg_headers_are_refused(tmp_path):
    assert "the file ends inside its header" in refusal(stored(tmp_path, b"\xff\xd8\xff\xe0\x00\x10JFIF"))
    assert "the file ends inside its header" in refusal(stored(tmp_path, b"\xff\xd8\xff\xe0\x00\x01" + bytes(20)))
    assert "the file ends inside its header" in refusal(stored(tmp_path, b"\xff\xd8\xff\xff\xff"))
    assert "a marker of its header is missing" in refusal(stored(tmp_path, b"\xff\xd8\xff\xe0\x00\x02abcd"))
    endless = b"\xff\xd8" + b"\xff\xfe\x00\x02" * 5000
    assert "no image behind 4096 segments" in refusal(stored(tmp_path, endless))


def test_markers_without_length_and_filling_are_skipped(tmp_path):
    content = jpeg_bytes(smooth(3, "uint8"))
    padded = content[:2] + b"\xff\x01\xff\xd0" + b"\xff\xff" + content[2:]
    np.testing.assert_array_equal(read_image(stored(tmp_path, padded)).samples, read_image(stored(tmp_path, content)).samples)


def test_tiff_with_several_images_is_refused(tmp_path):
    pages = np.stack([smooth(1, "uint8")[..., 0]] * 3)
    expected = "holds more than one image; one image a file is needed; open it as a stack with open_stack"
    assert expected in refusal(tiff(tmp_path, pages, photometric="minisblack"))
    volume = tiff(tmp_path, pages, photometric="minisblack", volumetric=True, tile=(16, 16, 16))
    assert "holds volumes or images stored in pieces; one page per image is needed" in refusal(volume)
    virtual = tiff(tmp_path, pages[0], description="ImageJ=1.53t\nimages=3\nslices=3\n", metadata=None)
    assert "it is shorter than ImageJ's description of it" in refusal(virtual)


def test_single_image_from_imagej_is_read(tmp_path):
    channels = smooth(1, "uint16")
    assert_same(read_image(tiff(tmp_path, channels[..., 0], imagej=True)), channels)


@pytest.mark.parametrize(("photometric", "kind"), [("separated", "CMYK"), ("cielab", "Lab"), ("cfa", "CFA"), ("ycbcr", "YCBCR")])
def test_tiff_colors_that_cannot_be_kept_are_refused_by_name(tmp_path, photometric, kind):
    n_channels = {"separated": 4, "cfa": 1}.get(photometric, 3)
    path = tiff(
        tmp_path,
        smooth(3, "uint8") if n_channels == 3 else smooth(n_channels, "uint8").squeeze(),
        photometric="minisblack",
        planarconfig="contig" if n_channels > 1 else None,
    )
    with tifffile.TiffFile(path, mode="r+b") as file:
        file.pages.first.tags["PhotometricInterpretation"].overwrite(int(tifffile.PHOTOMETRIC[photometric.upper()]))
    assert f"holds {kind} colors; gray or RGB is needed; convert the image to RGB and save it again" in refusal(path)


@pytest.mark.parametrize(("photometric", "n_channels"), [("minisblack", 4), ("rgb", 5)])
def test_tiff_with_more_channels_than_color_and_alpha_is_refused(tmp_path, photometric, n_channels):
    array = np.zeros((*SHAPE, n_channels), np.uint8)
    path = tiff(tmp_path, array, photometric=photometric, planarconfig="contig")
    message = refusal(path)
    marked = " marked RGB" if photometric == "rgb" else ""
    assert f"holds {n_channels} channels{marked}; gray or RGB, with at most one alpha channel is needed" in message


def test_tiff_with_fewer_channels_than_its_colors_is_refused(tmp_path):
    path = tiff(tmp_path, smooth(1, "uint8")[..., 0])
    with tifffile.TiffFile(path, mode="r+b") as file:
        file.pages.first.tags["PhotometricInterpretation"].overwrite(2)
    assert "holds 1 channels marked RGB" in refusal(path)


@pytest.mark.parametrize(
    ("extrasample", "kind"), [("assocalpha", "alpha multiplied into the colors"), ("unspecified", "an extra channel of unstated meaning")]
)
def test_tiff_extra_channel_that_is_not_plain_alpha_is_refused_by_name(tmp_path, extrasample, kind):
    path = tiff(tmp_path, smooth(4, "uint8"), photometric="rgb", extrasamples=[extrasample])
    assert f"holds {kind}; unassociated alpha or none is needed; save the image without it" in refusal(path)


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        ("int32", "32-bit signed integer"),
        ("uint64", "64-bit unsigned integer"),
        ("float16", "16-bit float"),
        ("complex64", "64-bit complex or undefined"),
    ],
)
def test_tiff_sample_types_that_cannot_be_kept_are_refused_by_name(tmp_path, dtype, kind):
    path = tiff(tmp_path, np.ones(SHAPE, dtype), photometric="minisblack")
    assert f"holds {kind} samples; one of uint8, uint16, float32, float64, int8, int16, uint32, bool is needed; convert" in refusal(path)


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint32", "bool"])
@pytest.mark.parametrize("options", [{}, {"compression": "zlib"}, {"tile": (16, 16), "compression": "zlib"}, {"byteorder": ">"}])
def test_tiff_of_signed_long_and_single_bits_is_read_as_it_is(tmp_path, dtype, options):
    samples = np.random.default_rng(5).integers(0, 2**32, SHAPE, np.uint32)
    samples = samples > 2**31 if dtype == "bool" else samples.astype(dtype)
    image = read_image(tiff(tmp_path, samples, photometric="minisblack", **options))
    np.testing.assert_array_equal(image.samples, samples)
    assert image.samples.dtype == dtype
    assert image.significant_bits == (1 if dtype == "bool" else None)


@pytest.mark.parametrize("dtype", ["uint32", "bool"])
def test_white_as_zero_is_inverted_in_long_and_single_bits(tmp_path, dtype):
    samples = np.random.default_rng(5).integers(0, 2, SHAPE).astype(dtype)
    largest = 1 if dtype == "bool" else 2**32 - 1
    image = read_image(tiff(tmp_path, samples, photometric="miniswhite"))
    np.testing.assert_array_equal(image.samples, (largest - samples.astype(np.int64)).astype(dtype))


def test_tiff_whose_channels_differ_in_bits_is_refused(tmp_path):
    path = tiff(tmp_path, smooth(3, "uint8"), photometric="rgb")
    with tifffile.TiffFile(path, mode="r+b") as file:
        file.pages.first.tags["BitsPerSample"].overwrite((5, 6, 5))
    assert "-bit unsigned integer samples; one of uint8, uint16, float32, float64, int8, int16, uint32, bool is needed" in refusal(path)


@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_floats_and_signed_samples_with_white_as_zero_are_refused(tmp_path, dtype):
    path = tiff(tmp_path, smooth(1, "uint8")[..., 0].astype(dtype), photometric="miniswhite")
    assert "holds inverted (white is zero) floats or signed integers; black as zero is needed; invert the image" in refusal(path)


def test_tiff_compression_without_known_bounds_is_refused_by_name(tmp_path):
    path = tiff(tmp_path, smooth(3, "uint8"), photometric="rgb", compression="png")
    assert "holds PNG compressed samples; no, LZW, Deflate, ZSTD, LZMA, PackBits, JPEG or JPEG 2000 compression is needed" in refusal(path)


def with_tag(folder: Path, name: str, value: object, **options: object) -> Path:
    path = tiff(folder, smooth(1, "uint8")[..., 0], metadata=None, **options)
    with tifffile.TiffFile(path, mode="r+b") as file:
        file.pages.first.tags[name].overwrite(value)
    return path


def test_tiff_with_missing_samples_is_refused_instead_of_filled_with_zeros(tmp_path):
    missing = "a strip or tile is missing or lies behind the end of the file"
    strips = {"rowsperstrip": 5, "compression": "zlib"}
    with tifffile.TiffFile(tiff(tmp_path, smooth(1, "uint8")[..., 0], metadata=None, **strips)) as file:
        counts = file.pages.first.databytecounts
    assert missing in refusal(with_tag(tmp_path, "StripByteCounts", (counts[0], 0, counts[2]), **strips))
    assert missing in refusal(with_tag(tmp_path, "StripByteCounts", (counts[0], counts[1], 60000), **strips))
    assert missing in refusal(with_tag(tmp_path, "StripOffsets", (0, 0, 0), **strips))
    assert "3 strips or tiles where 13 are needed" in refusal(with_tag(tmp_path, "RowsPerStrip", 1, **strips))
    assert "120 bytes in a strip or tile where 221 are needed" in refusal(with_tag(tmp_path, "StripByteCounts", 120))


def test_tiff_strip_that_decodes_to_too_little_is_refused(tmp_path):
    path = with_tag(tmp_path, "ImageLength", 60, compression="zlib", rowsperstrip=100)
    assert "is truncated or corrupt (" in refusal(path)


def test_tiff_with_enormous_tiles_is_refused(tmp_path):
    path = with_tag(tmp_path, "TileWidth", 2**31, tile=(16, 16), compression="zlib")
    assert "tiles of 2147483648 x 16 pixels" in refusal(path)
