"""Groups of similar patches: a partition, the same on every run, without complaint about duplicates."""

import numpy as np
import pytest

from qmcif_engine.method.decomposition.grouping import group_patches
from qmcif_engine.method.decomposition.operators import solve_screened
from qmcif_engine.method.patches import cut_patches, pad_to_grid

N_ROWS = 75  # three planes of 5 x 5 pixels
N_GROUPS = 8
SEED = 0


def random_patches(n_patches, seed=0):
    return np.random.default_rng(seed).uniform(0, 255, (N_ROWS, n_patches)).astype(np.float32)


def labels_of(groups, n_patches):
    """Return the group number of each column; -1 where no group names it."""
    labels = np.full(n_patches, -1)
    for label, members in enumerate(groups):
        labels[members] = label
    return labels


def assert_partition(groups, n_patches):
    assert all(len(members) for members in groups)
    np.testing.assert_array_equal(np.sort(np.concatenate(groups)), np.arange(n_patches))


@pytest.mark.parametrize("n_patches", [1, 2, 7, 8, 9, 300])
@pytest.mark.parametrize("n_groups", [1, 2, 8, 256])
def test_groups_name_every_patch_once_and_are_not_more_than_asked_for(n_patches, n_groups):
    groups = group_patches(random_patches(n_patches), n_groups=n_groups, seed=SEED)

    assert_partition(groups, n_patches)
    assert len(groups) <= min(n_groups, n_patches)


def test_distinct_patches_form_as_many_groups_as_asked_for():
    assert len(group_patches(random_patches(300), n_groups=N_GROUPS, seed=SEED)) == N_GROUPS


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_groups_are_the_same_on_every_run_with_one_seed(seed):
    patches = random_patches(500)
    first, second = (group_patches(patches, n_groups=N_GROUPS, seed=seed) for _ in range(2))

    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


def test_seed_matters_for_patches_without_clusters():
    patches = random_patches(500)
    first, second = (labels_of(group_patches(patches, n_groups=N_GROUPS, seed=seed), 500) for seed in (0, 1))

    assert np.any((first[:, None] == first[None, :]) != (second[:, None] == second[None, :]))


def test_two_kinds_of_patches_come_apart():
    kinds = np.random.default_rng(0).integers(0, 2, 200)
    patches = random_patches(200) * 0.05 + 200 * kinds  # dark ones and bright ones
    groups = group_patches(patches.astype(np.float32), n_groups=2, seed=SEED)

    assert_partition(groups, 200)
    assert len(groups) == 2
    assert all(len(np.unique(kinds[members])) == 1 for members in groups)


def test_flat_and_textured_patches_of_one_brightness_come_apart():
    kinds = np.arange(100) % 2
    stripes = 100 * (-1.0) ** np.arange(N_ROWS)[:, None]
    patches = (128 + kinds * stripes + random_patches(100) * 0.05).astype(np.float32)
    groups = group_patches(patches, n_groups=2, seed=SEED)

    assert all(len(np.unique(kinds[members])) == 1 for members in groups)


def test_two_kinds_of_patches_come_apart_however_many_alternate():
    """A striped picture of 8192 patches: whatever subsample is looked at must not see one kind only."""
    patches = np.tile(random_patches(2), (1, 4096))
    groups = group_patches(patches, n_groups=N_GROUPS, seed=SEED)

    assert_partition(groups, 8192)
    assert len(groups) == 2


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_image_that_varies_in_one_direction_is_grouped_without_complaint(dtype):
    """Five rows of patches, each of five patches that differ by rounding alone: fewer groups than asked for, in the eyes of k-means."""
    waves = 100 + 100 * np.sin(np.arange(40) / 6)
    image = np.broadcast_to(waves[:, None], (3, 40, 40)).astype(dtype)
    patches = cut_patches(solve_screened(image, screening=1.0), patch_px=8)
    groups = group_patches(patches, n_groups=N_GROUPS, seed=SEED)

    assert_partition(groups, 25)
    assert all(len(np.unique(members // 5)) == 1 for members in groups)  # no group mixes rows


@pytest.mark.parametrize("seed", range(6))
def test_duplicates_up_to_rounding_are_grouped_without_complaint(seed):
    """A dark and a bright flat area, as in an image with saturated parts, where single samples differ by one unit in the last place."""
    generator = np.random.default_rng(seed)
    kinds = generator.integers(0, 2, 150)
    patches = np.where(kinds, np.float32(228.8), np.float32(10)) * np.ones((N_ROWS, 1), np.float32)
    is_rounded = generator.random(patches.shape) < 0.01
    patches[is_rounded] = np.nextafter(patches[is_rounded], np.float32(0))
    groups = group_patches(patches, n_groups=N_GROUPS, seed=SEED)

    assert_partition(groups, 150)
    assert all(len(np.unique(kinds[members])) == 1 for members in groups)


def test_patches_are_left_alone():
    patches = random_patches(50)
    patches.flags.writeable = False  # writing into them would raise

    assert_partition(group_patches(patches, n_groups=N_GROUPS, seed=SEED), 50)
