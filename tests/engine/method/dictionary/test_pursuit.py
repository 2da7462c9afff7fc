import numpy as np
import pytest

from qmcif_engine.method.dictionary.pursuit import encode_patches
from qmcif_engine.method.quaternion import conjugate_transpose, matrix_product, modulus

ABSOLUTE = 1e4 * np.finfo(np.float64).eps


def random_columns(generator, n_rows, n_columns):
    columns = generator.standard_normal((4, n_rows, n_columns))
    return columns / np.linalg.norm(columns, axis=(0, 1))


@pytest.fixture
def generator():
    return np.random.default_rng(3)


@pytest.fixture
def atoms(generator):
    return random_columns(generator, 6, 9)


@pytest.fixture
def patches(generator):
    return generator.standard_normal((4, 6, 40))


def test_one_atom_is_the_best_of_all_atoms_tried_one_by_one(atoms, patches):
    codes = encode_patches(patches, atoms, sparsity=1)
    errors = []
    for index in range(atoms.shape[2]):
        atom = atoms[:, :, index, None]
        projection = matrix_product(atom, matrix_product(conjugate_transpose(atom), patches))
        errors.append(np.linalg.norm(patches - projection, axis=(0, 1)))
    chosen = np.argmax(modulus(codes), axis=0)
    np.testing.assert_array_equal(chosen, np.argmin(errors, axis=0))
    ours = np.linalg.norm(patches - matrix_product(atoms, codes), axis=(0, 1))
    np.testing.assert_allclose(ours, np.min(errors, axis=0), rtol=ABSOLUTE)


@pytest.mark.parametrize("sparsity", [1, 2, 4])
def test_no_patch_uses_more_atoms_than_allowed(atoms, patches, sparsity):
    codes = encode_patches(patches, atoms, sparsity=sparsity)
    assert codes.shape == (4, 9, 40)
    np.testing.assert_array_equal(np.count_nonzero(modulus(codes), axis=0), sparsity)


@pytest.mark.parametrize("sparsity", [1, 2, 4])
def test_residual_is_orthogonal_to_the_chosen_atoms(atoms, patches, sparsity):
    codes = encode_patches(patches, atoms, sparsity=sparsity)
    residuals = patches - matrix_product(atoms, codes)
    inner = modulus(matrix_product(conjugate_transpose(atoms), residuals))
    assert inner[modulus(codes) > 0].max() < ABSOLUTE


def test_each_further_atom_is_the_one_that_correlates_best_with_the_residual(atoms, patches):
    before = encode_patches(patches, atoms, sparsity=2)
    after = encode_patches(patches, atoms, sparsity=3)
    residuals = patches - matrix_product(atoms, before)
    best = np.argmax(modulus(matrix_product(conjugate_transpose(atoms), residuals)), axis=0)
    added = (modulus(after) > 0) & (modulus(before) == 0)
    np.testing.assert_array_equal(np.argmax(added, axis=0), best)
    np.testing.assert_array_equal(added.sum(axis=0), 1)


def test_error_falls_with_every_atom_until_the_atoms_span_the_patch(atoms, patches):
    errors = [np.linalg.norm(patches - matrix_product(atoms, encode_patches(patches, atoms, sparsity=n))) for n in range(7)]
    assert np.all(np.diff(errors) < 0)
    assert errors[0] == pytest.approx(np.linalg.norm(patches))
    assert errors[6] < 1e3 * ABSOLUTE


def test_patches_represented_exactly_take_no_further_atom(atoms, generator):
    patches = matrix_product(atoms[:, :, 4:5], generator.standard_normal((4, 1, 5)))
    codes = encode_patches(patches, atoms, sparsity=3)
    np.testing.assert_array_equal(np.flatnonzero(modulus(codes).any(axis=1)), [4])


def test_zero_patches_get_zero_codes(atoms):
    assert not encode_patches(np.zeros((4, 6, 3)), atoms, sparsity=2).any()


def test_first_of_equal_atoms_is_taken_and_the_copy_never_beside_it(atoms, patches):
    twice = np.concatenate((atoms, atoms), axis=2)
    once = encode_patches(patches, atoms, sparsity=3)
    codes = encode_patches(patches, twice, sparsity=3)
    np.testing.assert_allclose(codes[:, :9], once, atol=ABSOLUTE)
    assert not codes[:, 9:].any()
