"""Gradients, their adjoint and the screened solve, against matrices written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qmcif_engine.method.operators import gradients, gradients_adjoint, laplacian_eigenvalues, solve_screened

EPS = float(np.finfo(np.float64).eps)
EPS_SINGLE = float(np.finfo(np.float32).eps)
INNER_PRODUCT_TOLERANCE = 100 * EPS
"""Of an inner product, as a share of the product of the norms."""
SOLVE_TOLERANCE = 100
"""Of a solve, in eps of its dtype, as a share of the largest sample."""

PROPERTY = settings(deadline=None, max_examples=50, derandomize=True)
SHAPES = [(1, 1), (1, 6), (6, 1), (2, 3), (5, 4), (8, 8)]
lengths = st.integers(1, 12)


def difference_matrix(length):
    """Return the forward differences of a line as a matrix: its last row is zero, since the line continues by reflection."""
    matrix = np.zeros((length, length))
    for position in range(length - 1):
        matrix[position, position], matrix[position, position + 1] = -1, 1
    return matrix


def gradient_matrices(shape):
    """Return the vertical and the horizontal difference as matrices on row-major pixels."""
    return np.kron(difference_matrix(shape[0]), np.eye(shape[1])), np.kron(np.eye(shape[0]), difference_matrix(shape[1]))


def laplacian_matrix(shape):
    vertical, horizontal = gradient_matrices(shape)
    return vertical.T @ vertical + horizontal.T @ horizontal


def normal_planes(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_forward_differences_between_rows_then_between_columns(shape):
    planes = normal_planes(0, 3, *shape)
    vertical, horizontal = gradients(planes)

    for plane in range(3):
        for matrix, field in zip(gradient_matrices(shape), (vertical, horizontal), strict=True):
            np.testing.assert_array_equal(field[plane].reshape(-1), matrix @ planes[plane].reshape(-1))


@PROPERTY
@given(lengths, lengths, st.integers(0, 2**32 - 1))
def test_adjoint_moves_the_gradient_across_the_inner_product(height, width, seed):
    planes, fields = normal_planes(seed, 3, height, width), normal_planes(seed + 1, 2, 3, height, width)
    size = np.linalg.norm(planes) * np.linalg.norm(fields)

    difference = np.sum(gradients(planes) * fields) - np.sum(planes * gradients_adjoint(fields))
    assert abs(difference) <= INNER_PRODUCT_TOLERANCE * size


@pytest.mark.parametrize("shape", SHAPES)
def test_eigenvalues_are_those_of_the_written_out_laplacian(shape):
    eigenvalues = laplacian_eigenvalues(shape)

    assert eigenvalues.shape == shape
    assert eigenvalues.dtype == np.float64
    np.testing.assert_allclose(
        np.sort(eigenvalues.reshape(-1)), np.linalg.eigvalsh(laplacian_matrix(shape)), rtol=0, atol=INNER_PRODUCT_TOLERANCE * 8
    )


@pytest.mark.parametrize("screening", [0.05, 1.0, 2.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_screened_solve_equals_the_solve_with_the_written_out_matrix(shape, screening):
    planes = normal_planes(2, 3, *shape)
    operator = laplacian_matrix(shape) + screening * np.eye(shape[0] * shape[1])
    expected = np.linalg.solve(operator, planes.reshape(3, -1).T).T.reshape(planes.shape)

    np.testing.assert_allclose(
        solve_screened(planes, screening=screening), expected, rtol=0, atol=SOLVE_TOLERANCE * EPS * np.abs(expected).max()
    )


@pytest.mark.parametrize(("dtype", "eps"), [(np.float32, EPS_SINGLE), (np.float64, EPS)])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (37, 53), (64, 64)])
def test_screened_solve_satisfies_its_equation(shape, dtype, eps):
    planes = (255 * normal_planes(3, 3, *shape)).astype(dtype)
    solution = solve_screened(planes, screening=1.0).astype(np.float64)
    residual = gradients_adjoint(gradients(solution)) + solution - planes

    assert np.linalg.norm(residual) <= SOLVE_TOLERANCE * eps * np.linalg.norm(planes)


def test_screened_solve_divides_a_constant_by_the_screening():
    constant = np.full((3, 9, 13), 200.0)

    np.testing.assert_allclose(solve_screened(constant, screening=2.0), 100, rtol=SOLVE_TOLERANCE * EPS)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_operators_keep_the_dtype_and_leave_their_arguments_alone(dtype):
    planes = normal_planes(5, 3, 6, 7).astype(dtype)
    planes.flags.writeable = False  # writing into it would raise
    fields = gradients(planes)
    fields.flags.writeable = False

    assert fields.dtype == gradients_adjoint(fields).dtype == solve_screened(planes, screening=1.0).dtype == dtype


def test_operators_do_not_depend_on_the_memory_order():
    planes = normal_planes(6, 3, 6, 7)
    reordered = np.asfortranarray(planes)

    np.testing.assert_array_equal(gradients(reordered), gradients(planes))
    np.testing.assert_array_equal(solve_screened(reordered, screening=1.0), solve_screened(planes, screening=1.0))
