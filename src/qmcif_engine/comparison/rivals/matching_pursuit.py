"""Orthogonal matching pursuit of many signals over one dictionary, with the products of its atoms made once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray


DESCRIBED = 1e-10
"""Squared distance to the atoms chosen from which on another atom is one that they describe already: only rounding is left."""


@compiled
def _find_likest(left: FloatArray) -> int:
    best, most = 0, -1.0
    for atom in range(left.size):
        if abs(left[atom]) > most:
            best, most = atom, abs(left[atom])
    return best


@compiled
def _extend_factor(factor: FloatArray, gram: FloatArray, chosen: NDArray[np.intp], size: int) -> bool:
    """Add the row of the atom ``chosen[size]`` to the Cholesky factor of the chosen atoms' products; False where they describe it."""
    products = gram[chosen[size]]
    square = products[chosen[size]]
    for row in range(size):
        value = products[chosen[row]]
        for column in range(row):
            value -= factor[row, column] * factor[size, column]
        value /= factor[row, row]
        factor[size, row] = value
        square -= value * value
    # a linear combination of the chosen atoms would make the factor singular
    if square < DESCRIBED:
        return False
    factor[size, size] = np.sqrt(square)
    return True


@compiled
def _solve_weights(factor: FloatArray, forward: FloatArray, weights: FloatArray, size: int) -> None:
    """Solve for the weights of the chosen atoms, from the last to the first."""
    for row in range(size - 1, -1, -1):
        value = forward[row]
        for below in range(row + 1, size):
            value -= factor[below, row] * weights[below]
        weights[row] = value / factor[row, row]


@compiled
def _pursue_one(correlations: FloatArray, energy: float, gram: FloatArray, largest_rest: float, work: FloatArray, code: FloatArray) -> None:
    """Put the code of one signal into `code`, of zeros; `work` has a square matrix and two rows below it."""
    most_atoms = work.shape[1]
    factor, forward, weights = work[:most_atoms], work[most_atoms], work[most_atoms + 1]
    chosen = np.empty(most_atoms, np.intp)
    left, rest, size = correlations.copy(), energy, 0
    while rest > largest_rest and size < most_atoms:
        chosen[size] = _find_likest(left)
        if not _extend_factor(factor, gram, chosen, size):
            break
        share = correlations[chosen[size]]
        for column in range(size):
            share -= factor[size, column] * forward[column]
        forward[size] = share / factor[size, size]
        # the new atom, made orthogonal to those before it, takes off the square of its coefficient
        rest -= forward[size] * forward[size]
        size += 1
        _solve_weights(factor, forward, weights, size)
        # all weights have changed, so what is left is formed anew
        left[:] = correlations
        for number in range(size):
            products = gram[chosen[number]]
            for atom in range(left.size):
                left[atom] -= weights[number] * products[atom]
    for number in range(size):
        code[chosen[number]] = weights[number]


@compiled
def pursue_codes(correlations: FloatArray, energies: FloatArray, gram: FloatArray, most_atoms: int, largest_rest: float) -> FloatArray:
    """Return the sparse codes of signals, shape (P, L): the atom most like what is left, again and again, until little is left.

    Rubinstein, Zibulevsky and Elad 2008, *Efficient implementation of the K-SVD algorithm using batch orthogonal matching pursuit*: the
    energy of what is left and its products with all atoms follow from those of the signal, so that no signal is looked at again.

    Parameters
    ----------
    correlations : ndarray of float, shape (P, L)
        Products of each signal with each atom.
    energies : ndarray of float, shape (P,)
        Squared norms of the signals.
    gram : ndarray of float, shape (L, L)
        Products of the atoms, which have unit norm.
    most_atoms : int
        Atoms a code may have.
    largest_rest : float
        Squared norm of what may be left of a signal.
    """
    codes = np.zeros_like(correlations)
    work = np.empty((most_atoms + 2, most_atoms), correlations.dtype)
    for signal in range(len(codes)):
        _pursue_one(correlations[signal], energies[signal], gram, largest_rest, work, codes[signal])
    return codes
