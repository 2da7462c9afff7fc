"""The detail layer of QFED as the default measures it: linearized ADMM steps of the base layer, and no threshold on the detail."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.compiled import compiled

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray

SMOOTHNESS, PENALTY, PENALTY_GROWTH, ITERATIONS = 1.5, 0.2, 1.1, 3
"""alpha, mu and its growth as published, and the number of iterations; here in units of the noise instead of gray levels."""

FIRST_STEPS = (0.145, 0.5)
"""Chebyshev steps for eigenvalues from 1 to 9, those of ``nabla^T nabla + 1``, from the image to the first base layer."""

STEP = 0.2
"""Richardson step for the same eigenvalues, one in each iteration."""

REACH_PX = len(FIRST_STEPS) + ITERATIONS
_PART_ROWS, _PART_COLUMNS = 128, 512
"""Parts that are worked on at once, so that their arrays stay in the cache."""


def detail_layer(planes: FloatArray) -> FloatArray:
    """Return the detail layer of an image.

    Parameters
    ----------
    planes : ndarray of float32, shape (c, h, w)
        In units of the standard deviation of the noise; one plane of a gray image stands for three equal ones.

    Returns
    -------
    ndarray of float32, shape (c, h, w)

    Notes
    -----
    The updates of [QMCIF, Algorithm 1] without ``Z`` and ``J``, with beta = 0, which leaves ``E = 0`` and ``D = I - B``; with
    ``W = shrink(nabla B - Y/mu, alpha/mu) + Y/mu`` the base layer solves ``(nabla^T nabla + 1) B' = B + nabla^T W`` [QMCIF, Eq. (10)].

    Departs: the base layer moves by one gradient step towards that solution instead of reaching it, and from the image by two steps
    before the first iteration; there is no soft threshold on the detail, which is what fails under noise.
    """
    scale = math.sqrt(3) if len(planes) == 1 else 1.0
    penalties = PENALTY * PENALTY_GROWTH ** np.arange(ITERATIONS)
    thresholds = (SMOOTHNESS / penalties / scale).astype(np.float32)
    shares = np.concatenate([[0.0], penalties[:-1] / penalties[1:]]).astype(np.float32)
    height, width = planes.shape[1:]
    detail = np.empty(planes.shape, np.float32)
    for top in range(0, height, _PART_ROWS):
        bottom = min(top + _PART_ROWS, height)
        above, below = max(top - REACH_PX, 0), min(bottom + REACH_PX, height)
        for left in range(0, width, _PART_COLUMNS):
            right = min(left + _PART_COLUMNS, width)
            before, after = max(left - REACH_PX, 0), min(right + REACH_PX, width)
            part = np.ascontiguousarray(planes[:, above:below, before:after], np.float32)
            base = _relax_base(part, thresholds, shares, np.float32(STEP), np.asarray(FIRST_STEPS, np.float32))
            inner = (slice(None), slice(top - above, bottom - above), slice(left - before, right - before))
            np.subtract(part[inner], base[inner], out=detail[:, top:bottom, left:right])
    return detail


@compiled
def _first_base(image: FloatArray, steps: FloatArray) -> FloatArray:
    """Return the base layer before the first iteration."""
    n_planes, h, w = image.shape
    base, new = image.copy(), np.empty_like(image)
    for k in range(steps.size):
        for c in range(n_planes):
            for y in range(h):
                here, above, below, target, out = base[c, y], base[c, max(y - 1, 0)], base[c, min(y + 1, h - 1)], image[c, y], new[c, y]
                for x in range(1, w - 1):
                    total = ((above[x] - here[x]) + (below[x] - here[x])) + ((here[x - 1] - here[x]) + (here[x + 1] - here[x]))
                    out[x] = here[x] + steps[k] * (target[x] - here[x] + total)
                for x in (0, w - 1):
                    total = above[x] + below[x] + here[max(x - 1, 0)] + here[min(x + 1, w - 1)] - 4 * here[x]
                    out[x] = here[x] + steps[k] * (target[x] - here[x] + total)
        base, new = new, base
    return base


@compiled
def _relax_base(image: FloatArray, thresholds: FloatArray, shares: FloatArray, step: np.float32, first_steps: FloatArray) -> FloatArray:
    n_planes, h, w = image.shape
    base, new = _first_base(image, first_steps), np.empty_like(image)
    # W beside the gradients: down and right; the last row and column have none
    fields = np.zeros((2, n_planes, h, w), image.dtype)
    excess = np.zeros((2, n_planes, 2, w), image.dtype)  # W less the gradient, of this row and of the one above
    power = np.empty(w, image.dtype)
    tiny = np.float32(1e-20)
    for k in range(thresholds.size):
        threshold, share = thresholds[k], shares[k]
        excess[:] = 0
        for y in range(h):
            row, above_row = y % 2, (y + 1) % 2
            for axis in range(2):
                n = w - axis
                if axis == 0 and y == h - 1:
                    excess[0, :, row] = 0
                    continue
                power[:] = 0
                for c in range(n_planes):
                    here, field = base[c, y], fields[axis, c, y]
                    there = base[c, min(y + 1, h - 1)] if axis == 0 else here[1:]
                    for x in range(n):
                        gradient = there[x] - here[x]
                        target = gradient - share * (field[x] - gradient)
                        power[x] += target * target
                for x in range(n):
                    length = math.sqrt(power[x])
                    power[x] = (max(length, threshold) - threshold) / max(length, tiny)
                for c in range(n_planes):
                    here, field, rest = base[c, y], fields[axis, c, y], excess[axis, c, row]
                    there = base[c, min(y + 1, h - 1)] if axis == 0 else here[1:]
                    for x in range(n):
                        gradient = there[x] - here[x]
                        multiplier = share * (field[x] - gradient)
                        field[x] = power[x] * (gradient - multiplier) + multiplier
                        rest[x] = field[x] - gradient
            for c in range(n_planes):
                here, out, down, up, right = base[c, y], new[c, y], excess[0, c, row], excess[0, c, above_row], excess[1, c, row]
                out[0] = here[0] + step * (up[0] - down[0] - right[0])
                for x in range(1, w):
                    out[x] = here[x] + step * ((up[x] - down[x]) + (right[x - 1] - right[x]))
        base, new = new, base
    return base
