"""Large PNG files by rows, against the decoder of whole pictures."""

import imagecodecs
import numpy as np
import pytest

from qmcif_engine.errors import ImageFileError
from qmcif_engine.io.input.readers import inspect_image
from qmcif_engine.io.input.stack_input import open_stack
from qmcif_engine.io.png_jpeg import png_rows
from qmcif_engine.io.png_jpeg.png_rows import PngRows, is_read_by_rows
from qmcif_engine.stack.window import Window


@pytest.fixture(autouse=True)
def small_pictures_are_large(monkeypatch):
    monkeypatch.setattr(png_rows, "SMALLEST_BY_ROWS_BYTES", 1)


def saved(folder, picture, *, level=6):
    path = folder / "a.png"
    path.write_bytes(imagecodecs.png_encode(picture, level=level))
    return path


def picture_of(kind, shape, *, seed=0):
    """Smooth ground and noise, for which encoders choose all filters."""
    ramp = np.add.outer(np.arange(shape[0]) ** 2, 7 * np.arange(shape[1])).reshape(shape[0], shape[1], *[1] * (len(shape) - 2))
    noise = np.random.default_rng(seed).integers(0, 9, shape)
    return ((ramp + noise) % (np.iinfo(kind).max + 1)).astype(kind)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
@pytest.mark.parametrize("shape", [(37, 53), (37, 53, 2), (37, 53, 3), (37, 53, 4), (1, 1), (1, 300)])
def test_rows_are_those_of_the_whole_picture(tmp_path, kind, shape):
    picture = picture_of(kind, shape)
    path = saved(tmp_path, picture)
    found = inspect_image(path)
    assert is_read_by_rows(found, path)

    rows = PngRows(path, path, found)

    parts = [rows[top : top + 10] for top in range(0, shape[0], 10)]
    np.testing.assert_array_equal(np.concatenate(parts), picture.reshape(found.stored_shape))
    np.testing.assert_array_equal(rows[:], picture.reshape(found.stored_shape))
    np.testing.assert_array_equal(rows[shape[0] // 2 :], picture.reshape(found.stored_shape)[shape[0] // 2 :])


def test_a_stack_of_large_pictures_is_laid_down_by_rows(tmp_path):
    pictures = [picture_of(np.uint16, (40, 50), seed=seed) for seed in (1, 2)]
    paths = []
    for number, picture in enumerate(pictures):
        (tmp_path / f"{number}.png").write_bytes(imagecodecs.png_encode(picture))
        paths.append(tmp_path / f"{number}.png")

    with open_stack(paths, memory_bytes=1) as stack:
        assert stack.whole_bytes == 0
        for number, picture in enumerate(pictures):
            np.testing.assert_array_equal(stack.read(number, Window(0, 0, 40, 50)), picture)


@pytest.mark.parametrize(("place", "told"), [(-30, "damaged|incorrect|invalid|not complete"), (60, "damaged|invalid|incorrect")])
def test_damaged_samples_are_refused(tmp_path, place, told):
    path = saved(tmp_path, picture_of(np.uint8, (64, 64)))
    found = inspect_image(path)
    content = bytearray(path.read_bytes())
    content[place] ^= 0x55
    path.write_bytes(content)

    with pytest.raises(ImageFileError, match=told):
        PngRows(path, path, found)[:]


def read_a_corner(folder):
    stack = open_stack([folder / "1.png", folder / "2.png"], memory_bytes=1, scratch_folder=folder)
    stack.read(0, Window(0, 0, 8, 8))  # what is loaded and compiled on the way does not count
    return lambda: stack.read(1, Window(0, 0, 8, 8))


def test_a_large_picture_is_never_in_memory_as_a_whole(tmp_path, peak_of):
    side = 6000
    for number in (1, 2):
        (tmp_path / f"{number}.png").write_bytes(imagecodecs.png_encode(np.full((side, side), number, np.uint16)))

    assert peak_of(read_a_corner, tmp_path) < side * side  # half of what it takes decoded
