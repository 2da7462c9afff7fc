"""Q_MI: how much the gray levels of the fused image tell about those of its sources."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.arrays import FloatArray
from qmcif_engine.stack.window import Window

from .blocks import Passes
from .levels import Levels, tabulate_stretching

N_LEVELS = 256


def measure_mutual_information(images: Sequence[Levels], passes: Passes) -> tuple[float, list[NDArray[np.uint8]]]:
    """Measure the normalized mutual information of the fused image with its sources (Q_MI).

    Parameters
    ----------
    images : sequence of Levels
        N >= 2 sources and, last, the fused image.
    passes : Passes

    Returns
    -------
    score : float
        0 (independent) to 2 (each source is determined by the fused image and determines it).
    tables : list of ndarray of uint8, shape (256,)
        What each level of each image becomes when the image is stretched to the whole range.

    Notes
    -----
    ``Q_MI = (4 / N) sum_n I(X_n, F) / (H(X_n) + H(F))``: specification, section 1, after Hossny, Nahavandi and Creighton 2008, on stretched
    levels. For N = 2 the factor is the reference's 2; for more sources it keeps the range 0..2.

    A constant image has entropy 0. Against a varying one it scores 0; two constant images determine each other, so their 0 / 0 is the
    ratio of perfect dependence, 1/2.
    """
    joints = passes.add_up("mutual_information", partial(_count_joint_levels, images))
    # all joint histograms have the same fused image along their columns
    tables = [tabulate_stretching(counts) for counts in (*(joint.sum(axis=1) for joint in joints), joints[0].sum(axis=0))]
    ratios = [_relate_levels(_stretch(joint, table, tables[-1])) for joint, table in zip(joints, tables, strict=False)]
    return 4.0 * sum(ratios) / len(ratios), tables


def _count_joint_levels(images: Sequence[Levels], block: Window) -> list[NDArray[np.int64]]:
    """Count the pixels with each pair of levels of each source, along the rows, and the fused image."""
    *sources, fused = (image[block.slices].astype(np.int64) for image in images)
    # a joint histogram is a plain one of the numbers 256 x + y
    return [np.bincount((source * N_LEVELS + fused).ravel(), minlength=N_LEVELS**2).reshape(N_LEVELS, N_LEVELS) for source in sources]


def _stretch(joint: NDArray[np.int64], of_source: NDArray[np.uint8], of_fused: NDArray[np.uint8]) -> FloatArray:
    """Return the share of pixels with each pair of stretched levels."""
    stretched = np.zeros((N_LEVELS, N_LEVELS))
    # levels beyond the extremes all become 0 or 255: assigning in place of adding would overwrite real counts with their zeros
    np.add.at(stretched, (of_source[:, np.newaxis], of_fused[np.newaxis]), joint)
    shares: FloatArray = stretched / joint.sum()
    return shares


def _relate_levels(joint: FloatArray) -> float:
    """Divide the mutual information of two images by the sum of their entropies."""
    entropy_sum = compute_entropy(joint.sum(axis=1)) + compute_entropy(joint.sum(axis=0))
    # two constant images
    if entropy_sum == 0.0:
        return 0.5
    information = entropy_sum - compute_entropy(joint.ravel())
    # independent images have information 0, which rounding may push below
    return max(information, 0.0) / entropy_sum


def compute_entropy(shares: FloatArray) -> float:
    """Compute the entropy of a distribution in bits.

    Notes
    -----
    ``H = -sum p log2 p`` with 0 log 0 = 0; specification, section 1.
    """
    present = shares[shares > 0]
    # every term is negative or 0; `abs` also turns -0 into 0
    return abs(float(np.sum(present * np.log2(present))))
