"""Each update against a brute-force minimizer of its sub-problem.

Every sub-problem is written out here from the augmented Lagrangian, Eq. (4) of the paper, with the multipliers as they stand there.
The smooth ones are least squares: their terms become the rows of one dense matrix, solved by `numpy.linalg.lstsq`. The others are
held against the condition that a minimum of a convex function must satisfy.
"""

import numpy as np
import pytest

from qmcif_engine.method import quaternion, updates
from qmcif_engine.method.operators import gradients
from qmcif_engine.method.patches import cut_patches, join_patches

EPS = float(np.finfo(np.float64).eps)
LEAST_SQUARES_TOLERANCE = 1e4 * EPS
"""Of a dense least-squares solution, as a share of its largest entry."""
CONDITION_TOLERANCE = 100 * np.sqrt(EPS)
"""Of a singular value read from a Gram matrix, as a share of the largest."""

PENALTIES = [0.2, 3.0]
SEED = 11


@pytest.fixture(scope="module")
def tiny(make_tiny_problem):
    return make_tiny_problem(SEED, is_low_rank=True)


def least_squares(terms):
    """Minimize the sum of <Y, r> + mu/2 |r|^2 over x, for terms (M, sign, c, Y, mu) with the residual r = c + sign M x.

    Completing the square, each is mu/2 |r + Y/mu|^2 up to a constant.
    """
    rows = np.concatenate([sign * matrix * np.sqrt(mu) for matrix, sign, _, _, mu in terms])
    targets = np.concatenate([-(offset + multiplier / mu) * np.sqrt(mu) for _, _, offset, multiplier, mu in terms])
    return np.linalg.lstsq(rows, targets, rcond=None)[0]


def assert_subgradient(subgradient, variable, weight, *, scale, size):
    """At the minimum of ``weight |x|`` and a smooth term: no longer than the weight, and along x where it is not zero."""
    lengths = quaternion.modulus(variable)
    accepted = LEAST_SQUARES_TOLERANCE * scale
    assert np.all(quaternion.modulus(subgradient) <= weight + accepted)
    np.testing.assert_allclose(np.sum(subgradient * variable, axis=-3), weight * lengths, rtol=0, atol=accepted * size)
    return lengths == 0


def matrix_of(linear_map, n_inputs):
    """Return a linear map as a matrix, column by column from the unit vectors."""
    return np.stack([np.asarray(linear_map(unit)).reshape(-1) for unit in np.eye(n_inputs)], axis=1)


def test_operator_holds_the_real_forms_of_the_dictionary_and_of_both_inverses(tiny):
    operator, atoms = tiny.problem.operator, tiny.atoms
    n_atoms = atoms.shape[2]
    gram = quaternion.matrix_product(quaternion.conjugate_transpose(atoms), atoms)
    gram[0] += np.eye(n_atoms)

    np.testing.assert_array_equal(operator.synthesis, quaternion.real_form(atoms))
    np.testing.assert_allclose(
        quaternion.real_form(gram) @ operator.from_coefficients, np.eye(4 * n_atoms), rtol=0, atol=LEAST_SQUARES_TOLERANCE
    )
    np.testing.assert_allclose(
        quaternion.real_form(gram) @ operator.from_patches, operator.synthesis.T, rtol=0, atol=LEAST_SQUARES_TOLERANCE
    )
    np.testing.assert_allclose(operator.exact, np.linalg.pinv(operator.synthesis), rtol=0, atol=LEAST_SQUARES_TOLERANCE)


# J


@pytest.mark.parametrize("penalty", [0.01, *PENALTIES])
def test_low_rank_update_satisfies_the_condition_of_the_minimum_in_each_group(tiny, penalty):
    """Over J_k: |J_k|_* + <Y_1k, Z_k - J_k> + mu/2 |Z_k - J_k|^2.

    At the minimum Y_1k + mu (Z_k - J_k) is a subgradient of the nuclear norm: of spectral norm up to 1, and its inner product with J_k is
    the nuclear norm of J_k. The problem is convex, so that this is also enough.
    """
    patches = tiny.state.patches
    low_rank = updates.update_low_rank(patches.coefficients, patches.coefficient_multiplier, groups=tiny.problem.groups, penalty=penalty)

    for members in tiny.problem.groups:
        z, y, j = (
            block[:, members].reshape(4, -1, len(members)) for block in (patches.coefficients, patches.coefficient_multiplier, low_rank)
        )
        subgradient = y + penalty * (z - j)
        scale = 1 + quaternion.singular_values(penalty * z + y)[0]
        nuclear = quaternion.singular_values(j).sum()
        assert quaternion.singular_values(subgradient)[0] <= 1 + CONDITION_TOLERANCE * scale
        np.testing.assert_allclose(np.sum(subgradient * j), nuclear, rtol=CONDITION_TOLERANCE, atol=CONDITION_TOLERANCE * scale)


# Z


@pytest.mark.parametrize("penalty", PENALTIES)
def test_coefficient_update_is_the_least_squares_solution_of_its_sub_problem(tiny, penalty):
    """Over Z: <Y_1, Z - J> + mu/2 |Z - J|^2 + <Y_2, R(B) - A Z> + mu/2 |R(B) - A Z|^2."""
    state, patches = tiny.state, tiny.state.patches
    base_patches = cut_patches(state.base, patch_px=5)
    updated = updates.update_coefficients(
        patches.low_rank,
        base_patches,
        coefficient_multiplier=patches.coefficient_multiplier,
        dictionary_multiplier=patches.dictionary_multiplier,
        operator=tiny.problem.operator,
        penalty=penalty,
    )
    n_atoms = tiny.atoms.shape[2]
    # products with a column of quaternions, entry by entry
    dictionary = matrix_of(lambda column: quaternion.multiply(tiny.atoms, column.reshape(4, 1, n_atoms)).sum(axis=2), 4 * n_atoms)

    for patch in range(updated.shape[1]):
        quaternion_patch = np.concatenate((np.zeros(25), base_patches[:, patch]))  # a color has no real part
        found = least_squares(
            [
                (np.eye(4 * n_atoms), 1, -patches.low_rank[:, patch], patches.coefficient_multiplier[:, patch], penalty),
                (dictionary, -1, quaternion_patch, patches.dictionary_multiplier[:, patch], penalty),
            ]
        )
        np.testing.assert_allclose(updated[:, patch], found, rtol=0, atol=LEAST_SQUARES_TOLERANCE * np.abs(found).max())


# G


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("smoothness", [0.0, 1.5, 30.0])
def test_gradient_update_satisfies_the_condition_of_its_minimum(tiny, smoothness, penalty):
    """Over G: alpha |G|_1 + <Y, G - grad B> + mu/2 |G - grad B|^2, so -Y - mu (G - grad B) = alpha G/|G|, or no longer than alpha at 0."""
    slopes, multipliers = gradients(tiny.state.base), tiny.state.gradient_multipliers
    fields = updates.update_gradients(slopes, multipliers, smoothness=smoothness, penalty=penalty)
    subgradient = -multipliers - penalty * (fields - slopes)
    size = np.abs(slopes).max()
    is_zero = assert_subgradient(subgradient, fields, smoothness, scale=np.abs(multipliers).max() + penalty * size, size=size)

    assert is_zero.any() == (smoothness == 30.0)  # the largest value sets some to exactly zero


# B


def forward_difference(plane, axis):
    """Return the differences along one axis with a zero at the far border, where the image continues by reflection."""
    far_border = np.take(plane, [-1], axis=axis)
    return np.diff(plane, axis=axis, append=far_border)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("is_low_rank", [False, True])
def test_base_update_is_the_least_squares_solution_of_its_sub_problem(tiny, is_low_rank, penalty):
    """Over pure B: the patch, the two gradient and the sum constraints, each as <Y, r> + mu/2 |r|^2.

    Without the low-rank term there is no patch constraint. Its real rows hold no B, so that the imaginary ones decide.
    """
    state, patches, image = tiny.state, tiny.state.patches, tiny.problem.image
    shape, n_pixels = image.shape[1:], image[0].size
    explained = tiny.problem.operator.synthesis @ patches.coefficients
    patch_target = join_patches((explained - patches.dictionary_multiplier / penalty)[25:], shape=shape, patch_px=5)
    base = updates.update_base(
        image - state.detail - state.noise + state.sum_multiplier / penalty,
        state.gradients + state.gradient_multipliers / penalty,
        patch_target=patch_target if is_low_rank else None,
    )
    vertical, horizontal = (matrix_of(lambda plane, axis=axis: forward_difference(plane.reshape(shape), axis), n_pixels) for axis in (0, 1))
    cut = matrix_of(lambda plane: cut_patches(plane.reshape(1, *shape), patch_px=5), n_pixels)

    for channel in range(3):
        rest = image[channel] - state.detail[channel] - state.noise[channel]
        component = slice(25 * (channel + 1), 25 * (channel + 2))  # of the rows (1, i, j, k)
        terms = [
            (vertical, -1, state.gradients[0, channel].reshape(-1), state.gradient_multipliers[0, channel].reshape(-1), penalty),
            (horizontal, -1, state.gradients[1, channel].reshape(-1), state.gradient_multipliers[1, channel].reshape(-1), penalty),
            (np.eye(n_pixels), -1, rest.reshape(-1), state.sum_multiplier[channel].reshape(-1), penalty),
        ]
        if is_low_rank:
            terms.append((cut, 1, -explained[component].reshape(-1), patches.dictionary_multiplier[component].reshape(-1), penalty))
        found = least_squares(terms)
        np.testing.assert_allclose(base[channel].reshape(-1), found, rtol=0, atol=LEAST_SQUARES_TOLERANCE * np.abs(found).max())


# D


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("sparsity", [0.0, 0.5, 40.0])
def test_detail_update_satisfies_the_condition_of_its_minimum(tiny, sparsity, penalty):
    """Over D: beta |D|_1 + <Y_5, r> + mu/2 |r|^2 with r = I - B - D - E, so Y_5 + mu r = beta D/|D|, or no longer than beta at 0."""
    state, image = tiny.state, tiny.problem.image
    rest = image - state.base - state.noise
    detail = updates.update_detail(rest + state.sum_multiplier / penalty, sparsity=sparsity, penalty=penalty)
    subgradient = state.sum_multiplier + penalty * (rest - detail)
    size = np.abs(rest).max()
    is_zero = assert_subgradient(subgradient, detail, sparsity, scale=np.abs(state.sum_multiplier).max() + penalty * size, size=size)

    assert is_zero.any() == (sparsity / penalty > 100)  # moduli run to some hundred gray levels


# E


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("weight", [0.0, 0.05, 2.0])
def test_noise_update_is_the_least_squares_solution_of_its_sub_problem(tiny, weight, penalty):
    """Over E: lambda |E|^2 + <Y_5, r> + mu/2 |r|^2 with r = I - B - D - E."""
    state, image = tiny.state, tiny.problem.image
    rest = (image - state.base - state.detail).reshape(-1)
    multiplier = state.sum_multiplier.reshape(-1)
    noise = updates.update_noise((rest + multiplier / penalty).reshape(image.shape), weight=weight, penalty=penalty)

    identity, nothing = np.eye(rest.size), np.zeros(rest.size)
    sum_term = (identity, -1, rest, multiplier, penalty)
    found = least_squares([sum_term, (identity, 1, nothing, nothing, 2 * weight)] if weight else [sum_term])
    np.testing.assert_allclose(noise.reshape(-1), found, rtol=0, atol=LEAST_SQUARES_TOLERANCE * np.abs(found).max())
