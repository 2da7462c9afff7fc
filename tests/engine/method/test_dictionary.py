import numpy as np
import pytest

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.method.dictionary import SHIPPED_PATCH_SIDES, load_dictionary
from qmcif_engine.method.quaternion import conjugate_transpose, matrix_product

SINGLE = 16 * np.finfo(np.float32).eps


@pytest.mark.parametrize("patch_px", SHIPPED_PATCH_SIDES)
def test_shipped_atoms_have_unit_norm_and_the_first_is_constant_and_orthogonal_to_all_others(patch_px):
    loaded = load_dictionary(patch_px)
    atoms = loaded.astype(np.float64)
    inner = matrix_product(conjugate_transpose(atoms[:, :, :1]), atoms[:, :, 1:])

    assert (loaded.shape, loaded.dtype) == ((4, patch_px**2, patch_px**2), np.float32)
    assert load_dictionary(patch_px) is loaded
    assert not loaded.flags.writeable
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=(0, 1)), 1, rtol=SINGLE)
    np.testing.assert_allclose(atoms[:, :, 0].T, [[1 / patch_px, 0, 0, 0]] * patch_px**2, rtol=SINGLE)
    np.testing.assert_allclose(inner, 0, atol=SINGLE)


def test_unknown_patch_side_is_refused_with_the_known_ones():
    with pytest.raises(InvalidConfigError, match="No dictionary for patches of 7 px: one of 5, 8, 10 is needed; choose"):
        load_dictionary(7)
