from __future__ import annotations

import os
import pickle
import shutil
import struct
from types import SimpleNamespace

import numpy as np
import pytest
import tifffile

from qmcif_engine.errors import ImageFileError, OutputError
from qmcif_engine.io.input import segments
from qmcif_engine.io.input.open import open_stack, read_image
from qmcif_engine.io.tiff import tiff_pages
from qmcif_engine.stack.window import Window

SHAPE = (67, 83)
WINDOWS = [Window(0, 0, 67, 83), Window(10, 20, 40, 70), Window(66, 82, 67, 83), Window(15, 15, 17, 17), Window(5, 5, 5, 5)]
LAYOUTS = [{"rowsperstrip": 67}, {"rowsperstrip": 7}, {"rowsperstrip": 1}, {"tile": (16, 32)}, {"tile": (128, 128)}]
ORIENTATION_TAG = 274


def noise(dtype: str, *shape: int) -> np.ndarray:
    samples = np.random.default_rng(len(dtype) + len(shape)).random(shape) * 250
    return samples.astype(dtype)


def written(folder, stack, name="stack.tif", **options):
    """A file of one page per image, without any description."""
    path = folder / name
    with tifffile.TiffWriter(path, **{key: options.pop(key) for key in ("bigtiff", "byteorder") if key in options}) as writer:
        for image in stack:
            writer.write(image, contiguous=False, **{"photometric": "minisblack", "metadata": None} | options)
    return path


def assert_windows(path, stack):
    with open_stack(path) as opened:
        assert opened.dtype == stack.dtype
        assert opened.dtype.isnative
        for number in range(len(stack)):
            for window in WINDOWS:
                samples = opened.read(number, window)
                assert samples.dtype == stack.dtype
                np.testing.assert_array_equal(samples, stack[number][window.slices])


PLAIN = [
    (dtype, None, layout | {"byteorder": "<>"[(number + place) % 2]})
    for number, dtype in enumerate(("uint8", "uint16", "float32", "float64"))
    for place, layout in enumerate(LAYOUTS)
]
COLORS = [
    ("uint16", planar, layout | {"compression": (None, "zlib")[(number + place) % 2]})
    for number, planar in enumerate(("contig", "separate"))
    for place, layout in enumerate(LAYOUTS)
]
PACKED = [
    ("uint16", None, layout | {"compression": compression, "predictor": predictor})
    for layout in LAYOUTS[1:4:2]
    for compression, predictor in (("lzw", False), ("lzw", True), ("zlib", True), ("packbits", False), ("zstd", True), ("jpeg2000", False))
]
BIG = [("uint16", None, {"bigtiff": True, "rowsperstrip": 7}), ("uint16", None, {"bigtiff": True, "tile": (16, 32), "compression": "lzma"})]


@pytest.mark.parametrize(("dtype", "planar", "options"), PLAIN + COLORS + PACKED + BIG)
def test_windows_of_every_layout_type_and_compression_are_those_of_the_image(tmp_path, dtype, planar, options):
    stack = noise(dtype, 2, *SHAPE, *([] if planar is None else [3]))
    if planar is not None:
        options = options | {"photometric": "rgb", "planarconfig": planar}
    assert_windows(written(tmp_path, np.moveaxis(stack, -1, 1) if planar == "separate" else stack, **options), stack)


def test_windows_of_jpeg_tiles_are_those_of_the_whole_page(tmp_path):
    path = written(tmp_path, noise("uint8", 2, *SHAPE, 3), photometric="rgb", compression="jpeg", tile=(32, 32))
    with tifffile.TiffFile(path) as file:
        whole = np.stack([page.asarray() for page in file.pages])
    assert_windows(path, whole)


def test_white_as_zero_is_inverted_in_windows_too(tmp_path):
    stack = noise("uint8", 2, *SHAPE)
    assert_windows(written(tmp_path, 255 - stack, photometric="miniswhite", rowsperstrip=7), stack)


def test_alpha_is_set_apart(tmp_path):
    stack = noise("uint8", 2, *SHAPE, 4)
    path = written(tmp_path, stack, photometric="rgb", extrasamples=["unassalpha"], tile=(16, 16))
    assert_windows(path, stack[..., :3])
    alpha = open_stack(path).alpha
    assert alpha is not None
    np.testing.assert_array_equal(alpha.read(1, WINDOWS[1]), stack[1, ..., 3][WINDOWS[1].slices])


def test_twelve_bit_samples_are_unpacked_in_windows(tmp_path):
    samples = np.random.default_rng(0).integers(0, 4096, (2, 20, 16)).astype(np.uint16)
    pairs = samples.reshape(2, 20, 8, 2)
    left, right = pairs[..., 0], pairs[..., 1]
    packed = np.stack([left >> 4, (left & 15) << 4 | right >> 8, right & 255], axis=-1).reshape(2, 20, 24).astype(np.uint8)
    path = written(tmp_path, packed, rowsperstrip=4)
    with tifffile.TiffFile(path, mode="r+b") as file:
        for page in file.pages:
            page.tags["BitsPerSample"].overwrite(12)
            page.tags["ImageWidth"].overwrite(16)
    opened = open_stack(path)
    assert opened.metadata.significant_bits == 12
    np.testing.assert_array_equal(opened.read(1, Window(3, 5, 9, 11)), samples[1, 3:9, 5:11])


@pytest.fixture
def decoded_segments(monkeypatch):
    """The places of all strips and tiles that are decoded from now on."""
    places = []
    lay_out = tiff_pages.lay_out_page

    def counting(page, path):
        plane = lay_out(page, path)

        def decode(encoded, index):
            places.append((plane.number, index))
            return plane.decode(encoded, index)

        return tiff_pages.replace(plane, decode=decode)

    monkeypatch.setattr("qmcif_engine.io.tiff.tiff_source.lay_out_page", counting)
    return places


def test_opening_decodes_nothing(tmp_path, decoded_segments):
    opened = open_stack(written(tmp_path, noise("uint8", 3, *SHAPE), compression="zlib", tile=(16, 16)))
    assert opened.image_shape == SHAPE
    assert decoded_segments == []


def test_only_tiles_that_a_window_touches_are_decoded(tmp_path, decoded_segments):
    opened = open_stack(written(tmp_path, noise("uint8", 2, *SHAPE), compression="zlib", tile=(16, 16)))
    opened.read(0, Window(15, 16, 33, 32))
    assert sorted(index for _, index in decoded_segments) == [1, 7, 13]  # six tiles a row


def test_neighboring_windows_decode_a_full_width_strip_once(tmp_path, decoded_segments):
    opened = open_stack(written(tmp_path, noise("uint8", 2, *SHAPE), compression="zlib", rowsperstrip=20))
    for left in range(0, 80, 10):
        opened.read(1, Window(0, left, 40, left + 10))
    assert sorted(index for _, index in decoded_segments) == [0, 1]


def test_a_small_cache_bounds_what_is_held(tmp_path, decoded_segments):
    path = written(tmp_path, noise("uint8", 2, *SHAPE), compression="zlib", rowsperstrip=20)
    opened = open_stack(path, cache_bytes=0)
    for _ in range(3):
        opened.read(1, Window(0, 0, 10, 10))
    assert len(decoded_segments) == 3


def test_a_stack_that_will_be_read_as_a_whole_is_decoded_once_where_it_fits_into_memory(tmp_path, decoded_segments):
    stack = noise("uint8", 2, *SHAPE)
    path = written(tmp_path, stack, compression="zlib", rowsperstrip=20)
    opened = open_stack(path, cache_bytes=0, memory_bytes=stack.nbytes)
    opened.expect_all()
    for _ in range(3):
        for number in range(2):
            np.testing.assert_array_equal(opened.read(number, Window(5, 3, 30, 40)), stack[number, 5:30, 3:40])

    assert len(decoded_segments) == len(set(decoded_segments))
    assert opened.scratch_bytes == 0
    copy = pickle.loads(pickle.dumps(opened))  # in another process, which sees some windows only
    decoded_segments.clear()
    copy.read(0, Window(0, 0, 10, 10))
    assert len(decoded_segments) == 1


@pytest.mark.parametrize("layout", [{"rowsperstrip": 20}, {"tile": (16, 32)}])
def test_a_stack_that_does_not_fit_into_memory_is_decoded_once_into_the_scratch_folder(tmp_path, decoded_segments, layout):
    stack = noise("uint8", 2, *SHAPE)
    path = written(tmp_path, stack, compression="zlib", **layout)
    with open_stack(path, cache_bytes=2**16, memory_bytes=stack.nbytes - 1, scratch_folder=tmp_path) as opened:
        assert opened.scratch_bytes == stack.nbytes
        opened.expect_all()
        for window in WINDOWS:
            np.testing.assert_array_equal(opened.read(1, window), stack[1][window.slices])
        assert len(decoded_segments) == len(set(decoded_segments)) > 1
        assert len(list(tmp_path.glob("*/*.npy"))) == 1
        decoded_segments.clear()
        copy = pickle.loads(pickle.dumps(opened))  # in another process, which finds what is decoded and adds to it
        np.testing.assert_array_equal(copy.read(1, WINDOWS[1]), stack[1][WINDOWS[1].slices])
        assert not decoded_segments
        np.testing.assert_array_equal(copy.read(0, WINDOWS[1]), stack[0][WINDOWS[1].slices])
        assert len(list(tmp_path.glob("*/*.npy"))) == 2
        sent = pickle.dumps(opened)
    distant = pickle.loads(sent)  # where the folder is not seen, as on another machine
    decoded_segments.clear()
    np.testing.assert_array_equal(distant.read(0, Window(0, 0, 10, 10)), stack[0, :10, :10])
    assert len(decoded_segments) == 1
    assert not list(tmp_path.glob("*/*.npy"))


@pytest.mark.parametrize("obstacle", ["full disk", "large page"])
def test_a_stack_for_which_there_is_no_room_is_read_by_window_whatever_will_be_read(tmp_path, decoded_segments, monkeypatch, obstacle):
    if obstacle == "full disk":
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=0))
    else:
        monkeypatch.setattr(segments, "LARGEST_COPY_PIXELS", SHAPE[0] * SHAPE[1] - 1)
    stack = noise("uint8", 2, *SHAPE)
    opened = open_stack(written(tmp_path, stack, compression="zlib", rowsperstrip=20), cache_bytes=0, memory_bytes=stack.nbytes - 1)
    opened.expect_all()
    for _ in range(3):
        opened.read(1, Window(0, 0, 10, 10))

    assert len(decoded_segments) == 3


def test_a_scratch_folder_that_is_missing_is_told_before_anything_is_read(tmp_path):
    path = written(tmp_path, noise("uint8", 2, *SHAPE), compression="zlib")
    opened = open_stack(path, memory_bytes=0, scratch_folder=tmp_path / "none")
    with pytest.raises(OutputError, match="decoded images cannot be stored in"):
        opened.expect_all()


@pytest.mark.parametrize(("read_through_bytes", "expected"), [(579, [10 * 2] * 10), (580, [9 * 300 * 2 + 10 * 2])])
def test_uncompressed_strips_are_read_by_parts_of_rows_unless_these_are_near(tmp_path, monkeypatch, read_through_bytes, expected):
    monkeypatch.setattr(segments.OpenFile, "read_through_bytes", read_through_bytes)
    stack = noise("uint16", 2, 200, 300)
    opened = open_stack(written(tmp_path, stack, rowsperstrip=200))
    read, n_read = segments.OpenFile.read, []
    monkeypatch.setattr(segments.OpenFile, "read", lambda file, start, n_bytes: n_read.append(n_bytes) or read(file, start, n_bytes))
    np.testing.assert_array_equal(opened.read(0, Window(100, 10, 110, 20)), stack[0, 100:110, 10:20])
    assert n_read == expected


def test_a_page_with_a_very_large_compressed_strip_is_decoded_once_into_the_scratch_store(tmp_path, monkeypatch, decoded_segments):
    monkeypatch.setattr(tiff_pages, "LARGEST_SEGMENT_BYTES", 1000)
    stack = noise("uint8", 2, *SHAPE)
    with open_stack(written(tmp_path, stack, compression="zlib", rowsperstrip=67), memory_bytes=0) as opened:
        assert opened.scratch_bytes == stack.nbytes
        for window in WINDOWS:
            np.testing.assert_array_equal(opened.read(1, window), stack[1][window.slices])
    assert decoded_segments == [(1, 0)]


@pytest.mark.parametrize("orientation", range(2, 9))
def test_turned_pages_are_read_upright_by_window(tmp_path, orientation):
    stack = noise("uint16", 2, *SHAPE, 3)
    path = written(tmp_path, stack, photometric="rgb", extratags=[(ORIENTATION_TAG, 3, 1, orientation, True)])
    single = written(tmp_path, stack[1:], "single.tif", photometric="rgb", extratags=[(ORIENTATION_TAG, 3, 1, orientation, True)])
    expected = read_image(single).samples
    opened = open_stack(path)
    assert opened.image_shape == expected.shape
    np.testing.assert_array_equal(opened.read(1, Window(3, 4, 30, 40)), expected[3:30, 4:40])


def corrupt_segment(path, page, index):
    """Overwrite the middle of one strip or tile."""
    with tifffile.TiffFile(path) as file:
        start, count = file.pages[page].dataoffsets[index], file.pages[page].databytecounts[index]
    with path.open("r+b") as stream:
        stream.seek(start)
        stream.write(b"\xff" * count)


@pytest.mark.parametrize("compression", ["zlib", "lzw", "zstd", "lzma", "jpeg"])
def test_corrupt_tile_is_refused_with_its_place_and_the_others_are_read(tmp_path, compression):
    path = written(tmp_path, noise("uint8", 2, *SHAPE), compression=compression, tile=(16, 16))
    corrupt_segment(path, 1, 8)  # second row of six tiles, third column
    opened = open_stack(path)
    opened.read(0, WINDOWS[0])
    opened.read(1, Window(0, 0, 16, 83))
    with pytest.raises(ImageFileError, match=r"^'.*stack.tif' is truncated or corrupt") as caught:
        opened.read(1, WINDOWS[0])
    if compression != "jpeg":
        assert "the strip or tile at row 16, column 32 of image 2: " in str(caught.value)


@pytest.mark.parametrize(
    ("compression", "mark", "place", "size", "reason"),
    [
        ("jpeg", b"\xff\xc0", 5, struct.pack(">HH", 65500, 65500), "row 0, column 0 of image 1 claims 65500 x 65500 pixels of 1 channels"),
        ("jpeg2000", b"\xff\x4f\xff\x51", 8, struct.pack(">II", 2**20, 2**20), "claims 1048576 x 1048576 pixels of 1 channels"),
        ("jpeg", b"\xff\xd9", 0, b"\0", "the end of the strip or tile at row 0, column 0 of image 1 is missing"),
    ],
)
def test_tile_that_claims_to_be_enormous_or_has_no_end_is_refused_before_it_is_decoded(tmp_path, compression, mark, place, size, reason):
    path = written(tmp_path, noise("uint8", 2, *SHAPE), compression=compression, tile=(128, 128))
    content = bytearray(path.read_bytes())
    start = content.index(mark) + place
    content[start : start + len(size)] = size
    path.write_bytes(content)
    with pytest.raises(ImageFileError, match=reason):
        open_stack(path).read(0, WINDOWS[1])


def test_tile_of_another_sample_type_is_refused(tmp_path):
    wide = written(tmp_path, noise("uint16", 2, *SHAPE), "wide.tif", compression="jpeg2000", tile=(128, 128))
    with tifffile.TiffFile(wide, mode="r+b") as file:
        for page in file.pages:
            page.tags["BitsPerSample"].overwrite(8)
    with pytest.raises(ImageFileError, match="the strip or tile at row 0, column 0 of image 1 holds 1 channels of uint16"):
        open_stack(wide).read(0, WINDOWS[1])


@pytest.mark.parametrize("use", [lambda stack: stack, lambda stack: stack.read(0, WINDOWS[1]) is None or stack, pickle.dumps])
def test_file_that_is_changed_after_it_was_opened_is_refused(tmp_path, use):
    path = written(tmp_path, noise("uint8", 2, *SHAPE))
    opened = use(open_stack(path))
    os.utime(path, ns=(1, 1))
    with pytest.raises(ImageFileError, match="it was changed after it was opened"):
        (pickle.loads(opened) if isinstance(opened, bytes) else opened).read(0, WINDOWS[1])


def test_row_that_ends_early_is_refused(tmp_path, monkeypatch):
    path = written(tmp_path, noise("uint8", 2, *SHAPE))
    opened = open_stack(path)
    stamp = (path.stat().st_size, path.stat().st_mtime_ns)
    monkeypatch.setattr(segments.OpenFile, "stamp", lambda _file: stamp)
    with path.open("r+b") as stream:
        stream.truncate(path.stat().st_size - 100)
    with pytest.raises(ImageFileError, match="image 2 ends at row 6"):
        opened.read(1, WINDOWS[0])


def test_tile_that_decodes_to_nothing_is_refused(tmp_path, monkeypatch):
    path = written(tmp_path, noise("uint8", 2, *SHAPE), compression="zlib")
    lay_out = tiff_pages.lay_out_page

    def without_samples(page, path):
        return tiff_pages.replace(lay_out(page, path), decode=lambda *_args, **_options: (None, (), ()))

    monkeypatch.setattr("qmcif_engine.io.tiff.tiff_source.lay_out_page", without_samples)
    with pytest.raises(ImageFileError, match="the strip or tile at row 0, column 0 of image 1 is not complete"):
        open_stack(path).read(0, WINDOWS[1])


def test_strip_shorter_than_its_rows_is_refused_at_opening(tmp_path):
    path = written(tmp_path, noise("uint8", 2, *SHAPE), rowsperstrip=40)
    with tifffile.TiffFile(path, mode="r+b") as file:
        tag = file.pages[0].tags["StripByteCounts"]
        tag.overwrite((tag.value[0] - 83, tag.value[1] + 83))
    with pytest.raises(ImageFileError, match="3237 bytes in a strip or tile where 3320 are needed"):
        open_stack(path)


def test_turned_pages_are_laid_down_in_the_scratch_folder(tmp_path):
    stack = noise("uint8", 2, *SHAPE)
    path = written(tmp_path, stack, extratags=[(ORIENTATION_TAG, 3, 1, 3, True)])
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with open_stack(path, memory_bytes=0, scratch_folder=scratch) as opened:
        assert opened.scratch_bytes == stack.nbytes
        opened.read(0, WINDOWS[1])
        assert len(list(scratch.glob("*/*.npy"))) == 1
        np.testing.assert_array_equal(opened.read(1, WINDOWS[1]), stack[1, ::-1, ::-1][WINDOWS[1].slices])
