import pickle
from collections import Counter

import numpy as np
import pytest
import tifffile

from qmcif_engine.io.input.open import open_stack
from qmcif_engine.io.tiff.tiff_pages import TiffPlane
from qmcif_engine.run.measurement import measure_range_and_noise
from qmcif_engine.stack.alignment.suggestion import previews_for_alignment, suggest_alignment
from qmcif_engine.stack.exposure import previews_for_exposure, suggest_even_exposure
from qmcif_engine.stack.previews import ReducedImage, choose_reduction, read_preview, read_previews, to_gray
from qmcif_engine.stack.stack import Stack, stack_arrays
from qmcif_engine.stack.window import Window
from tests.scenes import logged_stack

ROUNDING = 4 * np.finfo(np.float32).eps


@pytest.mark.parametrize(
    ("shape", "largest_px", "expected"), [((100, 100), 10_000, 1), ((100, 100), 9_999, 2), ((4000, 6000, 3), 10**6, 5)]
)
def test_the_reduction_is_the_smallest_that_suffices(shape, largest_px, expected):
    assert choose_reduction(shape, largest_px=largest_px) == expected


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
@pytest.mark.parametrize("channels", [(), (3,), (5,)])
@pytest.mark.parametrize("factor", [1, 3])
def test_a_preview_holds_the_means_of_squares(dtype, channels, factor):
    image = (np.random.default_rng(0).random((601, 50, *channels)) * 250).astype(dtype)
    height, width = 601 // factor, 50 // factor
    squares = image[: height * factor, : width * factor].reshape(height, factor, width, factor, -1).astype(np.float64)

    preview = read_preview(stack_arrays([image]), 0, factor=factor)

    assert preview.dtype == np.float32
    np.testing.assert_allclose(preview, squares.mean(axis=(1, 3)), rtol=ROUNDING)


def test_gray_is_the_luminance_of_colors_and_the_mean_of_other_channels():
    np.testing.assert_allclose(to_gray(np.array([[[1.0, 2.0, 3.0]]], np.float32)), [[0.299 + 2 * 0.587 + 3 * 0.114]], rtol=ROUNDING)
    np.testing.assert_allclose(to_gray(np.array([[[1.0, 2.0]]], np.float32)), [[1.5]], rtol=ROUNDING)


@pytest.fixture(scope="module")
def large():
    """More pixels than are looked at as a whole to settle the focus range."""
    texture = np.random.default_rng(5).integers(0, 255, (150, 250, 3), np.uint8)
    image = np.kron(texture, np.ones((8, 8, 1), np.uint8))
    return [np.roll(image, 3 * number, axis=0) for number in range(3)]


def look(stack):
    return read_previews(stack, [*previews_for_alignment(stack), *previews_for_exposure(stack)])


def test_one_look_serves_the_hints_the_focus_range_and_the_noise(large):
    stack = logged_stack(large)
    looked = look(stack)
    stack.read.places.clear()

    found = suggest_alignment(looked), suggest_even_exposure(looked), measure_range_and_noise(looked.replaced())

    assert stack.read.places == []
    plain = stack_arrays(large)
    assert found == (suggest_alignment(plain), suggest_even_exposure(plain), measure_range_and_noise(plain))
    assert found[0] is not None


def test_a_look_goes_through_each_image_once_from_top_to_bottom(large):
    stack = logged_stack(large)

    look(stack)

    tops = [(number, window.top) for number, window in stack.read.places]
    assert tops == sorted(tops)


def test_a_strip_is_decoded_once_for_all_that_a_look_finds(large, monkeypatch, tmp_path):
    tifffile.imwrite(tmp_path / "stack.tif", np.stack(large), photometric="rgb", compression="zlib", rowsperstrip=16)
    decoded = Counter()
    decode = TiffPlane._decode

    def counting(plane, index, stream):
        decoded[plane.number, index] += 1
        return decode(plane, index, stream)

    monkeypatch.setattr(TiffPlane, "_decode", counting)

    look(open_stack(tmp_path / "stack.tif", cache_bytes=4 * 2**20, memory_bytes=0))  # holds a band and a few strips of one image

    assert set(decoded.values()) == {1}
    assert len(decoded) == 3 * 75


def test_a_small_stack_keeps_no_second_copy_of_its_images():
    images = [np.zeros((40, 50), np.uint8)] * 2
    stack = logged_stack(images)

    looked = read_previews(stack, [])

    assert stack.read.places == []
    np.testing.assert_array_equal(looked.read(1, Window.whole((40, 50))), images[1])


def test_in_another_process_a_stack_that_was_looked_at_is_the_plain_one(large):
    looked = read_previews(stack_arrays(large), [ReducedImage(0, 8)])

    copy = pickle.loads(pickle.dumps(looked))

    assert type(copy) is Stack
    assert copy.is_in_memory
    assert set(looked.previews) == {ReducedImage(0, 8)}
    assert looked.replaced().previews == {}
