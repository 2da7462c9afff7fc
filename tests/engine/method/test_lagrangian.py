"""The augmented Lagrangian: its value term by term, and its descent in every update."""

from dataclasses import replace

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import MethodConfig, Precision
from qmcif_engine.method import quaternion
from qmcif_engine.method.lagrangian import augmented_lagrangian
from qmcif_engine.method.solver import initialize, raise_multipliers, sweep

EPS = float(np.finfo(np.float64).eps)
VALUE_TOLERANCE = 1000 * EPS
"""Of a sum over all pixels and patches, relative."""
DESCENT_TOLERANCE = 1000 * EPS
"""By which rounding may raise the Lagrangian, as a share of the sum of its terms' sizes."""

PENALTIES = [0.2, 5.0]
LAYER_ORDER = ("gradients", "base", "detail", "noise")
COEFFICIENT_ORDER = ("low_rank", "coefficients")


def quaternion_length(components):
    return np.sqrt(sum(float(component) ** 2 for component in components))


def constraint(pairs, penalty):
    """Sum <y, r> + mu/2 |r|^2 over pairs of a multiplier and a residual."""
    return sum(float(y) * float(r) + penalty / 2 * float(r) ** 2 for y, r in pairs)


def difference(plane, row, column, axis):
    """Return the forward difference at one pixel; zero at the far border."""
    next_pixel = (row + 1, column) if axis == 0 else (row, column + 1)
    return plane[next_pixel] - plane[row, column] if next_pixel[axis] < plane.shape[axis] else 0.0


def value_of_layers(state, problem, penalty):
    """Return lines three to six of Eq. (4), pixel by pixel."""
    config, value = problem.config, 0.0
    for row, column in np.ndindex(problem.shape):
        at = (slice(None), row, column)
        value += config.detail_sparsity * quaternion_length(state.detail[at])
        value += config.noise_weight * quaternion_length(state.noise[at]) ** 2
        residual = problem.image[at] - state.base[at] - state.detail[at] - state.noise[at]
        value += constraint(zip(state.sum_multiplier[at], residual, strict=True), penalty)
        for axis in (0, 1):
            copy = state.gradients[(axis, *at)]
            residual = [copy[channel] - difference(state.base[channel], row, column, axis) for channel in range(3)]
            value += config.base_smoothness * quaternion_length(copy)
            value += constraint(zip(state.gradient_multipliers[(axis, *at)], residual, strict=True), penalty)
    return value


def value_of_coefficients(state, problem, penalty, *, atoms):
    """Return the first two lines of Eq. (4), group by group and patch by patch, with Hamilton products of single quaternions."""
    patches, side, value = state.patches, problem.config.base_patch_px, 0.0
    patches_across = problem.shape[1] // side
    z, j, y_1 = (block.reshape(4, atoms.shape[2], -1) for block in (patches.coefficients, patches.low_rank, patches.coefficient_multiplier))
    y_2 = patches.dictionary_multiplier.reshape(4, side**2, -1)
    for members in problem.groups:
        adjoint = np.linalg.svd(quaternion.complex_adjoint(j[:, :, members]), compute_uv=False)
        value += adjoint.sum() / 2  # every singular value occurs twice
        for patch in members:
            value += constraint(zip(y_1[:, :, patch].flat, (z - j)[:, :, patch].flat, strict=True), penalty)
            for pixel in range(side**2):
                row, column = patch // patches_across * side + pixel // side, patch % patches_across * side + pixel % side
                residual = np.array([0.0, *state.base[:, row, column]])
                for atom in range(atoms.shape[2]):
                    residual -= quaternion.multiply(atoms[:, pixel, atom, None, None], z[:, atom, patch, None, None])[:, 0, 0]
                value += constraint(zip(y_2[:, pixel, patch], residual, strict=True), penalty)
    return value


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("is_low_rank", [False, True])
def test_value_equals_a_pixel_by_pixel_evaluation_of_the_published_formula(make_tiny_problem, is_low_rank, penalty):
    tiny = make_tiny_problem(0, is_low_rank=is_low_rank)
    expected = value_of_layers(tiny.state, tiny.problem, penalty)
    if is_low_rank:
        expected += value_of_coefficients(tiny.state, tiny.problem, penalty, atoms=tiny.atoms)

    assert augmented_lagrangian(tiny.state, tiny.problem, penalty=penalty) == pytest.approx(expected, rel=VALUE_TOLERANCE)


def allowance(state, problem, penalty):
    """Return how much rounding may move the value: terms of both signs cancel in it."""
    layers = (problem.image, state.base, state.detail, state.noise, state.gradients, state.sum_multiplier, state.gradient_multipliers)
    patches = state.patches
    if patches is not None:
        layers += (patches.coefficients, patches.low_rank, patches.coefficient_multiplier, patches.dictionary_multiplier)
    return DESCENT_TOLERANCE * (1 + penalty) * sum(np.sum(layer**2) for layer in layers)


def states_of_one_sweep(state, problem, *, penalty):
    """Yield each variable's name with the state before and after its update, in the order of the sweep."""
    swept = sweep(state, problem, penalty=penalty)
    if state.patches is not None:
        for name in COEFFICIENT_ORDER:
            after = replace(state, patches=replace(state.patches, **{name: getattr(swept.patches, name)}))
            yield name, state, after
            state = after
    for name in LAYER_ORDER:
        after = replace(state, **{name: getattr(swept, name)})
        yield name, state, after
        state = after


def assert_sweeps_descend(state, problem, *, penalty, n_sweeps):
    value = augmented_lagrangian(state, problem, penalty=penalty)
    for _ in range(n_sweeps):
        state = sweep(state, problem, penalty=penalty)
        lower = augmented_lagrangian(state, problem, penalty=penalty)
        assert lower <= value + allowance(state, problem, penalty)
        value = lower


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("is_low_rank", [False, True])
def test_no_update_of_a_sweep_with_fixed_multipliers_raises_the_value_from_a_random_state(make_tiny_problem, is_low_rank, penalty, seed):
    tiny = make_tiny_problem(seed, is_low_rank=is_low_rank)
    names = []
    for name, before, after in states_of_one_sweep(tiny.state, tiny.problem, penalty=penalty):
        names.append(name)
        lowered = augmented_lagrangian(before, tiny.problem, penalty=penalty) - augmented_lagrangian(after, tiny.problem, penalty=penalty)
        assert lowered > 0, name  # from a random state every update has something to gain

    assert names == [*(COEFFICIENT_ORDER if is_low_rank else ()), *LAYER_ORDER]
    assert_sweeps_descend(tiny.state, tiny.problem, penalty=penalty, n_sweeps=10)


@pytest.mark.parametrize("is_low_rank", [False, True])
def test_sweeps_with_fixed_multipliers_never_raise_the_value_during_a_real_solve(textured_image, is_low_rank):
    config = MethodConfig(is_low_rank=is_low_rank, base_patch_px=5, n_groups=4, precision=Precision.DOUBLE)
    problem, state = initialize(textured_image((20, 25)), config)
    penalty = config.penalty
    for iteration in range(12):
        if iteration in (0, 5, 11):
            assert_sweeps_descend(state, problem, penalty=penalty, n_sweeps=3)
        state, _ = raise_multipliers(sweep(state, problem, penalty=penalty), problem, penalty=penalty)
        penalty *= config.penalty_growth
