"""The tool that makes the shipped dictionaries: its algebra, what it learns, and that it makes the same file again."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from qmcif_engine.method.dictionary import SHIPPED_PATCH_SIDES, load_dictionary
from qmcif_engine.method.quaternion import conjugate_transpose, matrix_product, modulus, singular_values

ABSOLUTE = 1e4 * np.finfo(np.float64).eps
ELSEWHERE = 1e-5
"""What a machine with other libraries may differ by."""
SPARSITY = 3


@pytest.fixture(scope="module")
def tool():
    return SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "tools" / "learn_dictionary.py")))


@pytest.fixture(scope="module")
def pictures(tool):
    data = pytest.importorskip("skimage.data")
    return [getattr(data, name)() for name in tool.TRAINING_IMAGES]


@pytest.fixture(scope="module")
def training_patches(tool, pictures):
    halves = [picture[:, : picture.shape[1] // 2] for picture in pictures]
    return tool.sample_patches(halves, patch_px=5, n_patches=1500, generator=np.random.default_rng(11))


@pytest.fixture(scope="module")
def learned(tool, training_patches):
    """Dictionaries after 0, 2 and 5 iterations."""
    start = tool.cosine_dictionary(5)
    return {n: tool.learn_dictionary(training_patches, start, sparsity=SPARSITY, iterations=n) for n in (0, 2, 5)}


@pytest.fixture
def generator():
    return np.random.default_rng(8)


def unit_columns(generator, n_rows, n_columns):
    columns = generator.standard_normal((4, n_rows, n_columns))
    return columns / np.linalg.norm(columns, axis=(0, 1))


def test_patches_are_different_textured_pure_quaternions_cut_in_row_major_order(tool):
    images = np.random.default_rng(0).integers(0, 256, (2, 20, 30, 3), dtype=np.uint8)
    images[0, :, :20] = 128
    images[0, ::2, :20] += 3

    patches, again = (tool.sample_patches(images, patch_px=4, n_patches=60, generator=np.random.default_rng(1)) for _ in range(2))

    np.testing.assert_array_equal(patches, again)
    assert patches.shape == (4, 16, 60)
    assert not patches[0].any()
    assert np.unique(patches.reshape(64, -1), axis=1).shape[1] == 60
    windows = np.lib.stride_tricks.sliding_window_view(images, (4, 4), axis=(1, 2))
    assert all(np.any(np.all(windows[n // 30].reshape(-1, 3, 16) == patches[1:, :, n], axis=(1, 2))) for n in range(60))
    deviation = patches - patches.mean(axis=1, keepdims=True)
    assert np.sqrt((deviation**2).sum(axis=0).mean(axis=0)).min() >= tool.SMALLEST_CONTRAST
    with pytest.raises(ValueError, match="0 textured patches, 6 are needed: ask for fewer"):
        tool.sample_patches([images[0], np.zeros((20, 30, 3), np.uint8)], patch_px=4, n_patches=12, generator=np.random.default_rng(1))


def test_pursuit_finds_planted_codes_of_orthonormal_atoms_and_leaves_what_remains_orthogonal(tool, generator):
    atoms = tool.cosine_dictionary(3)
    codes = np.zeros((4, 9, 20))
    for patch in range(20):
        codes[:, generator.choice(9, 2, replace=False), patch] = generator.standard_normal((4, 2))
    np.testing.assert_allclose(tool.encode_patches(matrix_product(atoms, codes), atoms, sparsity=3), codes, atol=ABSOLUTE)

    atoms, patches = unit_columns(generator, 6, 8), generator.standard_normal((4, 6, 40))
    patches[:, :, 0] = 0
    found = tool.encode_patches(patches, atoms, sparsity=2)
    used = modulus(found) > 0
    residual = modulus(matrix_product(conjugate_transpose(atoms), patches - matrix_product(atoms, found)))
    assert np.all(used[:, 1:].sum(axis=0) == 2)
    assert not found[:, :, 0].any()
    assert residual[used].max() < ABSOLUTE


def test_rank_one_is_the_nearest_of_its_rank_by_the_singular_values(tool, generator):
    matrix = generator.standard_normal((4, 5, 12))
    column, row = tool.best_rank_one(matrix)

    error = np.linalg.norm(matrix - matrix_product(column, row))
    assert error == pytest.approx(np.linalg.norm(singular_values(matrix)[1:]), rel=ABSOLUTE)
    assert np.linalg.norm(column) == pytest.approx(1, rel=ABSOLUTE)


def test_aligned_phase_does_not_depend_on_the_phase_before(tool, generator):
    column, reference = np.split(unit_columns(generator, 5, 2), 2, axis=2)
    aligned = tool.align_phase(column, reference)
    turned = matrix_product(column, unit_columns(generator, 1, 1))
    inner = matrix_product(conjugate_transpose(reference), aligned).ravel()

    np.testing.assert_allclose(tool.align_phase(turned, reference), aligned, atol=ABSOLUTE)
    assert inner[0] > 0
    np.testing.assert_allclose(inner[1:], 0, atol=ABSOLUTE)
    column[:, 0], reference[:, 1:] = 0, 0  # orthogonal: the first element that is not zero decides
    np.testing.assert_allclose(tool.align_phase(column, reference)[1:, 1], 0, atol=ABSOLUTE)


def test_an_unused_atom_takes_the_direction_of_the_worst_residual_if_there_is_one(tool, generator):
    atoms = unit_columns(generator, 6, 2)
    codes = np.zeros((4, 2, 10))
    codes[:, :1] = generator.standard_normal((4, 1, 10))
    patches = matrix_product(atoms, codes)
    np.testing.assert_allclose(tool.update_atoms(patches, atoms, codes=codes), atoms, atol=ABSOLUTE)

    patches[:, :, 7], codes[:, :, 7] = 5 * unit_columns(generator, 6, 1)[:, :, 0], 0
    updated = tool.update_atoms(patches, atoms, codes=codes)
    inner = modulus(matrix_product(conjugate_transpose(updated[:, :, 1:]), patches[:, :, 7:8]))
    assert inner.item() == pytest.approx(5, rel=ABSOLUTE)


def test_learning_lowers_the_error_on_other_patches_and_keeps_the_first_atom(tool, pictures, learned):
    halves = [picture[:, picture.shape[1] // 2 :] for picture in pictures]
    others = tool.sample_patches(halves, patch_px=5, n_patches=900, generator=np.random.default_rng(12))
    varying = others - others.mean(axis=1, keepdims=True)

    def error(atoms):
        codes = tool.encode_patches(varying, atoms[:, :, 1:], sparsity=SPARSITY)
        return np.linalg.norm(varying - matrix_product(atoms[:, :, 1:], codes))

    errors = [error(atoms) for atoms in learned.values()]
    assert errors[0] > errors[1] > errors[2]
    np.testing.assert_allclose(np.linalg.norm(learned[5], axis=(0, 1)), 1, rtol=ABSOLUTE)
    np.testing.assert_array_equal(learned[5][:, :, 0], tool.cosine_dictionary(5)[:, :, 0])
    np.testing.assert_allclose(learned[5][:, :, 1:].sum(axis=1), 0, atol=ABSOLUTE)


def test_learning_repeats_to_the_byte_and_does_not_amplify_rounding(tool, training_patches, learned, generator):
    def again(patches):
        return tool.learn_dictionary(patches, tool.cosine_dictionary(5), sparsity=SPARSITY, iterations=5)

    assert again(training_patches.copy()).tobytes() == learned[5].tobytes()
    disturbed = training_patches * (1 + 1e-12 * generator.standard_normal(training_patches.shape))
    np.testing.assert_allclose(again(disturbed), learned[5], atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("patch_px", SHIPPED_PATCH_SIDES[:-1])
def test_the_shipped_dictionaries_are_made_again(tool, pictures, patch_px):
    """All but the largest, which the same loop makes from the same pictures, in twice the time of the others together."""
    np.testing.assert_allclose(tool.learn_shipped_dictionary(pictures, patch_px), load_dictionary(patch_px), rtol=0, atol=ELSEWHERE)
