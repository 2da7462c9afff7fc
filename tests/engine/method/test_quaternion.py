"""Quaternions: algebra, matrix forms, and the two shrinkages as minimizers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from qmcif_engine.method import quaternion

EPS = float(np.finfo(np.float64).eps)
EPS_SINGLE = float(np.finfo(np.float32).eps)
PRODUCT_TOLERANCE = 16 * EPS
"""Of a few products and sums of numbers of size one."""
DECOMPOSITION_TOLERANCE = 1000 * EPS
"""Of singular values and what is rebuilt from them, as a share of the largest."""
GRAM_TOLERANCE = np.sqrt(EPS)
"""Of singular values read from a Gram matrix: squares lose half of the digits of the small ones."""
SINGLE_TOLERANCE = 4 * EPS_SINGLE
"""Of a product in float32, as a share of the largest singular value of the matrix."""

PROPERTY = settings(deadline=None, max_examples=50, derandomize=True)
ONE, UNIT_I, UNIT_J, UNIT_K = np.eye(4)[:, :, None, None]

# whole numbers of this size multiply exactly, so that the laws can be asked to hold without any tolerance
whole_numbers = st.integers(-99, 99).map(float)
whole_quaternions = arrays(np.float64, (4, 2, 3), elements=whole_numbers)
# zero, or large enough that no product of four underflows
samples = st.floats(-255, 255).map(lambda sample: sample if abs(sample) > EPS else 0.0)
quaternions = arrays(np.float64, (4, 2, 3), elements=samples)


def matrices(rows, columns):
    return arrays(np.float64, (4, rows, columns), elements=whole_numbers)


def random_matrix(seed, shape):
    return np.random.default_rng(seed).normal(size=(4, *shape))


def shrink_by_svd(matrix, threshold):
    """Shrink the singular values of the complex adjoint one by one, and read the quaternion matrix from its upper half."""
    left, values, right = np.linalg.svd(quaternion.complex_adjoint(matrix), full_matrices=False)
    adjoint = (left * np.maximum(values - threshold, 0)) @ right
    m, n = matrix.shape[1:]
    first, second = adjoint[:m, :n], adjoint[:m, n:]
    return np.stack((first.real, first.imag, second.real, second.imag))


# algebra


def test_basis_units_square_to_minus_one_and_so_does_their_product():
    for unit in (UNIT_I, UNIT_J, UNIT_K):
        np.testing.assert_array_equal(quaternion.multiply(unit, unit), -ONE)
    np.testing.assert_array_equal(quaternion.multiply(quaternion.multiply(UNIT_I, UNIT_J), UNIT_K), -ONE)


@PROPERTY
@given(whole_quaternions, whole_quaternions, whole_quaternions)
def test_multiplication_is_associative_and_conjugation_reverses_it(p, q, r):
    product, conjugate = quaternion.multiply, quaternion.conjugate
    squared = product(q, conjugate(q))

    np.testing.assert_array_equal(product(product(p, q), r), product(p, product(q, r)))
    np.testing.assert_array_equal(conjugate(product(p, q)), product(conjugate(q), conjugate(p)))
    np.testing.assert_array_equal(squared[0], np.sum(q**2, axis=0))
    np.testing.assert_array_equal(squared[1:], 0)


@PROPERTY
@given(quaternions, quaternions)
def test_modulus_of_a_product_is_the_product_of_moduli(p, q):
    lengths = quaternion.modulus(p) * quaternion.modulus(q)
    accepted = PRODUCT_TOLERANCE * np.abs(p).max() * np.abs(q).max()

    np.testing.assert_allclose(quaternion.modulus(quaternion.multiply(p, q)), lengths, rtol=PRODUCT_TOLERANCE, atol=accepted)


# matrix forms


@PROPERTY
@given(matrices(2, 3), matrices(3, 4))
def test_matrix_product_sums_hamilton_products_and_both_forms_turn_it_into_ordinary_ones(left, right):
    entries = [quaternion.multiply(left[:, :, inner, None], right[:, inner, None, :]) for inner in range(3)]
    product = quaternion.matrix_product(left, right)

    np.testing.assert_array_equal(product, sum(entries))
    for form in (quaternion.real_form, quaternion.complex_adjoint):
        np.testing.assert_array_equal(form(left) @ form(right), form(product))
    gram = quaternion.gram_matrix(left.astype(np.float32))
    assert gram.dtype == np.float64
    np.testing.assert_array_equal(gram, quaternion.matrix_product(left, quaternion.conjugate_transpose(left)))


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (1, 6), (1, 1)])
def test_singular_values_occur_twice_in_the_complex_adjoint_and_four_times_in_the_real_form(shape):
    matrix = random_matrix(0, shape)
    values = quaternion.singular_values(matrix)
    in_adjoint = np.linalg.svd(quaternion.complex_adjoint(matrix), compute_uv=False)
    in_real_form = np.linalg.svd(quaternion.real_form(matrix), compute_uv=False)

    assert values.shape == (min(shape),)
    assert np.all(np.diff(values) <= 0)
    np.testing.assert_allclose(in_adjoint, np.repeat(values, 2), rtol=DECOMPOSITION_TOLERANCE)
    np.testing.assert_allclose(in_real_form, np.repeat(values, 4), rtol=DECOMPOSITION_TOLERANCE)


# shrinkage of the modulus


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_components", [3, 4])
def test_modulus_shrinkage_gives_exact_zeros_at_and_below_the_threshold(dtype, n_components):
    block = np.zeros((n_components, 1, 4), dtype)
    block[:2, 0] = np.array([[3, 4], [0.3, 0.4], [0, 0], [6, 8]], dtype).T  # moduli 5, 0.5, 0 and 10

    shrunk = quaternion.shrink_modulus(block, 5.0)

    assert shrunk.dtype == dtype
    np.testing.assert_array_equal(shrunk[:2, 0].T, [[0, 0], [0, 0], [0, 0], [3, 4]])
    np.testing.assert_array_equal(quaternion.shrink_modulus(block, 0.0), block)


@PROPERTY
@given(quaternions, st.floats(0.01, 500))
def test_modulus_shrinkage_satisfies_the_condition_of_its_minimum(target, threshold):
    """The minimizer of tau |x| + |x - y|^2 / 2 leaves y - x = tau x/|x|, or |y - x| <= tau where x = 0."""
    shrunk = quaternion.shrink_modulus(target, threshold)
    pull = target - shrunk
    length = quaternion.modulus(shrunk)

    np.testing.assert_array_less(quaternion.modulus(pull), threshold + PRODUCT_TOLERANCE * 500)
    np.testing.assert_allclose(np.sum(pull * shrunk, axis=0), threshold * length, rtol=0, atol=PRODUCT_TOLERANCE * 500**2)


# shrinkage of the singular values


@pytest.mark.parametrize("threshold", [0.0, 0.5, 2.0, 4.0])
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (6, 1), (1, 6), (1, 1)])
def test_singular_value_shrinkage_equals_shrinking_the_svd_of_the_adjoint(shape, threshold):
    matrix = random_matrix(1, shape)
    largest = quaternion.singular_values(matrix)[0]
    shrunk = quaternion.shrink_singular_values(matrix, threshold)

    np.testing.assert_allclose(shrunk, shrink_by_svd(matrix, threshold), rtol=0, atol=GRAM_TOLERANCE * largest)


def test_singular_value_shrinkage_in_single_precision_is_as_good_as_its_products():
    """Values like those of patch matrices, from 44 to 1e5: a Gram matrix in float32 would lose the small ones."""
    left, right = (np.linalg.qr(random_matrix(seed, (60, 12))[0])[0] for seed in (0, 1))
    matrix = np.stack([share * (left * np.geomspace(1e5, 44, 12)) @ right.T for share in (0.5, -0.5, 0.5, 0.5)])
    np.testing.assert_allclose(quaternion.singular_values(matrix)[[0, 11]], [1e5, 44], rtol=1e-3)

    shrunk = quaternion.shrink_singular_values(matrix.astype(np.float32), 5.0)

    assert shrunk.dtype == np.float32
    np.testing.assert_allclose(shrunk, quaternion.shrink_singular_values(matrix, 5.0), rtol=0, atol=SINGLE_TOLERANCE * 1e5)
