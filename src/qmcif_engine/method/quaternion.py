"""Quaternions stored as real planes: algebra, matrix forms and the two shrinkage operators.

Layout: the component axis stands before the two spatial (or matrix) axes, ``(..., 4, rows, columns)`` in the order (1, i, j, k).
A pure block, whose real plane is zero, may drop it: ``(..., 3, rows, columns)`` in the order (i, j, k). Planar storage is several
times faster than interleaved storage for everything done here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy  # its parts are loaded when they are first used, and most runs use none of them here

if TYPE_CHECKING:
    from qmcif_engine.arrays import ComplexArray, FloatArray

COMPONENT_AXIS = -3


def multiply(left: FloatArray, right: FloatArray) -> FloatArray:
    """Multiply element by element; the order matters.

    Parameters
    ----------
    left, right : ndarray of float, shape (..., 4, h, w)

    Returns
    -------
    ndarray of float, shape (..., 4, h, w)

    Notes
    -----
    From ``i^2 = j^2 = k^2 = ijk = -1`` [QMCIF, section II].
    """
    # (1, i, j, k) of the left factor, then of the right one
    a, b, c, d = np.moveaxis(left, COMPONENT_AXIS, 0)
    e, f, g, h = np.moveaxis(right, COMPONENT_AXIS, 0)
    planes = (
        a * e - b * f - c * g - d * h,
        a * f + b * e + c * h - d * g,
        a * g - b * h + c * e + d * f,
        a * h + b * g - c * f + d * e,
    )
    return np.stack(planes, axis=COMPONENT_AXIS)


def conjugate(quaternions: FloatArray) -> FloatArray:
    """Turn the sign of the three imaginary planes of a ``(..., 4, h, w)`` block."""
    result = -quaternions
    result[..., 0, :, :] = quaternions[..., 0, :, :]
    return result


def modulus(quaternions: FloatArray) -> FloatArray:
    """Return ``|q|``, shape (..., h, w), of a block with four planes, or of a pure one with three [QMCIF, Definition 1]."""
    # without the array of squares that `(q**2).sum` would make
    squares: FloatArray = np.einsum("...cyx,...cyx->...yx", quaternions, quaternions)
    return np.sqrt(squares, out=squares)


def conjugate_transpose(matrix: FloatArray) -> FloatArray:
    """Return ``A^H``, shape (4, n, m), of a quaternion matrix of shape (4, m, n) [QMCIF, Definition 1]."""
    return conjugate(np.swapaxes(matrix, -1, -2))


def real_form(matrix: FloatArray) -> FloatArray:
    """Return the real matrix that multiplies from the left as the quaternion matrix does.

    With the component planes of ``X`` stacked into ``4n`` rows, ``A X`` is one real product: this is what makes the coefficient
    update a single matrix product [QMCIF, Eq. (7)].

    Parameters
    ----------
    matrix : ndarray of float, shape (4, m, n)

    Returns
    -------
    ndarray of float, shape (4 m, 4 n)
    """
    a, b, c, d = matrix
    return np.block([[a, -b, -c, -d], [b, a, -d, c], [c, d, a, -b], [d, -c, b, a]])


def matrix_product(left: FloatArray, right: FloatArray) -> FloatArray:
    """Multiply two quaternion matrices, (4, l, m) by (4, m, n), to (4, l, n)."""
    stacked = right.reshape(4 * right.shape[1], right.shape[2])
    return (real_form(left) @ stacked).reshape(4, left.shape[1], right.shape[2])


def complex_adjoint(matrix: FloatArray) -> ComplexArray:
    """Return the complex matrix with the same algebra, the same singular values (each twice) and the same rank (doubled).

    Parameters
    ----------
    matrix : ndarray of float, shape (4, m, n)

    Returns
    -------
    ndarray of complex, shape (2 m, 2 n)

    Notes
    -----
    ``A = A_1 + A_2 j`` with complex ``A_1``, ``A_2`` maps to ``[[A_1, A_2], [-conj(A_2), conj(A_1)]]``: the singular values of
    [QMCIF, Definition 2] are read from it.
    """
    first = matrix[0] + 1j * matrix[1]
    second = matrix[2] + 1j * matrix[3]
    return np.block([[first, second], [-second.conj(), first.conj()]])


def from_complex_adjoint(upper: ComplexArray) -> FloatArray:
    """Return the quaternion matrix, shape (4, m, n), whose complex adjoint has this upper half, shape (m, 2 n)."""
    first, second = np.hsplit(upper, 2)
    return np.stack((first.real, first.imag, second.real, second.imag))


def singular_values(matrix: FloatArray) -> FloatArray:
    """Return the singular values of a (4, m, n) quaternion matrix, largest first, each once [QMCIF, Definition 2]."""
    values: FloatArray = np.linalg.svd(complex_adjoint(matrix), compute_uv=False)
    # the complex adjoint has each one twice
    return values[::2]


def gram_matrix(matrix: FloatArray) -> FloatArray:
    """Return ``P P^H``, shape (4, m, m), in float64.

    All component products come from one symmetric real product. float64 because singular values spread over four decades: squared,
    the small ones would be lost in float32.
    """
    m, n = matrix.shape[-2:]
    stacked = matrix.reshape(4 * m, n).astype(np.float64, copy=False)
    # s[a, b] is the m x m product of component a with the transpose of component b; the planes below are those of P times its conjugate
    s = (stacked @ stacked.T).reshape(4, m, 4, m).transpose(0, 2, 1, 3)
    planes = (
        s[0, 0] + s[1, 1] + s[2, 2] + s[3, 3],
        s[1, 0] - s[0, 1] + s[3, 2] - s[2, 3],
        s[2, 0] - s[0, 2] + s[1, 3] - s[3, 1],
        s[3, 0] - s[0, 3] + s[2, 1] - s[1, 2],
    )
    return np.stack(planes)


def shrink_modulus(quaternions: FloatArray, threshold: float) -> FloatArray:
    """Shorten every quaternion by a threshold, to exactly zero where it is no longer than that.

    Parameters
    ----------
    quaternions : ndarray of float, shape (..., 3 or 4, h, w)
    threshold : float
        ``tau`` of the lemma, at least 0.

    Returns
    -------
    ndarray of float, shape of `quaternions`

    Notes
    -----
    Minimizes ``tau ||X||_1 + 1/2 ||X - Y||_F^2`` [QMCIF, Lemma 2].

    Departs: the lemma prints the formula by columns, but the l1 norm is the sum of moduli (Definition 1), whose minimizer acts on
    each element by itself. A modulus of zero is guarded, so that 0/0 cannot arise.
    """
    length = modulus(quaternions)
    factor = np.maximum(length - np.asarray(threshold, length.dtype), 0)
    # where the modulus is 0 so is the factor: 0 / tiny
    np.maximum(length, np.finfo(length.dtype).tiny, out=length)
    factor /= length
    return quaternions * factor[..., None, :, :]


def shrink_singular_values(matrix: FloatArray, threshold: float) -> FloatArray:
    """Shorten every singular value by a threshold, down to zero.

    Parameters
    ----------
    matrix : ndarray of float, shape (4, m, n)
    threshold : float
        ``lambda`` of the lemma, at least 0.

    Returns
    -------
    ndarray of float, shape (4, m, n)

    Notes
    -----
    Minimizes ``1/2 ||Y - X||_F^2 + lambda ||X||_*`` [QMCIF, Lemma 1]. With ``G = Y Y^H = U S^2 U^H`` the solution is
    ``U f(S) U^H Y``, ``f(s) = max(1 - lambda/s, 0)``: only the small Hermitian ``G`` is decomposed, whatever n is. Its complex adjoint
    has each eigenvalue twice; the matrix function does not depend on the basis chosen inside such a pair.
    """
    # "evd" (divide and conquer): all eigenvectors are wanted
    eigenvalues, vectors = scipy.linalg.eigh(complex_adjoint(gram_matrix(matrix)), driver="evd", check_finite=False)
    # rounding makes zero eigenvalues slightly negative; tiny ones are shrunk to nothing
    values = np.sqrt(np.maximum(eigenvalues, np.finfo(np.float64).tiny))
    factors = np.maximum(1 - threshold / values, 0)
    # the lower half of a complex adjoint follows from the upper one
    upper = (vectors[: len(values) // 2] * factors) @ vectors.conj().T
    return matrix_product(from_complex_adjoint(upper).astype(matrix.dtype, copy=False), matrix)
