"""QHOSVD: patches of all images as one quaternion tensor; the larger the coefficients of a patch in its singular bases, the more it counts.

Jifei Miao and Kit Ian Kou, *Quaternion higher-order singular value decomposition and its applications in color image processing*,
Information Fusion 92 (2023) 139–153 (arXiv 2101.00364). The N patches of a place form a tensor of side x side x N quaternions. The left
singular vectors of its first unfolding and the right ones of its second are common bases of all N patches; the sum of the moduli of a
patch's coefficients in them is its activity. The fused patches are averaged where they overlap.

Ours, because of the paper only the abstract was at hand: activities are those of patches without their mean, and patches are not chosen but
weighted by a power of their activities, which for two of them is a sigmoid function of the logarithm of their ratio.
"""

from __future__ import annotations

import numpy as np

from qmcif_engine.arrays import ComplexArray, FloatArray
from qmcif_engine.comparison.baselines import Baseline, fuse_patches

PATCH_PX = 8
STEP_PX = 2
N_COLORS = 3
STEEPNESS = 10.0
"""Of the sigmoid function: weights of two patches are as the tenth powers of their activities."""


def complex_form(patches: FloatArray) -> ComplexArray:
    """Return the complex form of color patches, shape (..., 3, s, s) to (..., 2 s, 2 s).

    ``R i + G j + B k`` is ``X + Y j`` with ``X = R i`` and ``Y = G + B i``; its complex form ``[[X, Y], [-conj Y, conj X]]`` multiplies
    as the quaternions do.
    """
    red, green, blue = (patches[..., channel, :, :] for channel in range(N_COLORS))
    first, second = 1j * red, green + 1j * blue
    return np.concatenate([np.concatenate([first, second], axis=-1), np.concatenate([-np.conj(second), np.conj(first)], axis=-1)], axis=-2)


def measure_activity(patches: FloatArray) -> FloatArray:
    """Return the sum of the moduli of each patch's coefficients, shape (N, P), for patches of shape (N, P, 3, s, s).

    Notes
    -----
    Every singular value of the complex form occurs twice; the two vectors of a pair span one quaternion vector, whose phase is free.
    The modulus of a coefficient is the Frobenius norm of its 2 x 2 block, divided by the root of two, whatever the phases.
    """
    matrices = complex_form(patches)
    adjoints = np.conj(np.swapaxes(matrices, -1, -2))
    # singular vectors as eigenvectors of small Gram matrices (16 x 16), summed over the N patches of a place
    left = np.linalg.eigh((matrices @ adjoints).sum(axis=0)).eigenvectors
    right = np.linalg.eigh((adjoints @ matrices).sum(axis=0)).eigenvectors
    core = np.conj(np.swapaxes(left, -1, -2)) @ matrices @ right
    energy = np.abs(core) ** 2
    side = energy.shape[-1] // 2
    # `eigh` sorts, so the two vectors of a pair stand side by side
    blocks = energy.reshape(*energy.shape[:-2], side, 2, side, 2).sum(axis=(-3, -1))
    activity: FloatArray = np.sqrt(blocks / 2).sum(axis=(-2, -1))
    return activity


def weigh(activity: FloatArray) -> FloatArray:
    """Return the weight of each patch at its place, shape (N, P), for activities of that shape; equal ones where nothing is active.

    For two patches it is ``1 / (1 + exp(-k ln(a_1 / a_2)))``, with the steepness ``k``.
    """
    largest = activity.max(axis=0)
    # powers of ratios at most 1 cannot overflow
    shares = np.divide(activity, largest, out=np.ones_like(activity), where=largest > 0) ** STEEPNESS
    weights: FloatArray = shares / shares.sum(axis=0)
    return weights


def fuse_row(patches: FloatArray) -> FloatArray:
    """Fuse patches of shape (N, C, P, s, s); gray ones count as colors of three equal parts."""
    by_place = np.broadcast_to(np.moveaxis(patches, 1, 2), (len(patches), patches.shape[2], N_COLORS, PATCH_PX, PATCH_PX))
    weights = weigh(measure_activity(by_place - by_place.mean(axis=(-2, -1), keepdims=True)))
    fused: FloatArray = np.einsum("np,ncpij->cpij", weights, patches)
    return fused


QUATERNION_TENSORS = Baseline(
    name="qhosvd",
    label="QHOSVD",
    paper="Miao and Kou, Quaternion higher-order singular value decomposition and its applications in color image processing, 2023",
    fuse_planes=lambda stack, check_cancelled: fuse_patches(
        stack, fuse_row, side_px=PATCH_PX, step_px=STEP_PX, check_cancelled=check_cancelled
    ),
)
