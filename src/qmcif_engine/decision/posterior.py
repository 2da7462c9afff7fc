"""What the beliefs and the evidence say beyond the decision: its confidence, and the position of the focus between images."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.decision.evidence import ENERGY_STEP, FREEDOM, MISSING
from qmcif_engine.decision.filters import reach_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray, IndexArray

TEMPERATURE = 0.05
"""Beliefs in nats per pixel that count as one."""

POSITION_WINDOW_CELLS = 1.5
"""Standard deviation of the window in which positions are averaged: 3 px."""

LEAST_CURVATURE = 1e-6
POSITION_REACH_PX = 12


def find_confidence(beliefs: FloatArray, label: NDArray[np.int32], index: IndexArray, *, is_ordered: bool, n_images: int) -> FloatArray:
    """Return the probability that the chosen image, or in an ordered stack of three images and more a neighbor of it, is the right one.

    Notes
    -----
    The share of ``exp(-belief / T)`` of these labels in that of all.
    """
    is_deep = is_ordered and n_images > 2
    weight = np.exp((beliefs.min(axis=-1, keepdims=True) - beliefs) / np.float32(TEMPERATURE))
    is_near = np.abs(label - index[..., None].astype(np.int32)) <= (1 if is_deep else 0)
    confidence: FloatArray = (weight * is_near).sum(axis=-1) / weight.sum(axis=-1)
    return confidence


def find_peaks(evidence: NDArray[np.uint16], index: IndexArray) -> tuple[FloatArray, FloatArray]:
    """Return where along the stack each cell is sharpest, in images from 0, and how clearly, shape (rows, columns).

    Parameters
    ----------
    evidence : ndarray of uint16, shape (scales, N, rows, columns)
    index : ndarray of uint16, shape (rows, columns)

    Notes
    -----
    The vertex of the parabola through the log evidence of the chosen image and its neighbors, all scales weighted by their degrees of
    freedom.
    """
    n_images = evidence.shape[1]
    if n_images < 3:
        return index.astype(np.float32), np.full(index.shape, LEAST_CURVATURE, np.float32)
    middle = np.clip(index.astype(np.intp), 1, n_images - 2)
    before, here, after = (_log_evidence(evidence, middle + shift) for shift in (-1, 0, 1))
    curvature = np.maximum(2 * here - before - after, np.float32(LEAST_CURVATURE))
    offset = np.clip(0.5 * (after - before) / curvature, -1, 1)
    # at the ends of the stack evidence may fall off without a vertex; elsewhere the slope is the smaller one
    weight = np.maximum(curvature, np.abs(after - before) / 2)
    return np.where(weight > LEAST_CURVATURE, middle + offset, index).astype(np.float32), weight


def average_peaks(position: FloatArray, curvature: FloatArray, index: IndexArray, far: float) -> FloatArray:
    """Return positions averaged over `POSITION_WINDOW_CELLS` along rows, then columns, with the curvature of the evidence as weight.

    Cells whose images are `far` apart or more lie on either side of a depth edge and do not count for each other.
    """
    total: FloatArray = position * curvature
    weight: FloatArray = curvature
    radius = reach_of(POSITION_WINDOW_CELLS)
    label = index.astype(np.int32)
    for axis in (0, 1):
        margin = [(radius, radius) if a == axis else (0, 0) for a in (0, 1)]
        padded = [np.pad(plane, margin, mode="symmetric") for plane in (total, weight)]
        labels = np.pad(label, margin, mode="symmetric")
        sums: list[FloatArray] = [np.zeros_like(position) for _ in padded]
        for shift in range(2 * radius + 1):
            seen = tuple(slice(shift, shift + length) if a == axis else slice(None) for a, length in enumerate(label.shape))
            share = np.float32(math.exp(-0.5 * ((shift - radius) / POSITION_WINDOW_CELLS) ** 2))
            near = share * (np.abs(labels[seen] - label) < far)
            sums[0] += near * padded[0][seen]
            sums[1] += near * padded[1][seen]
        total, weight = sums[0], sums[1]
    result: FloatArray = total / weight
    return result


def _log_evidence(evidence: NDArray[np.uint16], label: NDArray[np.intp]) -> FloatArray:
    total = np.zeros(label.shape, np.float32)
    for freedom, scale in zip(FREEDOM, evidence, strict=False):
        taken = np.take_along_axis(scale, label[None], 0)[0]
        total += np.where(taken == MISSING, 0, taken) * np.float32(freedom * ENERGY_STEP)
    return total
