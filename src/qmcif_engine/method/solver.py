"""The solver of QFED: an image split into base, detail and noise by the alternating direction method of multipliers (Algorithm 1).

The loop does three things per iteration: update every variable and multiplier, record, and ask whether to stop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qmcif_engine.method import updates
from qmcif_engine.method.dictionary import load_dictionary
from qmcif_engine.method.lagrangian import CoefficientState, Problem, SolverState, residuals
from qmcif_engine.method.operators import gradients, solve_screened
from qmcif_engine.method.patches import cut_patches, group_patches, join_patches, pad_to_grid
from qmcif_engine.method.quaternion import modulus
from qmcif_engine.stack.samples import FULL_SCALE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.config.fusion_config import MethodConfig
    from qmcif_engine.method.updates import CoefficientOperator

LARGEST_PENALTY = 1e6
"""Cap on mu; 20 iterations at the published growth reach 1.3."""


class StopReason(StrEnum):
    """Why the loop ended."""

    TOLERANCE_REACHED = "tolerance reached"
    ITERATIONS_DONE = "all iterations done"


class IterationRecord(NamedTuple):
    """What one iteration did.

    `change` is the relative difference of [QMCIF, section IV-B]: the largest change of a coefficient or detail modulus, as a share of
    255. The residuals are Frobenius norms of the constraints of [QMCIF, Eq. (4)], the two gradients taken together, divided by the norm
    of the image; those of the coefficients are zero where the low-rank term is off.
    """

    penalty: float
    change: float
    sum_residual: float
    gradient_residual: float
    dictionary_residual: float = 0.0
    low_rank_residual: float = 0.0


@dataclass(frozen=True, slots=True)
class History:
    """The records of all iterations, and the reason why there are no more."""

    records: tuple[IterationRecord, ...]
    reason: StopReason


@dataclass(frozen=True, slots=True)
class Decomposition:
    """The layers of one image.

    Attributes
    ----------
    base, detail, noise : ndarray of float, shape (3, h, w)
    coefficients : ndarray of float, shape (4, L, P), or None
        One column per base patch, in row-major order over the grid padded to whole patches; None without the low-rank term.
    history : History
    """

    base: FloatArray
    detail: FloatArray
    noise: FloatArray
    coefficients: FloatArray | None
    history: History


def decompose(image: FloatArray, config: MethodConfig, *, check_cancelled: Callable[[], None] = lambda: None) -> Decomposition:
    """Split an image into a base, a detail and a noise layer.

    Parameters
    ----------
    image : ndarray of float, shape (3, h, w)
        Pure quaternion block on the 0-255 scale, any size from one pixel on.
    config : MethodConfig
    check_cancelled : callable
        Called before each iteration; may raise to end the solve.

    Returns
    -------
    Decomposition

    Notes
    -----
    [QMCIF, Eq. (3)] by [QMCIF, Algorithm 1]; it ends when the relative difference falls to `tolerance` [QMCIF, section IV-A].

    Without the low-rank term (`is_low_rank`) there are neither ``Z`` nor ``J``, and the base layer has no patch target.
    """
    problem, state = initialize(image, config)
    records: list[IterationRecord] = []
    reason, penalty = StopReason.ITERATIONS_DONE, config.penalty
    for _ in range(config.iterations):
        check_cancelled()
        previous = state
        state, sizes = raise_multipliers(sweep(previous, problem, penalty=penalty), problem, penalty=penalty)
        records.append(IterationRecord(penalty, largest_change(previous, state), *sizes))
        if config.tolerance and records[-1].change <= config.tolerance:
            reason = StopReason.TOLERANCE_REACHED
            break
        # mu grows, so that the constraints come to hold
        penalty = min(LARGEST_PENALTY, penalty * config.penalty_growth)
    # the padding is dropped; coefficients keep theirs, since they belong to whole patches
    height, width = image.shape[-2:]
    base, detail, noise = (np.ascontiguousarray(layer[:, :height, :width]) for layer in (state.base, state.detail, state.noise))
    coefficients = None if state.patches is None else _by_component(state.patches.coefficients)
    return Decomposition(base, detail, noise, coefficients, History(tuple(records), reason))


def initialize(image: FloatArray, config: MethodConfig) -> tuple[Problem, SolverState]:
    """Pad the image to whole patches, form the groups and set the published first values.

    Notes
    -----
    ``B = (nabla^T nabla + 1)^-1 I``, ``D = I - B``, ``E`` and all multipliers 0 [QMCIF, section IV-B]; the text omits the inverse
    transform. ``Z = A^+ R(B)``, ``J = Z`` and ``G = nabla B`` are not given there; all three satisfy their constraints. With
    ``(A^H A + I)^-1 A^H`` in place of the pseudo-inverse ``A^+``, ``A Z`` would start at about half of ``R(B)``: while mu grows, part of
    that difference stays in the detail layer, with steps between base patches that pass for focus.
    """
    padded = pad_to_grid(image.astype(config.precision.value, copy=False), patch_px=config.base_patch_px)
    base = solve_screened(padded, screening=1.0)
    operator: CoefficientOperator | None = None
    groups: tuple[NDArray[np.intp], ...] = ()
    patches: CoefficientState | None = None
    if config.is_low_rank:
        base_patches = cut_patches(base, patch_px=config.base_patch_px)
        operator = _load_operator(config.base_patch_px, config.precision.value)
        groups = group_patches(base_patches, n_groups=config.n_groups, seed=config.cluster_seed)
        # the last 3 d columns: base patches are pure quaternions and come without their real rows
        coefficients = operator.exact[:, -len(base_patches) :] @ base_patches
        residual_rows = np.zeros((len(operator.synthesis), base_patches.shape[1]), base.dtype)
        patches = CoefficientState(coefficients, coefficients, np.zeros_like(coefficients), residual_rows)
    fields = gradients(base)
    zeros = np.zeros_like(base)
    # noise starts at zero, so the detail layer takes all that the base layer leaves
    state = SolverState(base, padded - base, zeros, zeros, fields, np.zeros_like(fields), patches)
    return Problem(padded, config, operator, groups), state


@cache
def _load_operator(patch_px: int, dtype_name: str) -> CoefficientOperator:
    """Return the matrices of the shipped dictionary; every image of a stack asks for the same."""
    return updates.CoefficientOperator.from_dictionary(load_dictionary(patch_px), dtype=np.dtype(dtype_name))


def sweep(state: SolverState, problem: Problem, *, penalty: float) -> SolverState:
    """Update every variable once, in the order of [QMCIF, Algorithm 1], with the multipliers fixed."""
    config = problem.config
    # in the order J, Z, G, B, D, E: each update uses the newest of those before it
    patches = _updated_coefficients(state, problem, penalty=penalty)
    fields = updates.update_gradients(gradients(state.base), state.gradient_multipliers, smoothness=config.base_smoothness, penalty=penalty)
    # I + Y_5/mu, from which layers are subtracted in place as they become known
    known = problem.image + state.sum_multiplier / penalty
    base = updates.update_base(
        known - state.detail - state.noise,
        fields + state.gradient_multipliers / penalty,
        patch_target=_patch_target(patches, problem, penalty=penalty),
    )
    known -= base
    detail = updates.update_detail(known - state.noise, sparsity=config.detail_sparsity, penalty=penalty)
    known -= detail
    noise = updates.update_noise(known, weight=config.noise_weight, penalty=penalty)
    return replace(state, base=base, detail=detail, noise=noise, gradients=fields, patches=patches)


def _updated_coefficients(state: SolverState, problem: Problem, *, penalty: float) -> CoefficientState | None:
    patches, operator = state.patches, problem.operator
    if patches is None or operator is None:
        return None
    low_rank = updates.update_low_rank(patches.coefficients, patches.coefficient_multiplier, groups=problem.groups, penalty=penalty)
    coefficients = updates.update_coefficients(
        low_rank,
        problem.cut(state.base),
        coefficient_multiplier=patches.coefficient_multiplier,
        dictionary_multiplier=patches.dictionary_multiplier,
        operator=operator,
        penalty=penalty,
    )
    return replace(patches, coefficients=coefficients, low_rank=low_rank)


def _patch_target(patches: CoefficientState | None, problem: Problem, *, penalty: float) -> FloatArray | None:
    """Return the imaginary planes of ``R^-1(A Z - Y_2/mu)``, shape (3, h, w)."""
    if patches is None or problem.operator is None:
        return None
    # the first d rows are the real part of A Z, which the pure base layer has not
    d = problem.config.base_patch_px**2
    target = problem.operator.synthesis[d:] @ patches.coefficients - patches.dictionary_multiplier[d:] / penalty
    return join_patches(target, shape=problem.shape, patch_px=problem.config.base_patch_px)


def raise_multipliers(state: SolverState, problem: Problem, *, penalty: float) -> tuple[SolverState, tuple[float, ...]]:
    """Add ``mu`` times each constraint's residual to its multiplier, and return the relative norms of the residuals.

    Notes
    -----
    The multiplier lines of [QMCIF, Algorithm 1], for ``Y_1`` to ``Y_5``.
    """
    rest = residuals(state, problem)
    patches = state.patches
    if patches is not None:
        patches = replace(
            patches,
            coefficient_multiplier=patches.coefficient_multiplier + penalty * rest.of_low_rank,
            dictionary_multiplier=patches.dictionary_multiplier + penalty * rest.of_dictionary,
        )
    raised = replace(
        state,
        sum_multiplier=state.sum_multiplier + penalty * rest.of_sum,
        gradient_multipliers=state.gradient_multipliers + penalty * rest.of_gradients,
        patches=patches,
    )
    scale = max(_norm(problem.image), float(np.finfo(np.float32).tiny))
    return raised, tuple(_norm(residual) / scale for residual in rest)


def largest_change(previous: SolverState, current: SolverState) -> float:
    """Return the relative difference ``max(||Z' - Z||_inf, ||D' - D||_inf)`` of [QMCIF, section IV-B].

    Departs: divided by 255, because on the 0-255 scale float32 could not resolve the published 1e-5.
    """
    change = float(modulus(current.detail - previous.detail).max())
    if current.patches is not None and previous.patches is not None:
        difference = current.patches.coefficients - previous.patches.coefficients
        change = max(change, float(modulus(_by_component(difference)).max()))
    return change / FULL_SCALE


def _by_component(rows: FloatArray) -> FloatArray:
    """Return stacked component rows, shape (4 L, P), as a quaternion matrix, shape (4, L, P)."""
    return rows.reshape(4, -1, rows.shape[1])


def _norm(values: FloatArray) -> float:
    """Return the Frobenius norm, summed in float64."""
    return float(np.sqrt(np.einsum("i,i->", values.reshape(-1), values.reshape(-1), dtype=np.float64)))
