"""QFED as a whole: first values, multipliers, history, stopping, optimality, and awkward images."""

from dataclasses import replace

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import MethodConfig, Precision
from qmcif_engine.method import quaternion, solver
from qmcif_engine.method.dictionary import load_dictionary
from qmcif_engine.method.operators import gradients, gradients_adjoint
from qmcif_engine.method.patches import cut_patches, join_patches
from qmcif_engine.method.solver import StopReason, decompose, initialize, raise_multipliers, sweep

EPS = float(np.finfo(np.float64).eps)
EPS_SINGLE = float(np.finfo(np.float32).eps)
FULL_SCALE = 255
LINEAR_TOLERANCE = 1000 * EPS
"""Of a few linear operations in float64, as a share of the largest number in them."""
SINGLE_TOLERANCE = 50 * EPS_SINGLE * FULL_SCALE
"""In gray levels, of a solve in float32: some ten iterations, each of which rounds a few times."""
OPTIMALITY_TOLERANCE = 1e-6
"""Of the conditions of the minimum after a finite number of iterations: convergence, not rounding, sets it."""
RESIDUAL_DECAY = 0.01
"""Share of the first residual that must be left after `DECAY_ITERATIONS`, while the penalty grows."""
SMALL_RESIDUAL = 1e-3
"""What is left of a residual that is small from the beginning, because the first coefficients explain the base layer."""
DECAY_ITERATIONS = 40
DECAY_BLOCK = 10

RESIDUALS = ("sum_residual", "gradient_residual", "dictionary_residual", "low_rank_residual")
PUBLISHED = {"base_smoothness": 1.5, "detail_sparsity": 0.5, "noise_weight": 0.05}
WITH_AND_WITHOUT_LOW_RANK = pytest.mark.parametrize("is_low_rank", [False, True])


def settings(**changes):
    """Return settings with small patches and few groups, for speed, changed as asked."""
    return MethodConfig(**{"base_patch_px": 5, "n_groups": 3, "is_low_rank": False, "iterations": 3, **changes})


def layers_of(decomposition):
    return decomposition.base, decomposition.detail, decomposition.noise


def all_finite(decomposition):
    arrays = [*layers_of(decomposition), *([] if decomposition.coefficients is None else [decomposition.coefficients])]
    return all(np.isfinite(array).all() for array in arrays) and np.isfinite(decomposition.history.records).all()


def test_converged_layers_satisfy_the_conditions_of_the_published_minimum(textured_image):
    """With a constant penalty the splitting converges to the minimizer of Eq. (3) without its first term.

    There y = 2 lambda E is the multiplier of I = B + D + E: no longer than beta, and beta D/|D| where D is not zero. It is also minus the
    adjoint gradient of the multiplier of G = grad B, which is -alpha G/|G| where the gradient is not zero and no longer than alpha.
    """
    image = textured_image((10, 15))
    config = settings(precision=Precision.DOUBLE, iterations=1000, penalty=0.2, penalty_growth=1.0, **PUBLISHED)
    problem, state = initialize(image, config)
    for _ in range(config.iterations):
        state, _ = raise_multipliers(sweep(state, problem, penalty=config.penalty), problem, penalty=config.penalty)
    y = 2 * config.noise_weight * state.noise
    length = quaternion.modulus(state.detail)
    is_detail = length > OPTIMALITY_TOLERANCE
    slope = quaternion.modulus(state.gradients)
    is_edge = slope > 1e-3  # a direction is well defined there
    w = -state.gradient_multipliers

    assert 0.05 < is_detail.mean() < 0.95
    assert 0.05 < is_edge.mean() < 0.95
    np.testing.assert_allclose(sum((state.base, state.detail, state.noise)), image, rtol=0, atol=OPTIMALITY_TOLERANCE)
    np.testing.assert_allclose(state.gradients, gradients(state.base), rtol=0, atol=OPTIMALITY_TOLERANCE)
    np.testing.assert_allclose(y, state.sum_multiplier, rtol=0, atol=OPTIMALITY_TOLERANCE)
    assert quaternion.modulus(y).max() <= config.detail_sparsity + OPTIMALITY_TOLERANCE
    np.testing.assert_allclose(
        y[:, is_detail], config.detail_sparsity * (state.detail / np.maximum(length, EPS))[:, is_detail], rtol=0, atol=OPTIMALITY_TOLERANCE
    )
    assert quaternion.modulus(w).max() <= config.base_smoothness + OPTIMALITY_TOLERANCE
    for axis in (0, 1):
        direction = (state.gradients[axis] / np.maximum(slope[axis], EPS))[:, is_edge[axis]]
        np.testing.assert_allclose(w[axis][:, is_edge[axis]], config.base_smoothness * direction, rtol=0, atol=OPTIMALITY_TOLERANCE)
    np.testing.assert_allclose(gradients_adjoint(w), y, rtol=0, atol=OPTIMALITY_TOLERANCE)


def unitary_atoms(n_atoms):
    """Return a quaternion matrix with A^H A = 1, for quick convergence: all singular values of a random one are set to 1."""
    left, _, right = np.linalg.svd(quaternion.complex_adjoint(np.random.default_rng(1).normal(size=(4, n_atoms, n_atoms))))
    first, second = np.split((left @ right)[:n_atoms], 2, axis=1)
    return np.stack((first.real, first.imag, second.real, second.imag))


def test_converged_coefficients_satisfy_the_conditions_of_the_published_minimum(textured_image, make_initialized_problem):
    """As above, with the first term: its multiplier Y_1 = A^H Y_2 is a subgradient of the nuclear norm of each group's coefficients."""
    config = settings(precision=Precision.DOUBLE, is_low_rank=True, penalty=0.1, penalty_growth=1.0, detail_sparsity=2.0)
    atoms, groups = unitary_atoms(25), [(0, 1, 3), (2, 4, 5)]
    problem, state = make_initialized_problem(textured_image((10, 15)), config, atoms=atoms, groups=groups)
    for _ in range(300):
        state, sizes = raise_multipliers(sweep(state, problem, penalty=config.penalty), problem, penalty=config.penalty)
    patches = state.patches
    patch_multiplier = join_patches(patches.dictionary_multiplier[25:], shape=problem.shape, patch_px=5)

    assert max(sizes) < OPTIMALITY_TOLERANCE
    np.testing.assert_allclose(
        patches.coefficient_multiplier, problem.operator.synthesis.T @ patches.dictionary_multiplier, rtol=0, atol=OPTIMALITY_TOLERANCE
    )
    np.testing.assert_allclose(
        gradients_adjoint(-state.gradient_multipliers) + patch_multiplier, state.sum_multiplier, rtol=0, atol=OPTIMALITY_TOLERANCE
    )
    for members in problem.groups:
        y, j = (block[:, members].reshape(4, 25, -1) for block in (patches.coefficient_multiplier, patches.low_rank))
        nuclear = quaternion.singular_values(j).sum()
        assert nuclear > FULL_SCALE  # the base layer did not vanish
        assert quaternion.singular_values(y)[0] <= 1 + OPTIMALITY_TOLERANCE
        assert np.sum(y * j) == pytest.approx(nuclear, rel=OPTIMALITY_TOLERANCE)


# awkward images and settings


@WITH_AND_WITHOUT_LOW_RANK
def test_first_values_are_the_published_ones_and_coefficients_explain_the_base_layer_whole(textured_image, is_low_rank):
    image = textured_image((10, 15))
    problem, state = initialize(image, settings(precision=Precision.DOUBLE, is_low_rank=is_low_rank))
    smoothed = gradients_adjoint(gradients(state.base)) + state.base

    np.testing.assert_array_equal(problem.image, image)
    np.testing.assert_allclose(smoothed, image, rtol=0, atol=LINEAR_TOLERANCE * FULL_SCALE)
    np.testing.assert_array_equal(state.detail, image - state.base)
    np.testing.assert_array_equal(state.gradients, gradients(state.base))
    assert not np.any([state.noise, state.sum_multiplier, *state.gradient_multipliers])
    if not is_low_rank:
        assert (state.patches, problem.operator, problem.groups) == (None, None, ())
        return
    patches, atoms = state.patches, load_dictionary(5).astype(np.float64)
    z = patches.coefficients.reshape(4, atoms.shape[2], -1)
    pure = np.zeros((4, 25, 6))
    pure[1:] = cut_patches(state.base, patch_px=5).reshape(3, 25, 6)
    # the atoms of a dictionary are nearly dependent, which makes coefficients large and their rounding with them
    rounding = LINEAR_TOLERANCE * np.abs(z).max() * atoms.shape[2]
    np.testing.assert_allclose(quaternion.matrix_product(atoms, z), pure, rtol=0, atol=rounding)
    np.testing.assert_array_equal(patches.low_rank, patches.coefficients)
    assert patches.dictionary_multiplier.shape == (100, 6)
    assert not patches.coefficient_multiplier.any()
    assert not patches.dictionary_multiplier.any()


def test_groups_are_formed_from_the_patches_of_the_first_base_layer(textured_image):
    """The left half is smooth and dark, the right half bright: no group reaches across."""
    image = textured_image((20, 40)) * 0.1
    image[:, :, 20:] += 200
    problem, _ = initialize(image, settings(is_low_rank=True, n_groups=2))
    is_right = np.tile(np.repeat([False, True], 4), 4)

    assert [len(np.unique(is_right[members])) for members in problem.groups] == [1, 1]


@pytest.mark.parametrize("penalty", [0.2, 5.0])
def test_multipliers_rise_by_the_penalty_times_the_residuals(make_tiny_problem, penalty):
    tiny = make_tiny_problem(0, is_low_rank=True)
    state, problem, patches = tiny.state, tiny.problem, tiny.state.patches
    raised, sizes = raise_multipliers(state, problem, penalty=penalty)
    pure = np.concatenate((np.zeros((25, 6)), cut_patches(state.base, patch_px=5)))
    expected = (
        (raised, state, "sum_multiplier", problem.image - state.base - state.detail - state.noise),
        (raised, state, "gradient_multipliers", state.gradients - gradients(state.base)),
        (raised.patches, patches, "dictionary_multiplier", pure - problem.operator.synthesis @ patches.coefficients),
        (raised.patches, patches, "coefficient_multiplier", patches.coefficients - patches.low_rank),
    )

    for (after, before, name, residual), size in zip(expected, sizes, strict=True):
        accepted = LINEAR_TOLERANCE * np.abs(residual).max()
        np.testing.assert_allclose(getattr(after, name), getattr(before, name) + penalty * residual, rtol=0, atol=accepted)
        assert size == pytest.approx(np.linalg.norm(residual) / np.linalg.norm(problem.image), rel=LINEAR_TOLERANCE)


@WITH_AND_WITHOUT_LOW_RANK
def test_result_and_records_are_those_of_sweeps_and_raised_multipliers_in_turn(textured_image, is_low_rank):
    image, config, checks = textured_image((10, 15)), settings(precision=Precision.DOUBLE, is_low_rank=is_low_rank, iterations=4), []
    decomposition = decompose(image, config, check_cancelled=lambda: checks.append(None))
    problem, state = initialize(image, config)

    for iteration, record in enumerate(decomposition.history.records):
        penalty = record.penalty
        state, sizes = raise_multipliers(sweep(state, problem, penalty=penalty), problem, penalty=penalty)
        assert record[2:] == pytest.approx(sizes, rel=LINEAR_TOLERANCE), iteration
        assert all(type(number) is float for number in record)
    assert len(checks) == 4
    for layer, expected in zip(layers_of(decomposition), (state.base, state.detail, state.noise), strict=True):
        np.testing.assert_allclose(layer, expected, rtol=0, atol=LINEAR_TOLERANCE * FULL_SCALE)
    if is_low_rank:
        np.testing.assert_array_equal(decomposition.coefficients.reshape(100, 6), state.patches.coefficients)


@pytest.mark.parametrize(("penalty", "growth"), [(0.2, 1.1), (1.0, 1.0), (900.0, 10.0)])
def test_penalties_grow_by_their_factor_up_to_the_largest(textured_image, penalty, growth):
    config = settings(iterations=8, penalty=penalty, penalty_growth=growth)
    records = decompose(textured_image((5, 5)), config).history.records

    expected = [min(solver.LARGEST_PENALTY, penalty * growth**iteration) for iteration in range(8)]
    assert [record.penalty for record in records] == pytest.approx(expected, rel=LINEAR_TOLERANCE)


@WITH_AND_WITHOUT_LOW_RANK
def test_residuals_shrink_with_the_iterations_until_the_change_is_small_enough(textured_image, is_low_rank):
    """All fall below one per cent of the largest, or are small anyway, and each ten iterations stay below the largest of the ten before.

    Not monotone: single iterations may raise a residual in the beginning.
    """
    image, config = textured_image((20, 25)), settings(precision=Precision.DOUBLE, is_low_rank=is_low_rank, iterations=DECAY_ITERATIONS)
    records = decompose(image, config).history.records
    for name in RESIDUALS if is_low_rank else RESIDUALS[:2]:
        values = np.array([getattr(record, name) for record in records])
        assert values[-1] < max(RESIDUAL_DECAY * values.max(), SMALL_RESIDUAL), name
        assert np.all(np.diff(values.reshape(-1, DECAY_BLOCK).max(axis=1)) < 0), name

    tolerance = 1e-3
    history = decompose(image, replace(config, tolerance=tolerance)).history
    assert history.reason is StopReason.TOLERANCE_REACHED
    assert 1 < len(history.records) < DECAY_ITERATIONS
    assert history.records[-1].change <= tolerance < min(record.change for record in history.records[:-1])


@pytest.mark.parametrize("precision", list(Precision))
@WITH_AND_WITHOUT_LOW_RANK
def test_layers_have_the_precision_asked_for_whatever_the_memory_order(textured_image, precision, is_low_rank):
    image = textured_image((23, 29)).astype(np.float32)
    config = settings(precision=precision, is_low_rank=is_low_rank)

    expected, double = decompose(image, config), decompose(image, replace(config, precision=Precision.DOUBLE))
    reordered = decompose(np.moveaxis(np.ascontiguousarray(np.moveaxis(image, 0, -1)), -1, 0), config)

    assert (None if expected.coefficients is None else expected.coefficients.shape) == ((4, 25, 30) if is_low_rank else None)
    for one, other, precise in zip(layers_of(expected), layers_of(reordered), layers_of(double), strict=True):
        assert (one.dtype, one.shape) == (precision.value, (3, 23, 29))
        assert one.flags.c_contiguous
        assert one.tobytes() == other.tobytes()
        np.testing.assert_allclose(one, precise, rtol=0, atol=SINGLE_TOLERANCE)


@pytest.mark.parametrize("level", [0.0, 1e-3, 255.0])
@pytest.mark.parametrize("precision", list(Precision))
def test_constant_image_has_exactly_no_detail(level, precision):
    decomposition = decompose(np.full((3, 17, 23), level), settings(precision=precision, iterations=20))

    assert all_finite(decomposition)
    assert not decomposition.detail.any()
    np.testing.assert_allclose(decomposition.base, level, rtol=0, atol=SINGLE_TOLERANCE)


@pytest.mark.parametrize(("shape", "base_patch_px"), [((1, 1), 5), ((3, 5), 8), ((1, 9), 10), ((2, 2), 8)])
@WITH_AND_WITHOUT_LOW_RANK
def test_image_smaller_than_a_patch_is_decomposed(textured_image, shape, base_patch_px, is_low_rank):
    decomposition = decompose(textured_image(shape), settings(base_patch_px=base_patch_px, is_low_rank=is_low_rank))

    assert all_finite(decomposition)
    assert all(layer.shape == (3, *shape) for layer in layers_of(decomposition))


@pytest.mark.parametrize("name", PUBLISHED)
@WITH_AND_WITHOUT_LOW_RANK
def test_each_term_can_be_switched_off(textured_image, name, is_low_rank):
    image = textured_image((20, 25))
    decomposition = decompose(image, settings(is_low_rank=is_low_rank, iterations=20, **{name: 0.0}))

    assert all_finite(decomposition)
    np.testing.assert_allclose(sum(layers_of(decomposition)), image, rtol=0, atol=0.1)
    if name == "detail_sparsity":  # detail that costs nothing takes all that the base layer leaves
        np.testing.assert_allclose(decomposition.noise, 0, rtol=0, atol=0.1)
