"""Min-sum belief propagation: decisions of neighboring cells are made to agree, on a pyramid of cells over the candidates of each block."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.compiled import compiled
from qmcif_engine.decision.evidence import BLOCK_PX, CELL_PX
from qmcif_engine.decision.filters import average_cells

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.decision.evidence import Candidates

BORDER = 0.15
"""Cost in nats of a pixel of border between decisions that are far apart in the stack, where its step cannot be seen."""

SEAM = 0.2
"""By how much a border costs more where its step is as large as the detail of the sharpest image there: a cut hides in detail."""

MEANS_PX = 4
"""Side of the cells whose means show the steps of borders."""

GRIDS_PX = (8, 4, 2)
ROUNDS = (5, 4, 4)
"""Sides of the cells of each grid, and the rounds of messages on it: each round looks one cell further."""

FAR_SHARE, LEAST_FAR, MOST_FAR = 1 / 8, 2.0, 8.0
"""Decisions this share of the stack apart, within the bounds, are a depth edge; nearer ones are a slope."""

PROPAGATION_REACH_PX = sum(side * rounds for side, rounds in zip(GRIDS_PX, ROUNDS, strict=True))


def far_apart(n_images: int, *, is_ordered: bool) -> float:
    """Return from how many images apart two decisions are a depth edge."""
    return float(np.clip(n_images * FAR_SHARE, LEAST_FAR, MOST_FAR)) if is_ordered and n_images > 2 else 1.0


def propagate(candidates: Candidates, cost: FloatArray, means: FloatArray, *, far: float, smoothness: float) -> FloatArray:
    """Return the beliefs of all candidates: least costs of labelings in which a cell takes one, less a constant.

    Parameters
    ----------
    candidates : Candidates
    cost : ndarray of float32, shape (rows, columns, K)
        In nats per pixel, on cells of `CELL_PX`.
    means : ndarray of float32, shape (N, c, rows, columns)
        Means of all images over cells of 4 px, in units of the noise.
    far : float
        From how many images apart two decisions are a depth edge.
    smoothness : float
        Factor on the cost of borders.

    Returns
    -------
    ndarray of float32, shape (rows, columns, K)
        In nats per pixel.

    Notes
    -----
    Minimizes ``sum_p cost(x_p) + sum_pq BORDER min(|x_p - x_q| / far, 1) (1 + SEAM t_pq)`` on a chessboard anchored at the image's origin:
    in each round one color sends messages to its four neighbors. ``t_pq`` is the root mean square of ``I_a - I_b`` at both cells over
    the amplitude of the detail of the sharpest image there. Messages of a coarse grid start those of the next finer one.

    Departs: the paper decides patch by patch.
    """
    messages: FloatArray | None = None
    for side, rounds in zip(GRIDS_PX, ROUNDS, strict=True):
        total = np.float32(CELL_PX**2) * _add_cells(cost, side // CELL_PX)
        # means over 4 px show the steps of finer cells, too
        coarse = max(side, MEANS_PX)
        power = average_cells(np.exp(candidates.best), coarse // CELL_PX)
        steps = np.zeros((*power.shape, *(candidates.label.shape[-1:] * 2)), np.float32)
        _measure_steps(
            means if coarse == MEANS_PX else average_cells(means, coarse // MEANS_PX), candidates.label, BLOCK_PX // coarse, power, steps
        )
        if messages is None:
            messages = np.zeros((4, *total.shape), np.float32)
        else:
            messages = messages.repeat(2, axis=1).repeat(2, axis=2)[:, : total.shape[0], : total.shape[1]] / np.float32(2)
        border = np.float32(side * BORDER * smoothness)
        _pass_messages(
            total, candidates.label, BLOCK_PX // side, steps, coarse // side, (np.float32(far), border, np.float32(SEAM)), rounds, messages
        )
    assert messages is not None
    beliefs: FloatArray = (total + messages.sum(axis=0)) / np.float32(CELL_PX**2)
    return beliefs


def _add_cells(cost: FloatArray, cells: int) -> FloatArray:
    if cells == 1:
        return cost
    rows, columns = (-length % cells for length in cost.shape[:2])
    padded = np.pad(cost, ((0, rows), (0, columns), (0, 0)), mode="edge")
    total: FloatArray = padded.reshape(padded.shape[0] // cells, cells, -1, cells, cost.shape[2]).sum(axis=(1, 3))
    return total


@compiled
def _measure_steps(means: FloatArray, label: NDArray[np.int32], cells: int, power: FloatArray, steps: FloatArray) -> None:
    c, count = means.shape[1], label.shape[2]
    for y in range(steps.shape[0]):
        for x in range(steps.shape[1]):
            for i in range(count):
                a = label[y // cells, x // cells, i]
                for j in range(i):
                    b = label[y // cells, x // cells, j]
                    if a >= 0 and b >= 0:
                        total = means.dtype.type(0)
                        for q in range(c):
                            total += (means[a, q, y, x] - means[b, q, y, x]) ** 2
                        steps[y, x, i, j] = steps[y, x, j, i] = total / (2 * c * power[y, x])


@compiled
def _pass_messages(
    cost: FloatArray,
    label: NDArray[np.int32],
    cells: int,
    steps: FloatArray,
    step_cells: int,
    numbers: tuple[np.float32, np.float32, np.float32],
    rounds: int,
    messages: FloatArray,
) -> None:
    h, w, count = cost.shape
    far, border, seam = numbers
    t = cost.dtype.type
    total = np.empty(count, cost.dtype)
    # where the labels of the other block are in this one, and those of this one in the other
    here = np.empty(count, np.int64)
    there = np.empty(count, np.int64)
    for turn in range(rounds):
        for y in range(h):
            for x in range((y + turn) % 2, w, 2):
                own = label[y // cells, x // cells]
                for i in range(count):
                    total[i] = cost[y, x, i] + messages[0, y, x, i] + messages[1, y, x, i] + messages[2, y, x, i] + messages[3, y, x, i]
                for d in range(4):  # to the right, left, below, above
                    v, u = y + (d == 2) - (d == 3), x + (d == 0) - (d == 1)
                    if not (0 <= v < h and 0 <= u < w):
                        continue
                    other = label[v // cells, u // cells]
                    for i in range(count):
                        here[i] = there[i] = -1
                    i = j = 0
                    while i < count and j < count and own[i] >= 0 and other[j] >= 0:
                        a, b = own[i], other[j]
                        if a == b:
                            there[i], here[j] = j, i
                        i += a <= b
                        j += b <= a
                    lowest = t(1e30)
                    for j in range(count):
                        if other[j] < 0:
                            break
                        least = t(1e30)
                        for i in range(count):
                            if own[i] < 0:
                                break
                            value = total[i] - messages[d ^ 1, y, x, i]
                            if own[i] != other[j] and value < least:
                                # a block knows the step between two labels that are among its candidates
                                step, known = t(0), 0
                                if here[j] >= 0:
                                    step += steps[y // step_cells, x // step_cells, i, here[j]]
                                    known += 1
                                if there[i] >= 0:
                                    step += steps[v // step_cells, u // step_cells, there[i], j]
                                    known += 1
                                if known == 1:
                                    step *= 2
                                value += border * min(t(abs(own[i] - other[j])) / far, t(1)) * (1 + seam * np.sqrt(step))
                            least = min(least, value)
                        messages[d, v, u, j] = least
                        lowest = min(lowest, least)
                    for j in range(count):
                        if other[j] >= 0:
                            messages[d, v, u, j] -= lowest
