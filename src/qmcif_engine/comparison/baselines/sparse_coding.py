"""SR: the patch that needs the larger sparse code is the sharper one; channel by channel.

Bin Yang and Shutao Li, *Multifocus image fusion and restoration with sparse representation*, IEEE Transactions on Instrumentation and
Measurement 59 (2010) 884–892. Overlapping 8 x 8 patches without their mean are coded over an overcomplete cosine dictionary by
orthogonal matching pursuit; of each place the code with the largest sum of moduli is kept, and the patches it describes are averaged.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from qmcif_engine.arrays import FloatArray
from qmcif_engine.comparison.baselines import FULL_SCALE, Baseline, fuse_patches

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


def pursue(
    signals: FloatArray, atoms: FloatArray, *, most_atoms: int = MOST_ATOMS, largest_residual: float = LARGEST_RESIDUAL
) -> FloatArray:
    """Return sparse codes by orthogonal matching pursuit, shape (P, L): the atom most like the residual, repeatedly, until it is small.

    Rubinstein, Zibulevsky and Elad 2008, *Efficient implementation of the K-SVD algorithm using batch orthogonal matching pursuit*: the
    energy of the residual and its products with all atoms follow from those of the signal, so that no signal is read again. All signals
    take a step at once, which scikit-learn's pursuit does one after the other.

    Parameters
    ----------
    signals : ndarray of float, shape (P, d)
    atoms : ndarray of float, shape (d, L)
        Columns of unit norm.
    most_atoms : int, optional
        Atoms a code may have.
    largest_residual : float, optional
        Norm that a residual may have.
    """
    correlations, energies, gram = signals @ atoms, (signals**2).sum(axis=1), atoms.T @ atoms
    codes = np.zeros_like(correlations)
    residual, energy, active = correlations, energies, np.arange(len(codes))
    chosen = np.empty((len(codes), 0), np.intp)
    for _ in range(most_atoms):
        # where no residual resembles an atom, another one would only describe rounding
        goes_on = (energy > largest_residual**2) & (np.abs(residual).max(axis=1) > ROUNDING * np.sqrt(energies[active]))
        active, residual, chosen = active[goes_on], residual[goes_on], chosen[goes_on]
        if not active.size:
            break
        chosen = np.column_stack([chosen, np.abs(residual).argmax(axis=1)])
        products = gram[chosen]
        targets = np.take_along_axis(correlations[active], chosen, axis=1)
        weights = np.linalg.solve(np.take_along_axis(products, chosen[:, None, :], axis=2), targets[..., None])[..., 0]
        codes[active[:, None], chosen] = weights
        residual = correlations[active] - (weights[:, None, :] @ products)[:, 0]
        energy = energies[active] - (weights * targets).sum(axis=1)
    return codes


def fuse_row(patches: FloatArray) -> FloatArray:
    """Fuse patches of shape (N, C, P, s, s): at each place and channel the one with the largest code is kept."""
    signals = patches.reshape(*patches.shape[:3], PATCH_PX**2)
    means = signals.mean(axis=-1, keepdims=True)
    atoms = cosine_dictionary()
    codes = pursue((signals - means).reshape(-1, PATCH_PX**2), atoms)
    winner = np.abs(codes).sum(axis=1).reshape(signals.shape[:3]).argmax(axis=0)
    # the mean of the chosen patch is put back
    best: FloatArray = np.take_along_axis((codes @ atoms.T).reshape(signals.shape) + means, winner[None, ..., None], axis=0)[0]
    return best.reshape(patches.shape[1:])


SPARSE_CODING = Baseline(
    name="sr",
    label="SR",
    paper="Yang and Li, Multifocus image fusion and restoration with sparse representation, IEEE TIM 2010",
    fuse_planes=lambda stack, check_cancelled: fuse_patches(
        stack, fuse_row, side_px=PATCH_PX, step_px=STEP_PX, check_cancelled=check_cancelled
    ),
)
