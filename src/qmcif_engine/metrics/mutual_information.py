"""Q_MI: how much the gray levels of the fused image tell about those of its sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .levels import stretch_levels
from .sliding_windows import iterate_strips

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray

    from .levels import Levels

N_LEVELS = 256


def measure_mutual_information(sources: Sequence[Levels], fused: Levels) -> float:
    """Measure the normalized mutual information of the fused image with its sources (Q_MI).

    Parameters
    ----------
    sources : sequence of ndarray of uint8, shape (H, W)
        Gray levels of N >= 2 sources.
    fused : ndarray of uint8, shape (H, W)
        Gray levels of the fused image.

    Returns
    -------
    float
        0 (independent) to 2 (each source is determined by the fused image and determines it).

    Notes
    -----
    ``Q_MI = (4 / N) sum_n I(X_n, F) / (H(X_n) + H(F))``: specification, section 1, after Hossny, Nahavandi and Creighton 2008, on stretched
    levels. For N = 2 the factor is the reference's 2; for more sources it keeps the range 0..2.

    A constant image has entropy 0. Against a varying one it scores 0; two constant images determine each other, so their 0 / 0 is the
    ratio of perfect dependence, 1/2.
    """
    stretched = stretch_levels(fused)
    return rate_joint_levels([count_joint_levels(stretch_levels(source), stretched) / fused.size for source in sources])


def rate_joint_levels(joints: Sequence[FloatArray]) -> float:
    """Return Q_MI from the share of pixels that have each pair of stretched levels, one array for each source."""
    return 4.0 * sum(map(_relate_levels, joints)) / len(joints)


def _relate_levels(joint: FloatArray) -> float:
    """Divide the mutual information of two images by the sum of their entropies."""
    entropy_source = compute_entropy(joint.sum(axis=1))
    entropy_fused = compute_entropy(joint.sum(axis=0))
    entropy_sum = entropy_source + entropy_fused
    # two constant images
    if entropy_sum == 0.0:
        return 0.5
    information = entropy_sum - compute_entropy(joint.ravel())
    # independent images have information 0, which rounding may push below
    return max(information, 0.0) / entropy_sum


def count_joint_levels(source: Levels, fused: Levels) -> NDArray[np.int64]:
    """Count the pixels with each pair of levels, shape (256, 256), rows for the source."""
    counts = np.zeros(N_LEVELS * N_LEVELS, np.int64)
    for rows in iterate_strips(source.shape):
        # a joint histogram is a plain one of the numbers 256 x + y
        pairs = source[rows].astype(np.int64) * N_LEVELS + fused[rows]
        counts += np.bincount(pairs.ravel(), minlength=counts.size)
    return counts.reshape(N_LEVELS, N_LEVELS)


def compute_entropy(shares: FloatArray) -> float:
    """Compute the entropy of a distribution in bits.

    Notes
    -----
    ``H = -sum p log2 p`` with 0 log 0 = 0; specification, section 1.
    """
    present = shares[shares > 0]
    # every term is negative or 0; `abs` also turns -0 into 0
    return abs(float(np.sum(present * np.log2(present))))
