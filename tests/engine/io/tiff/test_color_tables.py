from __future__ import annotations

import numpy as np
import pytest
import tifffile

from qmcif_engine import fuse
from qmcif_engine.cli import main
from qmcif_engine.errors import ImageFileError
from qmcif_engine.io.input.open import open_stack, read_image
from qmcif_engine.stack.window import Window

WHOLE = Window(0, 0, 20, 24)
NUMBERS = np.random.default_rng(7).integers(0, 256, (3, 20, 24), dtype=np.uint8)
RISE = np.arange(256, dtype=np.uint16)
NOTHING = np.zeros(256, np.uint16)


def mixed_colors(factor: int = 257) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (3, 256)).astype(np.uint16) * np.uint16(factor)


def saved(folder, table, numbers=NUMBERS, **options):
    path = folder / "palette.tif"
    tifffile.imwrite(path, numbers, photometric="palette", colormap=table, **options)
    return path


def frames(stack, window=WHOLE):
    return np.stack([stack.read(number, window) for number in range(stack.n_images)])


def lay_out_saturation_marks():
    """Black to white, with the darkest entry green and the brightest blue, as confocal microscopes mark them."""
    table = np.stack([RISE * 257] * 3)
    table[:, 0], table[:, -1] = (0, 65535, 0), (0, 0, 65535)
    return table


@pytest.mark.parametrize(
    ("table", "color"),
    [
        (np.stack([NOTHING, RISE * 257, NOTHING]), "#00ff00"),
        (np.stack([RISE * 257] * 3), "#ffffff"),
        (np.stack([RISE * 256, RISE // 2 * 257, NOTHING]), "#ff8000"),
        (lay_out_saturation_marks(), "#ffffff"),
    ],
)
def test_numbers_shown_in_a_ramp_are_intensities_and_keep_its_color(tmp_path, table, color):
    stack = open_stack(saved(tmp_path, table))
    assert (stack.image_shape, stack.dtype, stack.metadata.channel_colors) == ((20, 24), np.uint8, (color,))
    np.testing.assert_array_equal(frames(stack), NUMBERS)


@pytest.mark.parametrize(
    "table",
    [
        np.stack([np.minimum(RISE * 3, 255), np.clip(RISE.astype(int) * 3 - 255, 0, 255), np.clip(RISE.astype(int) * 3 - 510, 0, 255)])
        * 257,
        np.stack([RISE[::-1] * 257] * 3),
        np.stack([NOTHING] * 3),
    ],
    ids=["hot", "falling", "black"],
)
def test_numbers_under_a_bent_falling_or_empty_table_are_intensities_without_a_color(tmp_path, table):
    stack = open_stack(saved(tmp_path, table.astype(np.uint16)))
    assert stack.metadata.channel_colors == ()
    np.testing.assert_array_equal(frames(stack), NUMBERS)


@pytest.mark.parametrize(("factor", "dtype", "multiple"), [(257, np.uint8, 1), (256, np.uint8, 1), (1, np.uint8, 1), (255, np.uint16, 255)])
def test_palette_picture_becomes_its_colors(tmp_path, factor, dtype, multiple):
    table = mixed_colors(factor)
    stack = open_stack(saved(tmp_path, table))
    assert (stack.image_shape, stack.dtype, stack.n_separate_channels) == ((20, 24, 3), dtype, 0)
    np.testing.assert_array_equal(frames(stack), (mixed_colors(multiple).T)[NUMBERS])
    assert stack.metadata.significant_bits is None


@pytest.mark.parametrize("options", [{"compression": "zlib", "tile": (16, 16)}, {"metadata": {"axes": "ZYX"}}, {"bigtiff": True}])
def test_windows_of_palette_pictures_have_the_colors_of_the_whole(tmp_path, options):
    stack = open_stack(saved(tmp_path, mixed_colors(), **options))
    np.testing.assert_array_equal(frames(stack, Window(3, 5, 17, 20)), mixed_colors(1).T[NUMBERS][:, 3:17, 5:20])


def test_each_page_has_its_own_palette(tmp_path):
    tables = [mixed_colors(), mixed_colors()[:, ::-1].copy()]
    with tifffile.TiffWriter(tmp_path / "two.tif") as writer:
        for numbers, table in zip(NUMBERS, tables, strict=False):
            writer.write(numbers, photometric="palette", colormap=table, contiguous=False, metadata=None)
    stack = open_stack(tmp_path / "two.tif")
    np.testing.assert_array_equal(frames(stack), np.stack([(t // 257).T[n] for n, t in zip(NUMBERS, tables, strict=False)]))


def test_pages_of_a_ramp_and_of_a_palette_are_not_one_stack(tmp_path):
    with tifffile.TiffWriter(tmp_path / "two.tif") as writer:
        for numbers, table in zip(NUMBERS, [mixed_colors(), np.stack([RISE * 257] * 3)], strict=False):
            writer.write(numbers, photometric="palette", colormap=table, contiguous=False, metadata=None)
    with pytest.raises(ImageFileError, match="page 2 has a color table of another kind than the others"):
        open_stack(tmp_path / "two.tif")


def test_four_bits_of_a_palette_are_numbers_of_sixteen_colors(tmp_path):
    path = tmp_path / "four.tif"
    numbers = (NUMBERS[0] % 16)[:, :24]
    table = mixed_colors()[:, :16]
    packed = (numbers[:, ::2] << 4) | numbers[:, 1::2]
    tifffile.imwrite(path, packed, photometric="minisblack", metadata=None, extratags=[(320, "H", 48, table.ravel().tolist(), True)])
    with tifffile.TiffFile(path, mode="r+b") as file:
        tags = file.pages.first.tags
        tags["PhotometricInterpretation"].overwrite(3)
        tags["BitsPerSample"].overwrite(4)
        tags["ImageWidth"].overwrite(24)
    image = read_image(path)
    np.testing.assert_array_equal(image.samples, (table // 257).T[numbers])
    assert image.significant_bits is None


def test_palette_without_its_table_is_refused(tmp_path):
    path = tmp_path / "bare.tif"
    tifffile.imwrite(path, NUMBERS[0], photometric="minisblack")
    with tifffile.TiffFile(path, mode="r+b") as file:
        file.pages.first.tags["PhotometricInterpretation"].overwrite(3)
    with pytest.raises(ImageFileError, match="numbers of colors without a complete table of them"):
        read_image(path)
    assert main(["fuse", str(path), str(path), "-o", str(tmp_path / "out.png")]) == 2


def test_palette_whatever_it_is_holds_intensities_where_imagej_wrote_it(tmp_path):
    path = saved(tmp_path, mixed_colors(), metadata=None, description="ImageJ=1.54f\nimages=3\nslices=3\n", contiguous=True)
    stack = open_stack(path)
    np.testing.assert_array_equal(frames(stack), NUMBERS)


def test_fused_palette_picture_takes_its_samples_from_the_colors(tmp_path):
    colors = mixed_colors(1).T[NUMBERS]
    np.testing.assert_array_equal(fuse(open_stack(saved(tmp_path, mixed_colors()))).fused, fuse(list(colors)).fused)
