"""Groups of similar patches: a partition, the same on every run, without complaint about duplicates."""

import numpy as np
import pytest

from qmcif_engine.method.operators import solve_screened
from qmcif_engine.method.patches import cut_patches, group_patches, pad_to_grid

N_ROWS = 75  # three planes of 5 x 5 pixels
N_GROUPS = 8
SEED = 0


def random_patches(n_patches, seed=0):
    return np.random.default_rng(seed).uniform(0, 255, (N_ROWS, n_patches)).astype(np.float32)


def assert_partition(groups, n_patches):
    assert all(len(members) for members in groups)
    np.testing.assert_array_equal(np.sort(np.concatenate(groups)), np.arange(n_patches))


@pytest.mark.parametrize("n_patches", [1, 2, 7, 8, 9, 300])
@pytest.mark.parametrize("n_groups", [1, 2, 8, 256])
def test_groups_name_every_patch_once_and_are_not_more_than_asked_for(n_patches, n_groups):
    groups = group_patches(random_patches(n_patches), n_groups=n_groups, seed=SEED)

    assert_partition(groups, n_patches)
    assert len(groups) <= min(n_groups, n_patches)


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_groups_are_the_same_on_every_run_with_one_seed(seed):
    patches = random_patches(500)
    first, second = (group_patches(patches, n_groups=N_GROUPS, seed=seed) for _ in range(2))

    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


def test_two_kinds_of_patches_come_apart():
    kinds = np.random.default_rng(0).integers(0, 2, 200)
    patches = random_patches(200) * 0.05 + 200 * kinds  # dark ones and bright ones
    groups = group_patches(patches.astype(np.float32), n_groups=2, seed=SEED)

    assert_partition(groups, 200)
    assert len(groups) == 2
    assert all(len(np.unique(kinds[members])) == 1 for members in groups)


@pytest.mark.parametrize("n_distinct", [1, 2, 3, 7])
@pytest.mark.parametrize("n_copies", [1, 50, 1000])
def test_there_is_one_group_for_each_distinct_patch_where_they_are_few(n_distinct, n_copies):
    patches = np.repeat(random_patches(n_distinct), n_copies, axis=1)
    groups = group_patches(patches, n_groups=N_GROUPS, seed=SEED)

    assert_partition(groups, n_distinct * n_copies)
    assert len(groups) == n_distinct
    np.testing.assert_array_equal(np.sort([members[0] // n_copies for members in groups]), np.arange(n_distinct))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("level", [0.0, 0.1, 127.3, 255.0])
@pytest.mark.parametrize("shape", [(1, 1), (33, 47), (40, 56)])
def test_constant_image_is_grouped_without_complaint(shape, level, dtype):
    """The base layer of a constant image differs from patch to patch by rounding."""
    image = pad_to_grid(np.full((3, *shape), level, dtype), patch_px=8)
    patches = cut_patches(solve_screened(image, screening=1.0), patch_px=8)

    assert_partition(group_patches(patches, n_groups=N_GROUPS, seed=SEED), patches.shape[1])


def test_patches_are_left_alone():
    patches = random_patches(50)
    patches.flags.writeable = False  # writing into them would raise

    assert_partition(group_patches(patches, n_groups=N_GROUPS, seed=SEED), 50)
