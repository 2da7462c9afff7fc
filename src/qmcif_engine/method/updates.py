"""Updates of QFED in closed form: each minimizes the augmented Lagrangian over one variable.

Every update here is the exact minimizer of its sub-problem, because base patches do not overlap (`qmcif_engine.method.patches`): with
overlapping patches the constant 2 of Eq. (10) would have to become the number of patches over each pixel, plus one, and the published
base update would only be an approximation.

Layers are pure quaternion blocks, (3, h, w). Coefficients and dictionary residuals are full quaternions, stored as stacked component
rows: (4 L, P) and (4 d, P).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.method import quaternion
from qmcif_engine.method.operators import gradients_adjoint, solve_screened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

    from qmcif_engine.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class CoefficientOperator:
    """The real matrices of the dictionary and of the coefficient update; they never change during a solve.

    Attributes
    ----------
    synthesis : ndarray of float, shape (4 d, 4 L)
        Real form of ``A``.
    from_patches : ndarray of float, shape (4 L, 4 d)
        Real form of ``(A^H A + I)^-1 A^H``.
    from_coefficients : ndarray of float, shape (4 L, 4 L)
        Real form of ``(A^H A + I)^-1``.
    exact : ndarray of float, shape (4 L, 4 d)
        Real form of the pseudo-inverse of ``A``: the smallest coefficients that explain a patch whole.
    """

    synthesis: FloatArray
    from_patches: FloatArray
    from_coefficients: FloatArray
    exact: FloatArray

    @classmethod
    def from_dictionary(cls, atoms: FloatArray, *, dtype: DTypeLike) -> CoefficientOperator:
        """Prepare the matrices, in float64, from atoms of shape (4, d, L)."""
        synthesis = quaternion.real_form(np.asarray(atoms, np.float64))
        # once for a dictionary; well conditioned, since all eigenvalues are at least 1
        inverse = np.linalg.inv(synthesis.T @ synthesis + np.eye(synthesis.shape[1]))
        exact = np.linalg.pinv(synthesis)
        return cls(synthesis.astype(dtype), (inverse @ synthesis.T).astype(dtype), inverse.astype(dtype), exact.astype(dtype))


def update_low_rank(coefficients: FloatArray, multiplier: FloatArray, *, groups: Sequence[NDArray[np.intp]], penalty: float) -> FloatArray:
    """Return ``J``: in each group of similar patches, the nearest matrix of small nuclear norm.

    Notes
    -----
    ``J_k = argmin 1/mu ||J_k||_* + 1/2 ||J_k - P||_F^2``, ``P = Z_k + Y_1k / mu`` [QMCIF, Eq. (5)], solved by [QMCIF, Lemma 1].
    """
    target = coefficients + multiplier / penalty
    result = np.empty_like(target)
    for members in groups:
        # rows are stacked by component, so the reshape only splits them
        block = target[:, members].reshape(4, -1, len(members))
        result[:, members] = quaternion.shrink_singular_values(block, 1 / penalty).reshape(-1, len(members))
    return result


def update_coefficients(
    low_rank: FloatArray,
    base_patches: FloatArray,
    *,
    coefficient_multiplier: FloatArray,
    dictionary_multiplier: FloatArray,
    operator: CoefficientOperator,
    penalty: float,
) -> FloatArray:
    """Return ``Z``: coefficients that explain the base patches and stay near their low-rank copy.

    Notes
    -----
    ``Z = (A^H A + I)^-1 (A^H (R(B) + Y_2/mu) + Q)``, ``Q = J - Y_1/mu`` [QMCIF, Eqs. (6) and (7)]. The inverse is L x L.
    """
    explained = dictionary_multiplier / penalty
    explained[-len(base_patches) :] += base_patches  # a pure block has no real rows
    near = low_rank - coefficient_multiplier / penalty
    return operator.from_patches @ explained + operator.from_coefficients @ near


def update_gradients(base_gradients: FloatArray, multipliers: FloatArray, *, smoothness: float, penalty: float) -> FloatArray:
    """Return ``G_1`` and ``G_2``, shape (2, 3, h, w): sparse copies of the gradients of the base layer.

    Notes
    -----
    ``G = argmin alpha/mu ||G||_1 + 1/2 ||G - M_1||_F^2`` [QMCIF, Eq. (8)], solved by [QMCIF, Lemma 2].
    ``M_1 = nabla B - Y_3/mu`` follows from the Lagrangian [QMCIF, Eq. (4)].
    """
    return quaternion.shrink_modulus(base_gradients - multipliers / penalty, smoothness / penalty)


def update_base(
    image_target: FloatArray,
    gradient_target: FloatArray,
    *,
    patch_target: FloatArray | None,
) -> FloatArray:
    """Return ``B``: the base layer nearest to its three targets.

    Parameters
    ----------
    image_target : ndarray of float, shape (3, h, w)
        ``M_6 = I - D - E + Y_5/mu``.
    gradient_target : ndarray of float, shape (2, 3, h, w)
        ``M_4 = G_1 + Y_3/mu`` and ``M_5 = G_2 + Y_4/mu``.
    patch_target : ndarray of float, shape (3, h, w), or None
        ``R^-1(M_3)``, ``M_3 = A Z - Y_2/mu``; None without the low-rank term, whose share of the constant 2 then goes.

    Notes
    -----
    [QMCIF, Eq. (9)], solved by [QMCIF, Eq. (10)].

    Departs: ``A Z`` has a real part, which no color image has. The base layer is kept pure, so only the imaginary planes of the patch
    target act; for that constrained problem the update is still the exact minimizer.
    """
    right_side = gradients_adjoint(gradient_target)
    # each target pulls with weight mu, so mu cancels and the screening counts the targets that are not gradients
    right_side += image_target
    screening = 1.0
    if patch_target is not None:
        right_side += patch_target
        screening = 2.0
    return solve_screened(right_side, screening=screening)


def update_detail(target: FloatArray, *, sparsity: float, penalty: float) -> FloatArray:
    """Return ``D``: the sparse part of what the base layer leaves.

    Notes
    -----
    ``D = argmin beta/mu ||D||_1 + 1/2 ||D - M_7||_F^2`` [QMCIF, Eq. (11)], solved by [QMCIF, Lemma 2].
    ``M_7 = I - B - E + Y_5/mu`` follows from the Lagrangian [QMCIF, Eq. (4)].

    Departs: the text names ``Y_4`` here; the Lagrangian has ``Y_5``.
    """
    return quaternion.shrink_modulus(target, sparsity / penalty)


def update_noise(target: FloatArray, *, weight: float, penalty: float) -> FloatArray:
    """Return ``E``: the small dense rest.

    Notes
    -----
    ``E = mu M_8 / (2 lambda + mu)``, ``M_8 = I - D - B + Y_5/mu`` [QMCIF, Eq. (12)].
    """
    return target * np.asarray(penalty / (2 * weight + penalty), target.dtype)
