"""Pictures are read without losing anything silently, and shown as they are."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from qmcif_engine.comparison.html import INDEX_COLORS, color_index, encode_data_uri, shrink
from qmcif_engine.comparison.images import read_eight_bit, read_opaque
from qmcif_engine.errors import ImageFileError, InvalidImageError
from qmcif_engine.io.output.formats import write_image

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("dtype", "opaque"), [(np.uint8, 255), (np.uint16, 65535), (np.float32, 1.0)])
def test_an_alpha_channel_that_hides_nothing_is_dropped(tmp_path: Path, dtype: type, opaque: float) -> None:
    samples = np.arange(60).reshape(4, 5, 3).astype(dtype)
    alpha = np.full((4, 5), opaque, dtype)
    write_image(tmp_path / "p.tif", samples, alpha=alpha)

    np.testing.assert_array_equal(read_opaque(tmp_path / "p.tif"), samples)

    alpha[1, 1] = 0
    write_image(tmp_path / "p.tif", samples, alpha=alpha, overwrite=True)
    with pytest.raises(ImageFileError, match=r"p.tif' has transparent pixels; .* remove its alpha channel"):
        read_opaque(tmp_path / "p.tif")


def test_deeper_samples_are_refused_for_benchmarks(tmp_path: Path) -> None:
    write_image(tmp_path / "p.png", np.zeros((4, 5), np.uint16))

    with pytest.raises(InvalidImageError, match=r"p.png' has uint16 samples; .* convert it to 8 bits"):
        read_eight_bit(tmp_path / "p.png")


@pytest.mark.parametrize("shape", [(9, 13), (9, 13, 3), (1, 40), (40, 1, 3)])
def test_shrinking_averages_whole_blocks(shape: tuple[int, ...]) -> None:
    picture = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    small = shrink(picture, longest_side_px=5)
    factor = -(-max(shape[:2]) // 5)

    assert max(small.shape[:2]) <= 5
    for row in range(small.shape[0]):
        for column in range(small.shape[1]):
            block = picture[row * factor : (row + 1) * factor, column * factor : (column + 1) * factor]
            np.testing.assert_array_equal(small[row, column], np.rint(block.mean(axis=(0, 1))))


def test_a_small_picture_stays_as_it_is() -> None:
    picture = np.arange(30, dtype=np.uint8).reshape(5, 6)

    np.testing.assert_array_equal(shrink(picture, longest_side_px=6), picture)


def test_sources_have_colors_of_their_own() -> None:
    colored = color_index(np.array([[0, 1, 7, 8]], np.uint8))

    assert colored.shape == (1, 4, 3)
    np.testing.assert_array_equal(colored[0, 1], INDEX_COLORS[1])
    np.testing.assert_array_equal(colored[0, 3], colored[0, 0])
    assert len({tuple(color) for color in INDEX_COLORS.tolist()}) == len(INDEX_COLORS)


@pytest.mark.parametrize("shape", [(16, 24), (16, 24, 3)])
def test_a_data_uri_holds_the_picture(shape: tuple[int, ...]) -> None:
    picture = np.full(shape, 77, np.uint8)
    uri = encode_data_uri(picture, quality=90)
    prefix = "data:image/jpeg;base64,"

    assert uri.startswith(prefix)
    decoded = np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.removeprefix(prefix), validate=True))))
    assert decoded.shape == shape
    assert np.abs(decoded.astype(int) - 77).max() <= 1
