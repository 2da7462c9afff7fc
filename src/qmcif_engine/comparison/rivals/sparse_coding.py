"""SR: the patch that needs the larger sparse code is the sharper one; channel by channel.

Bin Yang and Shutao Li, *Multifocus image fusion and restoration with sparse representation*, IEEE Transactions on Instrumentation and
Measurement 59 (2010) 884–892. Overlapping 8 x 8 patches without their mean are coded over an overcomplete cosine dictionary by
orthogonal matching pursuit; of each place the code with the largest sum of moduli is kept, and the patches it describes are averaged.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from qmcif_engine.comparison.rivals.patch_grid import PatchAverage, cut_row, pad_to_patch, plan_patches
from qmcif_engine.comparison.rivals.rival import Rival, each_channel, take_largest

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qmcif_engine.kernels.array_types import FloatArray

    IntegerArray: TypeAlias = NDArray[np.intp]

PATCH_PX = 8
STEP_PX = 2
"""The paper moves by one pixel; two are four times as fast."""

ATOMS_ACROSS = 16
"""Cosines a direction: 256 atoms for 64 samples."""

LARGEST_RESIDUAL = 0.04
"""Euclidean norm, on the 0-1 scale, of what a code may leave of its patch."""

MOST_ATOMS = 32
"""Half the samples of a patch: more is no sparse code."""


@cache
def cosine_dictionary() -> FloatArray:
    """Return the overcomplete cosine dictionary, shape (64, 256), with columns of unit norm."""
    samples, frequencies = np.arange(PATCH_PX)[:, None], np.arange(ATOMS_ACROSS)[None, :]
    waves: FloatArray = np.cos(np.pi * samples * frequencies / ATOMS_ACROSS)
    waves[:, 1:] -= waves[:, 1:].mean(axis=0)
    waves /= np.linalg.norm(waves, axis=0)
    atoms = np.kron(waves, waves)
    atoms.flags.writeable = False
    return atoms


def pursue(signals: FloatArray, atoms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Code signals by orthogonal matching pursuit, all of them a step at a time.

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
    residual, sizes = signals.copy(), np.zeros(len(signals), np.intp)
    chosen = np.zeros((len(signals), MOST_ATOMS), np.intp)
    basis = np.zeros((len(signals), MOST_ATOMS, atoms.shape[0]))
    for size in range(MOST_ATOMS):
        places = np.flatnonzero(np.linalg.norm(residual, axis=1) > LARGEST_RESIDUAL)
        if not len(places):
            break
        left, spanned = residual[places], basis[places, :size]
        chosen[places, size] = np.abs(left @ atoms).argmax(axis=1)
        fresh = atoms.T[chosen[places, size]]
        for _ in range(2):  # orthogonalized twice: once leaves rounding
            shares = np.einsum("pkd,pd->pk", spanned, fresh)
            fresh = fresh - np.einsum("pk,pkd->pd", shares, spanned)
        fresh /= np.linalg.norm(fresh, axis=1, keepdims=True)
        basis[places, size], sizes[places] = fresh, size + 1
        residual[places] -= np.einsum("pd,pd->p", fresh, left)[:, None] * fresh
    return _sum_codes(signals, chosen, basis, sizes=sizes, atoms=atoms), signals - residual


def _sum_codes(signals: FloatArray, chosen: IntegerArray, basis: FloatArray, *, sizes: IntegerArray, atoms: FloatArray) -> FloatArray:
    """Return the sum of the moduli of each code: the orthogonal basis gives the description, the atoms themselves the code."""
    activity = np.zeros(len(signals))
    for size in np.unique(sizes[sizes > 0]):
        places = np.flatnonzero(sizes == size)
        own = basis[places, :size]
        triangles = np.einsum("pkd,pld->pkl", own, atoms.T[chosen[places, :size]])
        targets = np.einsum("pkd,pd->pk", own, signals[places])
        activity[places] = np.abs(np.linalg.solve(triangles, targets[..., None])).sum(axis=(1, 2))
    return activity


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
        described = np.stack([each for _, each in coded]) + means
        best = take_largest(np.repeat(np.stack([each for each, _ in coded])[..., None], PATCH_PX**2, axis=-1), described)
        average.add_row(row, best.reshape(-1, PATCH_PX, PATCH_PX))
    return average.mean()[:height, :width]


SPARSE_CODING = Rival(
    name="sr",
    label="SR",
    paper="Yang and Li, Multifocus image fusion and restoration with sparse representation, IEEE TIM 2010",
    fuse_planes=each_channel(fuse_gray),
)
