import numpy as np
import pytest

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.method.dictionary import SHIPPED_PATCH_SIDES, load_dictionary
from qmcif_engine.method.quaternion import conjugate_transpose, matrix_product

SINGLE = 16 * np.finfo(np.float32).eps

every_side = pytest.mark.parametrize("patch_px", SHIPPED_PATCH_SIDES)


@every_side
def test_shipped_dictionary_has_as_many_atoms_as_pixels(patch_px):
    atoms = load_dictionary(patch_px)
    assert atoms.shape == (4, patch_px**2, patch_px**2)
    assert atoms.dtype == np.float32


@every_side
def test_shipped_atoms_have_unit_norm(patch_px):
    norms = np.linalg.norm(load_dictionary(patch_px).astype(np.float64), axis=(0, 1))
    np.testing.assert_allclose(norms, 1, rtol=SINGLE)


@every_side
def test_first_shipped_atom_is_real_and_constant_and_orthogonal_to_all_others(patch_px):
    atoms = load_dictionary(patch_px).astype(np.float64)
    np.testing.assert_allclose(atoms[0, :, 0], 1 / patch_px, rtol=SINGLE)
    assert not atoms[1:, :, 0].any()
    inner = matrix_product(conjugate_transpose(atoms[:, :, :1]), atoms[:, :, 1:])
    np.testing.assert_allclose(inner, 0, atol=SINGLE)


def test_all_callers_share_one_dictionary_that_is_read_only():
    atoms = load_dictionary(8)
    assert load_dictionary(8) is atoms
    with pytest.raises(ValueError, match="read-only"):
        atoms[0, 0, 0] = 1


def test_unknown_patch_side_is_refused_with_the_known_ones():
    with pytest.raises(InvalidConfigError, match="No dictionary for patches of 7 px: one of 5, 8, 10 is needed; choose"):
        load_dictionary(7)
