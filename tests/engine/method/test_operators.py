"""Gradients, their adjoint and the screened solve, against matrices written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qmcif_engine.method.operators import gradients, gradients_adjoint, laplacian_eigenvalues, solve_screened

EPS = float(np.finfo(np.float64).eps)
INNER_PRODUCT_TOLERANCE = 100 * EPS
"""Of an inner product, as a share of the product of the norms."""
SOLVE_TOLERANCE = 100
"""Of a solve, in eps of its dtype, as a share of the largest sample."""

PROPERTY = settings(deadline=None, max_examples=50, derandomize=True)
lengths = st.integers(1, 12)


def normal_planes(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


@PROPERTY
@given(lengths, lengths, st.integers(0, 2**32 - 1))
def test_adjoint_moves_the_gradient_across_the_inner_product(height, width, seed):
    planes, fields = normal_planes(seed, 3, height, width), normal_planes(seed + 1, 2, 3, height, width)
    size = np.linalg.norm(planes) * np.linalg.norm(fields)

    difference = np.sum(gradients(planes) * fields) - np.sum(planes * gradients_adjoint(fields))
    assert abs(difference) <= INNER_PRODUCT_TOLERANCE * size


def gradient_matrices(shape):
    """Return the vertical and the horizontal difference as matrices on row-major pixels; lines continue by reflection."""
    vertical, horizontal = (np.eye(length, k=1) - np.diag([1.0] * (length - 1) + [0]) for length in shape)
    return np.kron(vertical, np.eye(shape[1])), np.kron(np.eye(shape[0]), horizontal)


@pytest.mark.parametrize("screening", [0.05, 1.0])
@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (6, 1), (2, 3), (5, 4), (8, 8)])
def test_operators_equal_the_written_out_matrices(shape, screening):
    planes = normal_planes(0, 3, *shape)
    columns = planes.reshape(3, -1).T
    vertical, horizontal = matrices = gradient_matrices(shape)
    laplacian = vertical.T @ vertical + horizontal.T @ horizontal
    expected = np.linalg.solve(laplacian + screening * np.eye(len(laplacian)), columns)

    for matrix, field in zip(matrices, gradients(planes), strict=True):
        np.testing.assert_array_equal(field.reshape(3, -1).T, matrix @ columns)
    eigenvalues, accepted = np.sort(laplacian_eigenvalues(shape), axis=None), 8 * INNER_PRODUCT_TOLERANCE
    np.testing.assert_allclose(eigenvalues, np.linalg.eigvalsh(laplacian), rtol=0, atol=accepted)
    solution = solve_screened(planes, screening=screening).reshape(3, -1).T
    np.testing.assert_allclose(solution, expected, rtol=0, atol=SOLVE_TOLERANCE * EPS * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (37, 53), (64, 64)])
def test_screened_solve_satisfies_its_equation_in_its_dtype_and_in_any_memory_order(shape, dtype):
    planes = (255 * normal_planes(3, 3, *shape)).astype(dtype)
    planes.flags.writeable = False  # writing into it would raise

    solution = solve_screened(planes, screening=1.0)
    residual = gradients_adjoint(gradients(solution.astype(np.float64))) + solution - planes

    assert solution.dtype == gradients_adjoint(gradients(planes)).dtype == dtype
    assert np.linalg.norm(residual) <= SOLVE_TOLERANCE * np.finfo(dtype).eps * np.linalg.norm(planes)
    np.testing.assert_array_equal(solve_screened(np.asfortranarray(planes), screening=1.0), solution)
