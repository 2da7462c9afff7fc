"""SR: the patch that needs the larger sparse code is the sharper one; channel by channel.

Bin Yang and Shutao Li, *Multifocus image fusion and restoration with sparse representation*, IEEE Transactions on Instrumentation and
Measurement 59 (2010) 884–892. Overlapping 8 x 8 patches without their mean are coded over an overcomplete cosine dictionary by
orthogonal matching pursuit; of each place the code with the largest sum of moduli is kept, and the patches it describes are averaged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from qmcif_engine.arrays import FloatArray
from qmcif_engine.comparison.baselines.baseline import FULL_SCALE, Baseline, each_channel, take_largest
from qmcif_engine.comparison.baselines.patch_grid import PatchAverage, cut_row, pad_to_patch, plan_patches

PATCH_PX = 8
STEP_PX = 2
"""The paper moves by one pixel; two are four times as fast."""

ATOMS_ACROSS = 16
"""Cosines per direction: 256 atoms for 64 samples."""

LARGEST_RESIDUAL = PATCH_PX / FULL_SCALE
"""Euclidean norm of what a code may leave of its patch: one gray level per sample."""

MOST_ATOMS = 32
"""Half the samples of a patch: more is no sparse code."""


ROUNDING = 1e-9
"""Share of a signal that is taken for rounding."""


@cache
def cosine_dictionary() -> FloatArray:
    """Return the overcomplete cosine dictionary, shape (64, 256), with columns of unit norm."""
    samples, frequencies = np.arange(PATCH_PX)[:, None], np.arange(ATOMS_ACROSS)[None, :]
    waves: FloatArray = np.cos(np.pi * samples * frequencies / ATOMS_ACROSS)
    # patches have no mean, so atoms but the constant one need none
    waves[:, 1:] -= waves[:, 1:].mean(axis=0)
    waves /= np.linalg.norm(waves, axis=0)
    # products of a vertical and a horizontal cosine, as columns of flattened patches
    atoms = np.kron(waves, waves)
    atoms.flags.writeable = False
    return atoms


def pursue(signals: FloatArray, atoms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Code signals by orthogonal matching pursuit.

    Parameters
    ----------
    signals : ndarray of float, shape (P, d)
    atoms : ndarray of float, shape (d, L)
        Columns of unit norm.

    Returns
    -------
    activity : ndarray of float, shape (P,)
        Sum of the moduli of each code.
    described : ndarray of float, shape (P, d)
        What each code describes of its signal.
    """
    codes = pursue_codes(
        signals @ atoms, (signals**2).sum(axis=1), atoms.T @ atoms, most_atoms=MOST_ATOMS, largest_rest=LARGEST_RESIDUAL**2
    )
    activity: FloatArray = np.abs(codes).sum(axis=1)
    return activity, codes @ atoms.T


def pursue_codes(correlations: FloatArray, energies: FloatArray, gram: FloatArray, *, most_atoms: int, largest_rest: float) -> FloatArray:
    """Return the sparse codes of signals, shape (P, L): the atom most like what is left, again and again, until little is left.

    Rubinstein, Zibulevsky and Elad 2008, *Efficient implementation of the K-SVD algorithm using batch orthogonal matching pursuit*: the
    energy of what is left and its products with all atoms follow from those of the signal, so that no signal is looked at again. All
    signals take a step at once, which scikit-learn's pursuit does one after the other.

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
    left, rest, active = correlations, energies, np.arange(len(codes))
    chosen = np.empty((len(codes), 0), np.intp)
    for _ in range(most_atoms):
        # where nothing left resembles an atom, another one would only describe rounding
        goes_on = (rest > largest_rest) & (np.abs(left).max(axis=1) > ROUNDING * np.sqrt(energies[active]))
        active, left, chosen = active[goes_on], left[goes_on], chosen[goes_on]
        if not active.size:
            break
        chosen = np.column_stack([chosen, np.abs(left).argmax(axis=1)])
        products = gram[chosen]
        targets = np.take_along_axis(correlations[active], chosen, axis=1)
        weights = np.linalg.solve(np.take_along_axis(products, chosen[:, None, :], axis=2), targets[..., None])[..., 0]
        codes[active[:, None], chosen] = weights
        left = correlations[active] - (weights[:, None, :] @ products)[:, 0]
        rest = energies[active] - (weights * targets).sum(axis=1)
    return codes


def fuse_gray(stack: FloatArray, check_cancelled: Callable[[], None]) -> FloatArray:
    """Fuse gray images, shape (N, h, w)."""
    atoms = cosine_dictionary()
    height, width = stack.shape[1:]
    padded = pad_to_patch(stack, side_px=PATCH_PX)
    grid = plan_patches((padded.shape[1], padded.shape[2]), side_px=PATCH_PX, step_px=STEP_PX)
    average = PatchAverage(padded.shape[1:], grid)
    for row in range(len(grid.rows)):
        check_cancelled()
        patches = cut_row(padded, grid, row).reshape(len(stack), -1, PATCH_PX**2)
        means = patches.mean(axis=-1, keepdims=True)
        coded = [pursue(signals, atoms) for signals in patches - means]
        # the mean of the chosen patch is put back
        described = np.stack([each for _, each in coded]) + means
        # one decision for a whole patch, repeated for its samples
        best = take_largest(np.repeat(np.stack([each for each, _ in coded])[..., None], PATCH_PX**2, axis=-1), described)
        average.add_row(row, best.reshape(-1, PATCH_PX, PATCH_PX))
    return average.mean()[:height, :width]


SPARSE_CODING = Baseline(
    name="sr",
    label="SR",
    paper="Yang and Li, Multifocus image fusion and restoration with sparse representation, IEEE TIM 2010",
    fuse_planes=each_channel(fuse_gray),
)
