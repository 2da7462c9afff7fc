"""Evaluate the augmented Lagrangian of QFED, to check that the updates descend on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.decomposition.operators import gradients
from qmcif_engine.quaternion import modulus, singular_values

if TYPE_CHECKING:
    from qmcif_engine.array_types import FloatArray
    from qmcif_engine.decomposition.solver import CoefficientState, Problem, SolverState


def augmented_lagrangian(state: SolverState, problem: Problem, *, penalty: float) -> float:
    """Return the value of [QMCIF, Eq. (4)], in float64; without the low-rank term its lines are left out."""
    config = problem.config
    of_sum = problem.image - state.base - state.detail - state.noise
    of_gradients = state.gradients - gradients(state.base)
    value = (
        config.base_smoothness * _total(modulus(state.gradients))
        + config.detail_sparsity * _total(modulus(state.detail))
        + config.noise_weight * _inner(state.noise, state.noise)
        + _constraint(state.sum_multiplier, of_sum, penalty)
        + _constraint(state.gradient_multipliers, of_gradients, penalty)
    )
    if state.patches is not None:
        value += _low_rank_lines(state.patches, state.base, problem, penalty=penalty)
    return value


def _low_rank_lines(patches: CoefficientState, base: FloatArray, problem: Problem, *, penalty: float) -> float:
    """Return the first two lines of [QMCIF, Eq. (4)]."""
    assert problem.operator is not None
    nuclear = sum(float(singular_values(patches.low_rank[:, members].reshape(4, -1, len(members))).sum()) for members in problem.groups)
    of_dictionary = -(problem.operator.synthesis @ patches.coefficients)
    base_patches = problem.cut(base)
    of_dictionary[-len(base_patches) :] += base_patches
    return (
        nuclear
        + _constraint(patches.coefficient_multiplier, patches.coefficients - patches.low_rank, penalty)
        + _constraint(patches.dictionary_multiplier, of_dictionary, penalty)
    )


def _constraint(multiplier: FloatArray, residual: FloatArray, penalty: float) -> float:
    return _inner(multiplier, residual) + penalty / 2 * _inner(residual, residual)


def _inner(left: FloatArray, right: FloatArray) -> float:
    return float(np.sum(left * right, dtype=np.float64))


def _total(values: FloatArray) -> float:
    return float(np.sum(values, dtype=np.float64))
