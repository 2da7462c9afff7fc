"""Min-sum belief propagation: decisions of neighboring cells are made to agree, on a pyramid of cells over the candidates of each block."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.compiled import compiled
from qmcif_engine.decision.evidence import BLOCK_PX, CELL_PX
from qmcif_engine.decision.filters import average_cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.decision.evidence import Candidates

BORDER = 0.15
"""Cost in nats of a pixel of border between decisions that are far apart in the stack, where its step cannot be seen."""

SEAM = 0.4
"""By how much a border costs more where its step is as large as the detail of the sharpest image there: a cut hides in detail."""

PRICES_PX = (8, 4)
"""Sides of the cells whose means show the steps of borders."""

GRIDS_PX = (8, 4, 2)
ROUNDS = (5, 4, 2)
"""Sides of the cells of each grid, and the rounds of messages on it: each round looks one cell further."""

FAR_SHARE, LEAST_FAR, MOST_FAR = 1 / 8, 2.0, 8.0
"""Decisions this share of the stack apart, within the bounds, are a depth edge; nearer ones are a slope."""

PROPAGATION_REACH_PX = sum(side * rounds for side, rounds in zip(GRIDS_PX, ROUNDS, strict=True))


def far_apart(n_images: int, *, is_ordered: bool) -> float:
    """Return from how many images apart two decisions are a depth edge."""
    return float(np.clip(n_images * FAR_SHARE, LEAST_FAR, MOST_FAR)) if is_ordered and n_images > 2 else 1.0


def propagate(label: NDArray[np.int32], cost: FloatArray, prices: Sequence[FloatArray], *, far: float, smoothness: float) -> FloatArray:
    """Return the beliefs of all candidates: least costs of labelings in which a cell takes one, less a constant.

    Parameters
    ----------
    label : ndarray of int32, shape (block rows, block columns, K)
        Candidates of each block, in ascending order; -1 for none.
    cost : ndarray of float32, shape (rows, columns, K)
        In nats per pixel, on cells of `CELL_PX`.
    prices : sequence of ndarray of float32
        `price_borders` on cells of 8 and of 4 px.
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
    in each round one color sends messages to its four neighbors. ``t_pq`` is the mean over both cells of the root mean square of
    ``I_a - I_b`` over the amplitude of the detail of the sharpest image there. Messages of a coarse grid start those of the next finer one.

    Departs: the paper decides patch by patch.
    """
    messages: FloatArray | None = None
    matches = _match_blocks(label)
    for side, rounds in zip(GRIDS_PX, ROUNDS, strict=True):
        if messages is not None:
            rows, columns = (-(-length * CELL_PX // side) for length in cost.shape[:2])
            messages = messages.repeat(2, axis=0).repeat(2, axis=1)[:rows, :columns] / np.float32(2)
        total = np.float32(CELL_PX**2) * _add_cells(cost, side // CELL_PX)
        if messages is None:
            messages = np.zeros((*total.shape[:2], 4, total.shape[2]), np.float32)
        # prices of cells of 4 px serve finer ones, too
        price_px = max(side, PRICES_PX[-1])
        price, border = prices[PRICES_PX.index(price_px)], np.float32(side * BORDER * smoothness)
        _pass_messages(total, label, matches, BLOCK_PX // side, price, price_px // side, np.float32(far), border, rounds, messages)
    assert messages is not None
    beliefs: FloatArray = total
    for d in range(4):
        beliefs += messages[:, :, d]
    beliefs /= np.float32(CELL_PX**2)
    return beliefs


def price_borders(means: FloatArray, candidates: Candidates, far: float) -> list[FloatArray]:
    """Return the cost of a pixel of border between each two candidates, in units of `BORDER`, shape (rows, columns, K, K) for each grid.

    Parameters
    ----------
    means : ndarray of float32, shape (N, c, rows, columns)
        Means of all images over cells of `PRICES_PX[-1]`, in units of the noise.
    candidates : Candidates
    far : float
    """
    label, power, prices = candidates.label, np.exp(candidates.best), []
    for side in PRICES_PX:
        seen = means if side == PRICES_PX[-1] else average_cells(means, side // PRICES_PX[-1])
        price = np.zeros((*seen.shape[-2:], *(label.shape[-1:] * 2)), np.float32)
        numbers = (np.float32(far), np.float32(SEAM))
        _price_borders(seen, label, BLOCK_PX // side, average_cells(power, side // CELL_PX), numbers, price)
        prices.append(price)
    return prices


def _add_cells(cost: FloatArray, cells: int) -> FloatArray:
    if cells == 1:
        return cost
    rows, columns = (-length % cells for length in cost.shape[:2])
    padded = np.pad(cost, ((0, rows), (0, columns), (0, 0)), mode="edge") if rows or columns else cost
    total = padded[::cells, ::cells].copy()
    for y in range(cells):
        for x in range(cells):
            if y or x:
                total += padded[y::cells, x::cells]
    return total


def _match_blocks(label: NDArray[np.int32]) -> NDArray[np.int8]:
    """Return where the labels of the next block are in each one, and its own in the next one, -1 for none.

    The shape is (2, 2, block rows, block columns, K): to the right and downwards, and in either direction.
    """
    matches = np.full((2, 2, *label.shape), -1, np.int8)
    for axis in (0, 1):
        own = label[:, :-1] if axis == 0 else label[:-1]
        other = label[:, 1:] if axis == 0 else label[1:]
        is_equal = (own[..., :, None] == other[..., None, :]) & (own >= 0)[..., None]
        for way in (0, 1):
            found = np.where(is_equal.any(axis=way - 2), is_equal.argmax(axis=way - 2), -1)
            matches[axis, way, : own.shape[0], : own.shape[1]] = found
    return matches


@compiled
def _price_borders(
    means: FloatArray, label: NDArray[np.int32], cells: int, power: FloatArray, numbers: tuple[np.float32, np.float32], price: FloatArray
) -> None:
    """Put the cost of a pixel of border between each two candidates, in units of `BORDER`, into ``price`` (rows, columns, K, K)."""
    c, count = means.shape[1], label.shape[2]
    far, seam = numbers
    one = means.dtype.type(1)
    for y in range(price.shape[0]):
        for x in range(price.shape[1]):
            for i in range(count):
                a = label[y // cells, x // cells, i]
                for j in range(i):
                    b = label[y // cells, x // cells, j]
                    if a >= 0 and b >= 0:
                        total = means.dtype.type(0)
                        for q in range(c):
                            total += (means[a, q, y, x] - means[b, q, y, x]) ** 2
                        step = np.sqrt(total / (c * power[y, x]))
                        price[y, x, i, j] = price[y, x, j, i] = min((a - b) / far, one) * (one + seam * step)


@compiled
def _pass_messages(
    cost: FloatArray, label: NDArray[np.int32], matches: NDArray[np.int8], cells: int, price: FloatArray, price_cells: int,
    far: np.float32, border: np.float32, rounds: int, messages: FloatArray,
) -> None:  # fmt: skip
    """Pass messages on one grid; ``messages`` (rows, columns, 4, K) are those from the left, right, upper and lower neighbor."""
    h, w, count = cost.shape
    t = cost.dtype.type
    half = border / t(2)
    total, value = np.empty(count, cost.dtype), np.empty(count, cost.dtype)
    same = np.arange(count).astype(np.int8)
    counts = (label >= 0).sum(axis=2)
    for turn in range(rounds):
        for y in range(h):
            for x in range((y + turn) % 2, w, 2):
                by, bx, py, px = y // cells, x // cells, y // price_cells, x // price_cells
                n_own = counts[by, bx]
                for i in range(n_own):
                    total[i] = cost[y, x, i] + messages[y, x, 0, i] + messages[y, x, 1, i] + messages[y, x, 2, i] + messages[y, x, 3, i]
                for d in range(4):  # to the right, left, below, above
                    v, u = y + (d == 2) - (d == 3), x + (d == 0) - (d == 1)
                    if not (0 <= v < h and 0 <= u < w):
                        continue
                    bv, bu, pv, pu = v // cells, u // cells, v // price_cells, u // price_cells
                    n_other = counts[bv, bu]
                    for i in range(n_own):
                        value[i] = total[i] - messages[y, x, d ^ 1, i]
                    # where the labels of the other block are in this one, and those of this one in the other
                    here = there = same
                    if bv != by or bu != bx:
                        first, second, axis, way = min(by, bv), min(bx, bu), d // 2, d % 2
                        here, there = matches[axis, way, first, second], matches[axis, 1 - way, first, second]
                    lowest = t(1e30)
                    for j in range(n_other):
                        own = here[j]
                        least = value[own] if own >= 0 else t(1e30)
                        for i in range(n_own):
                            if i == own or value[i] >= least:
                                continue
                            # a block knows the price of borders between its own candidates
                            other = there[i]
                            near = price[py, px, i, own] if own >= 0 else t(-1)
                            beyond = price[pv, pu, other, j] if other >= 0 else near
                            if near < 0:
                                near = beyond if beyond >= 0 else min(t(abs(label[by, bx, i] - label[bv, bu, j])) / far, t(1))
                            least = min(least, value[i] + half * (near + (beyond if beyond >= 0 else near)))
                        messages[v, u, d, j] = least
                        lowest = min(lowest, least)
                    for j in range(n_other):
                        messages[v, u, d, j] -= lowest
