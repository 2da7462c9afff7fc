"""Sparse codes of patches in a quaternion dictionary: orthogonal matching pursuit, all patches at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.method.quaternion import conjugate_transpose, matrix_product, modulus, real_form

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray

ROUNDING = 1e-9
"""Relative size of what counts as rounding: far above the error of float64 sums, far below any difference that means something.

Two atoms whose correlations differ by less are tied, and a correlation that is smaller than this share of its patch is zero. Without
these two rules the last bit of a sum would decide, and would decide otherwise on another machine.
"""


def encode_patches(patches: FloatArray, atoms: FloatArray, *, sparsity: int) -> FloatArray:
    """Represent every patch by at most `sparsity` atoms, chosen one after the other.

    Parameters
    ----------
    patches : ndarray of float64, shape (4, d, P)
    atoms : ndarray of float64, shape (4, d, L)
        Columns of unit norm.
    sparsity : int
        Largest number of atoms for one patch. Fewer are taken where fewer represent the patch exactly.

    Returns
    -------
    ndarray of float64, shape (4, L, P)
        Coefficients ``Z`` of ``patches ~ atoms Z``, exactly zero for atoms that were not chosen.

    Notes
    -----
    Greedy solution of ``min ||y - A z||_2`` subject to ``||z||_0 <= sparsity``, the quaternion orthogonal matching pursuit of Xu, Yu,
    Xu, Zhang and Nguyen, *Vector sparse representation of color image using quaternion matrix analysis*, IEEE Transactions on Image
    Processing 24(4), 2015. With the support ``S`` so far and the residual ``r = y - A_S z_S``, each step adds
    ``arg max_l |a_l^H r|`` to ``S`` and solves ``(A_S^H A_S) z_S = A_S^H y``, after which ``A_S^H r = 0``. The residuals are never
    formed: ``A^H r = A^H y - (A^H A) z``, so a step costs one product with the L×L Gram matrix whatever d is.

    A null atom is appended: patches that need no further atom choose it, which keeps all supports equally long.
    """
    with_null = np.concatenate((atoms, np.zeros_like(atoms[:, :, :1])), axis=2)
    adjoint = conjugate_transpose(with_null)
    gram = matrix_product(adjoint, with_null)
    targets = matrix_product(adjoint, patches)
    norms = np.sqrt(np.einsum("cdp,cdp->p", patches, patches))
    negligible = np.maximum(ROUNDING * norms, np.finfo(np.float64).tiny)  # above zero, so that a zero patch prefers the null atom
    supports = np.empty((0, patches.shape[2]), np.intp)
    correlations, codes = targets, np.zeros_like(targets)
    for _ in range(sparsity):
        choices = _choose_atoms(correlations, supports, negligible=negligible)
        supports = np.concatenate((supports, choices[None]))
        codes = _solve_on_supports(gram, targets, supports=supports)
        correlations = targets - matrix_product(gram, codes)
    return codes[:, :-1]


def _choose_atoms(correlations: FloatArray, supports: NDArray[np.intp], *, negligible: FloatArray) -> NDArray[np.intp]:
    """Return, for each patch, the first of the atoms that correlate best with its residual; the null atom where none does."""
    strength = modulus(correlations)
    # chosen atoms are orthogonal to the residual but for rounding: never twice
    np.put_along_axis(strength, supports, 0, axis=0)
    # the null atom is the last, so it wins only where no other reaches that much
    strength[-1] = negligible
    choices: NDArray[np.intp] = np.argmax(strength >= (1 - ROUNDING) * strength.max(axis=0), axis=0)
    return choices


def _solve_on_supports(gram: FloatArray, targets: FloatArray, *, supports: NDArray[np.intp]) -> FloatArray:
    """Solve the normal equations of all patches, each on its own support; zero elsewhere and for the null atom."""
    n_chosen, n_patches = supports.shape
    # (4, P, n, n): one small system for each patch, all solved at once
    systems = gram[:, supports.T[:, :, None], supports.T[:, None, :]]
    is_null = np.equal(supports.T, gram.shape[1] - 1)
    # the row of the null atom is zero; a one on the diagonal makes the system regular and its coefficient zero
    systems[0] += np.eye(n_chosen) * is_null[:, :, None]
    right_sides = np.take_along_axis(targets, supports[None], axis=1).reshape(4 * n_chosen, n_patches)
    solutions = np.linalg.solve(real_form(systems), right_sides.T[:, :, None])
    codes = np.zeros_like(targets)
    np.put_along_axis(codes, supports[None], solutions[:, :, 0].T.reshape(4, n_chosen, n_patches), axis=1)
    return codes
