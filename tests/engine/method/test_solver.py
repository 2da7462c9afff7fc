"""QFED as a whole: first values, multipliers, history, stopping, optimality, and awkward images."""

import json

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import MethodConfig, Precision
from qmcif_engine.method import quaternion, solver
from qmcif_engine.method.dictionary import load_dictionary
from qmcif_engine.method.lagrangian import residuals
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


def assert_same_bytes(one, other):
    for name in ("base", "detail", "noise", "coefficients"):
        first, second = getattr(one, name), getattr(other, name)
        assert (first is None) == (second is None)
        assert first is None or first.tobytes() == second.tobytes(), name
    assert one.history == other.history


def layers_of(decomposition):
    return decomposition.base, decomposition.detail, decomposition.noise


def all_finite(decomposition):
    arrays = [*layers_of(decomposition), *([] if decomposition.coefficients is None else [decomposition.coefficients])]
    return all(np.isfinite(array).all() for array in arrays) and np.isfinite(decomposition.history.records).all()


# first values


@WITH_AND_WITHOUT_LOW_RANK
def test_first_layers_are_the_published_ones(textured_image, is_low_rank):
    image = textured_image((10, 15))
    problem, state = initialize(image, settings(precision=Precision.DOUBLE, is_low_rank=is_low_rank))
    smoothed = gradients_adjoint(gradients(state.base)) + state.base

    np.testing.assert_array_equal(problem.image, image)
    np.testing.assert_allclose(smoothed, image, rtol=0, atol=LINEAR_TOLERANCE * FULL_SCALE)
    np.testing.assert_array_equal(state.detail, image - state.base)
    np.testing.assert_array_equal(state.gradients, gradients(state.base))
    for zero in (state.noise, state.sum_multiplier, state.gradient_multipliers):
        np.testing.assert_array_equal(zero, 0)


def test_first_coefficients_explain_the_base_layer_whole(textured_image):
    _, state = initialize(textured_image((10, 15)), settings(precision=Precision.DOUBLE, is_low_rank=True))
    patches, atoms = state.patches, load_dictionary(5).astype(np.float64)
    z = patches.coefficients.reshape(4, atoms.shape[2], -1)
    pure = np.zeros((4, 25, 6))
    pure[1:] = cut_patches(state.base, patch_px=5).reshape(3, 25, 6)

    # the atoms of a dictionary are nearly dependent, which makes coefficients large and their rounding with them
    rounding = LINEAR_TOLERANCE * np.abs(z).max() * atoms.shape[2]
    np.testing.assert_allclose(quaternion.matrix_product(atoms, z), pure, rtol=0, atol=rounding)
    np.testing.assert_array_equal(patches.low_rank, patches.coefficients)
    np.testing.assert_array_equal(patches.coefficient_multiplier, 0)
    np.testing.assert_array_equal(patches.dictionary_multiplier, 0)
    assert patches.dictionary_multiplier.shape == (100, 6)


def test_groups_are_formed_from_the_patches_of_the_first_base_layer(textured_image):
    """The left half is smooth and dark, the right half bright: no group reaches across."""
    image = textured_image((20, 40)) * 0.1
    image[:, :, 20:] += 200
    problem, _ = initialize(image, settings(is_low_rank=True, n_groups=2))
    is_right = np.tile(np.repeat([False, True], 4), 4)

    assert len(problem.groups) == 2
    assert all(len(np.unique(is_right[members])) == 1 for members in problem.groups)


def test_without_the_low_rank_term_nothing_of_it_exists(textured_image):
    problem, state = initialize(textured_image((10, 15)), settings())

    assert state.patches is None
    assert problem.operator is None
    assert problem.groups == ()
    assert decompose(textured_image((10, 15)), settings(iterations=1)).coefficients is None


# multipliers and history


@pytest.mark.parametrize("penalty", [0.2, 5.0])
def test_multipliers_rise_by_the_penalty_times_the_residuals(make_tiny_problem, penalty):
    tiny = make_tiny_problem(0, is_low_rank=True)
    state, problem, patches = tiny.state, tiny.problem, tiny.state.patches
    raised, sizes = raise_multipliers(state, problem, penalty=penalty)
    rest = residuals(state, problem)
    of_sum = problem.image - state.base - state.detail - state.noise
    of_gradients = state.gradients - gradients(state.base)
    of_low_rank = patches.coefficients - patches.low_rank
    pure = np.concatenate((np.zeros((25, 6)), cut_patches(state.base, patch_px=5)))
    of_dictionary = pure - problem.operator.synthesis @ patches.coefficients

    def assert_raised(after, before, residual, found, size):
        np.testing.assert_allclose(found, residual, rtol=0, atol=LINEAR_TOLERANCE * np.abs(residual).max())
        np.testing.assert_allclose(after, before + penalty * residual, rtol=0, atol=LINEAR_TOLERANCE * np.abs(residual).max())
        assert size == pytest.approx(np.linalg.norm(residual) / np.linalg.norm(problem.image), rel=LINEAR_TOLERANCE)

    assert_raised(raised.sum_multiplier, state.sum_multiplier, of_sum, rest.of_sum, sizes[0])
    assert_raised(raised.gradient_multipliers, state.gradient_multipliers, of_gradients, rest.of_gradients, sizes[1])
    assert_raised(raised.patches.coefficient_multiplier, patches.coefficient_multiplier, of_low_rank, rest.of_low_rank, sizes[3])
    assert_raised(raised.patches.dictionary_multiplier, patches.dictionary_multiplier, of_dictionary, rest.of_dictionary, sizes[2])


@WITH_AND_WITHOUT_LOW_RANK
def test_result_and_records_are_those_of_sweeps_and_raised_multipliers_in_turn(textured_image, is_low_rank):
    image, config = textured_image((10, 15)), settings(precision=Precision.DOUBLE, is_low_rank=is_low_rank, iterations=4)
    decomposition = decompose(image, config)
    problem, state = initialize(image, config)

    for iteration, record in enumerate(decomposition.history.records):
        penalty = record.penalty
        state, sizes = raise_multipliers(sweep(state, problem, penalty=penalty), problem, penalty=penalty)
        assert record[2:] == pytest.approx(sizes, rel=LINEAR_TOLERANCE), iteration
    for layer, expected in zip(layers_of(decomposition), (state.base, state.detail, state.noise), strict=True):
        np.testing.assert_allclose(layer, expected, rtol=0, atol=LINEAR_TOLERANCE * FULL_SCALE)
    if is_low_rank:
        np.testing.assert_array_equal(decomposition.coefficients.reshape(100, 6), state.patches.coefficients)


@pytest.mark.parametrize(("penalty", "growth"), [(0.2, 1.1), (1.0, 1.0), (900.0, 10.0)])
def test_penalties_grow_by_their_factor_up_to_the_largest(textured_image, penalty, growth):
    config = settings(iterations=8, penalty=penalty, penalty_growth=growth)
    penalties = [record.penalty for record in decompose(textured_image((5, 5)), config).history.records]

    assert penalties == pytest.approx(
        [min(solver.LARGEST_PENALTY, penalty * growth**iteration) for iteration in range(8)], rel=LINEAR_TOLERANCE
    )


@WITH_AND_WITHOUT_LOW_RANK
@pytest.mark.parametrize("seed", range(3))
def test_residuals_shrink_with_the_iterations(textured_image, is_low_rank, seed):
    """All fall below one per cent of the largest, or are small anyway, and each ten iterations stay below the largest of the ten before.

    Not monotone: single iterations may raise a residual while the splitting settles.
    """
    config = settings(precision=Precision.DOUBLE, is_low_rank=is_low_rank, iterations=DECAY_ITERATIONS)
    records = decompose(textured_image((20, 25), seed), config).history.records
    for name in RESIDUALS if is_low_rank else RESIDUALS[:2]:
        values = np.array([getattr(record, name) for record in records])
        blocks = values.reshape(-1, DECAY_BLOCK).max(axis=1)
        assert values[-1] < max(RESIDUAL_DECAY * values.max(), SMALL_RESIDUAL), name
        assert np.all(np.diff(blocks) < 0), name


@WITH_AND_WITHOUT_LOW_RANK
@pytest.mark.parametrize("level", [0, 200])
def test_history_holds_plain_numbers_that_json_can_write(level, is_low_rank):
    image = np.full((3, 10, 10), level, np.float32)
    records = decompose(image, settings(is_low_rank=is_low_rank)).history.records

    assert all(type(number) is float for record in records for number in record)
    assert json.loads(json.dumps(records)) == [list(record) for record in records]


# stopping


@WITH_AND_WITHOUT_LOW_RANK
def test_tolerance_stops_at_the_first_change_that_is_small_enough(textured_image, is_low_rank):
    tolerance = 1e-3
    history = decompose(textured_image((10, 15)), settings(iterations=500, tolerance=tolerance, is_low_rank=is_low_rank)).history
    changes = [record.change for record in history.records]

    assert history.reason is StopReason.TOLERANCE_REACHED
    assert 1 < len(changes) < 500
    assert changes[-1] <= tolerance < min(changes[:-1])


# cancellation


def test_cancellation_is_asked_for_before_each_iteration(textured_image, monkeypatch):
    events, update = [], solver.sweep

    def logged_update(*arguments, **options):
        events.append("update")
        return update(*arguments, **options)

    monkeypatch.setattr(solver, "sweep", logged_update)
    decompose(textured_image((10, 15)), settings(iterations=3), check_cancelled=lambda: events.append("check"))

    assert events == ["check", "update"] * 3


# optimality


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


# the same result


@WITH_AND_WITHOUT_LOW_RANK
@pytest.mark.parametrize("shape", [(20, 25), (23, 29)])
def test_memory_order_of_the_image_changes_no_byte(textured_image, is_low_rank, shape):
    image, config = textured_image(shape).astype(np.float32), settings(is_low_rank=is_low_rank)
    expected = decompose(image, config)
    interleaved = np.moveaxis(np.ascontiguousarray(np.moveaxis(image, 0, -1)), -1, 0)

    for reordered in (np.asfortranarray(image), interleaved):
        assert not reordered.flags.c_contiguous
        assert_same_bytes(decompose(reordered, config), expected)


@pytest.mark.parametrize("precision", list(Precision))
@WITH_AND_WITHOUT_LOW_RANK
def test_layers_come_in_the_precision_asked_for_with_the_shape_of_the_image(textured_image, precision, is_low_rank):
    decomposition = decompose(textured_image((23, 29)), settings(precision=precision, is_low_rank=is_low_rank))

    assert all(layer.dtype == precision.value and layer.shape == (3, 23, 29) for layer in layers_of(decomposition))
    assert all(layer.flags.c_contiguous for layer in layers_of(decomposition))
    if is_low_rank:
        assert decomposition.coefficients.dtype == precision.value
        assert decomposition.coefficients.shape == (4, load_dictionary(5).shape[2], 30)


@WITH_AND_WITHOUT_LOW_RANK
@pytest.mark.parametrize("iterations", [5, 20])
def test_single_precision_is_close_to_double_precision(textured_image, is_low_rank, iterations):
    image = textured_image((20, 25))
    single, double = (decompose(image, settings(precision=p, is_low_rank=is_low_rank, iterations=iterations)) for p in Precision)

    for one, other in zip(layers_of(single), layers_of(double), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=SINGLE_TOLERANCE)


# awkward images and settings


@pytest.mark.parametrize("level", [0.0, 1e-3, 127.3, 255.0])
@pytest.mark.parametrize("precision", list(Precision))
def test_constant_image_has_exactly_no_detail(level, precision):
    decomposition = decompose(np.full((3, 17, 23), level), settings(precision=precision, iterations=20))

    assert all_finite(decomposition)
    np.testing.assert_array_equal(decomposition.detail, 0)
    np.testing.assert_allclose(decomposition.base, level, rtol=0, atol=SINGLE_TOLERANCE)


def test_constant_image_loses_its_detail_with_the_low_rank_term_where_the_penalty_stays(make_initialized_problem):
    """Detail is dearer than what a flat base layer adds to the nuclear norm, so that the minimum has none."""
    config = settings(precision=Precision.DOUBLE, is_low_rank=True)
    problem, state = make_initialized_problem(np.full((3, 10, 10), 200.0), config, atoms=unitary_atoms(25), groups=[range(4)])
    for _ in range(300):
        state, _ = raise_multipliers(sweep(state, problem, penalty=0.2), problem, penalty=0.2)

    np.testing.assert_array_equal(state.detail, 0)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (1, 9), (9, 1), (2, 2)])
@pytest.mark.parametrize("base_patch_px", [5, 8, 10])
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


def test_detail_that_costs_nothing_takes_all_that_the_base_layer_leaves(textured_image):
    image = textured_image((20, 25))
    decomposition = decompose(image, settings(precision=Precision.DOUBLE, detail_sparsity=0.0))

    np.testing.assert_allclose(decomposition.noise, 0, rtol=0, atol=LINEAR_TOLERANCE * FULL_SCALE)
    np.testing.assert_allclose(decomposition.base + decomposition.detail, image, rtol=0, atol=LINEAR_TOLERANCE * FULL_SCALE)
