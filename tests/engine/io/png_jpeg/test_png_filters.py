"""The filters of PNG undone, against a plain version."""

import numpy as np
import pytest

from qmcif_engine.io.png_jpeg.png_filters import undo_filters


def undo_plainly(rows, above, pixel_bytes):
    """The five filters as the PNG specification writes them (section 9), byte by byte."""
    above = [int(byte) for byte in above]
    result = []
    for kind, *stored in rows.tolist():
        row = []
        for x, byte in enumerate(stored):
            a, b = (row[x - pixel_bytes] if x >= pixel_bytes else 0), above[x]
            c = above[x - pixel_bytes] if x >= pixel_bytes else 0
            nearest = min((a, b, c), key=lambda candidate: abs(a + b - c - candidate))
            row.append((byte + (0, a, b, (a + b) // 2, nearest)[kind]) % 256)
        result.append(row)
        above = row
    return np.array(result, np.uint8)


@pytest.mark.parametrize("pixel_bytes", [1, 2, 3, 6, 8])
def test_every_filter_is_undone_as_the_specification_says(pixel_bytes):
    generator = np.random.default_rng(pixel_bytes)
    rows = generator.integers(0, 256, (11, 1 + 5 * pixel_bytes)).astype(np.uint8)
    rows[:, 0] = np.arange(11) % 5
    above = generator.integers(0, 256, 5 * pixel_bytes).astype(np.uint8)
    expected = undo_plainly(rows, above, pixel_bytes)

    assert undo_filters(rows, above, pixel_bytes) == 11

    np.testing.assert_array_equal(rows[:, 1:], expected)
    np.testing.assert_array_equal(above, expected[-1])


def test_a_filter_that_does_not_exist_ends_it():
    rows = np.zeros((3, 4), np.uint8)
    rows[1, 0] = 5

    assert undo_filters(rows, np.zeros(3, np.uint8), 1) == 1
