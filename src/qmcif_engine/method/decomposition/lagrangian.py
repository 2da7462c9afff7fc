"""The augmented Lagrangian of QFED, to check that the updates descend on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.method.decomposition.solver import residuals
from qmcif_engine.method.quaternion import modulus, singular_values

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.method.decomposition.solver import Problem, SolverState


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
