"""Patches cover every pixel, and put together unchanged they are the image."""

from __future__ import annotations

import numpy as np
import pytest

from qmcif_engine.comparison.baselines.patch_grid import PatchAverage, cut_row, pad_to_patch, plan_patches


@pytest.mark.parametrize(("shape", "step"), [((8, 8), 2), ((9, 20), 3), ((17, 11), 8), ((10, 13), 1)])
def test_patches_put_together_unchanged_are_the_picture(shape, step):
    planes = np.random.default_rng(1).random((3, *shape))
    grid = plan_patches(shape, side_px=8, step_px=step)
    average = PatchAverage(planes.shape, grid)
    for row in range(len(grid.rows)):
        patches = cut_row(planes, grid, row)
        assert patches.shape == (3, len(grid.columns), 8, 8)
        np.testing.assert_array_equal(patches[:, -1], planes[:, grid.rows[row] : grid.rows[row] + 8, -8:])
        average.add_row(row, patches)

    np.testing.assert_allclose(average.mean(), planes)


def test_small_pictures_grow_to_a_patch_by_reflection():
    plane = np.arange(6.0).reshape(2, 3)
    padded = pad_to_patch(plane, side_px=8)

    assert padded.shape == (8, 8)
    np.testing.assert_array_equal(padded[:4, :3], np.concatenate([plane, plane[::-1]]))
    assert pad_to_patch(padded, side_px=8).shape == (8, 8)
