"""The variables of QFED, its constraints, and its augmented Lagrangian, on which the updates descend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qmcif_engine.method.operators import gradients
from qmcif_engine.method.patches import cut_patches
from qmcif_engine.method.quaternion import modulus, singular_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.config.fusion_config import MethodConfig
    from qmcif_engine.method.updates import CoefficientOperator


@dataclass(frozen=True, slots=True)
class CoefficientState:
    """The variables of the low-rank term: ``Z`` and ``J`` (4 L, P), ``Y_1`` (4 L, P) and ``Y_2`` (4 d, P)."""

    coefficients: FloatArray
    low_rank: FloatArray
    coefficient_multiplier: FloatArray
    dictionary_multiplier: FloatArray


@dataclass(frozen=True, slots=True)
class SolverState:
    """Every variable of Algorithm 1: ``B``, ``D``, ``E``, ``Y_5`` (3, h, w), ``G_1``, ``G_2`` and ``Y_3``, ``Y_4`` (2, 3, h, w)."""

    base: FloatArray
    detail: FloatArray
    noise: FloatArray
    sum_multiplier: FloatArray
    gradients: FloatArray
    gradient_multipliers: FloatArray
    patches: CoefficientState | None


@dataclass(frozen=True, slots=True)
class Problem:
    """What stays fixed during a solve: the padded image, the settings, the dictionary and the groups."""

    image: FloatArray
    config: MethodConfig
    operator: CoefficientOperator | None
    groups: tuple[NDArray[np.intp], ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the padded image."""
        return self.image.shape[-2], self.image.shape[-1]

    def cut(self, layer: FloatArray) -> FloatArray:
        """Apply ``R`` to a layer."""
        return cut_patches(layer, patch_px=self.config.base_patch_px)


class Residuals(NamedTuple):
    """By how much a state misses each constraint of [QMCIF, Eq. (4)].

    Attributes
    ----------
    of_sum : ndarray of float, shape (3, h, w)
        ``I - B - D - E``.
    of_gradients : ndarray of float, shape (2, 3, h, w)
        ``G_1 - nabla_1 B`` and ``G_2 - nabla_2 B``.
    of_dictionary : ndarray of float, shape (4 d, P)
        ``R(B) - A Z``; empty without the low-rank term.
    of_low_rank : ndarray of float, shape (4 L, P)
        ``Z - J``; empty without the low-rank term.
    """

    of_sum: FloatArray
    of_gradients: FloatArray
    of_dictionary: FloatArray
    of_low_rank: FloatArray


def residuals(state: SolverState, problem: Problem) -> Residuals:
    """Return what each constraint leaves."""
    of_sum = problem.image - state.base - state.detail - state.noise
    of_gradients = state.gradients - gradients(state.base)
    patches, nothing = state.patches, np.empty((0, 0), of_sum.dtype)
    if patches is None or problem.operator is None:
        return Residuals(of_sum, of_gradients, nothing, nothing)
    # written as a negative first, so that no second array of this size is needed
    of_dictionary = -(problem.operator.synthesis @ patches.coefficients)
    base_patches = problem.cut(state.base)
    of_dictionary[-len(base_patches) :] += base_patches  # a pure block has no real rows
    return Residuals(of_sum, of_gradients, of_dictionary, patches.coefficients - patches.low_rank)


def augmented_lagrangian(state: SolverState, problem: Problem, *, penalty: float) -> float:
    """Return the value of [QMCIF, Eq. (4)], in float64; without the low-rank term its lines are left out."""
    config = problem.config
    rest = residuals(state, problem)
    value = (
        config.base_smoothness * _total(modulus(state.gradients))
        + config.detail_sparsity * _total(modulus(state.detail))
        + config.noise_weight * _inner(state.noise, state.noise)
        + _constraint(state.sum_multiplier, rest.of_sum, penalty=penalty)
        + _constraint(state.gradient_multipliers, rest.of_gradients, penalty=penalty)
    )
    if state.patches is None:
        return value
    # stacked component rows back to quaternion matrices, group by group, since the nuclear norm is not additive
    groups = (state.patches.low_rank[:, members].reshape(4, -1, len(members)) for members in problem.groups)
    return (
        value
        + sum(_total(singular_values(group)) for group in groups)
        + _constraint(state.patches.coefficient_multiplier, rest.of_low_rank, penalty=penalty)
        + _constraint(state.patches.dictionary_multiplier, rest.of_dictionary, penalty=penalty)
    )


def _constraint(multiplier: FloatArray, residual: FloatArray, *, penalty: float) -> float:
    return _inner(multiplier, residual) + penalty / 2 * _inner(residual, residual)


def _inner(left: FloatArray, right: FloatArray) -> float:
    return float(np.sum(left * right, dtype=np.float64))


def _total(values: FloatArray) -> float:
    return float(np.sum(values, dtype=np.float64))
