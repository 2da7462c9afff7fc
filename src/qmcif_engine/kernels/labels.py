"""Belief propagation over the images of a stack: cells of a map tell their neighbors what each choice would cost them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.kernels.compilation import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.kernels.array_types import FloatArray

_N_NEIGHBORS = 4
_RIGHT, _LEFT, _DOWN, _UP = range(_N_NEIGHBORS)


SEGMENT = 8
"""Cells of a row that are looked at together: few enough that most images of a deep stack are no choice for any of them."""


@compiled
def _list_choices(costs: FloatArray, hopeless: np.floating[Any], choices: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    """List the labels that are a choice for a cell of a segment, or of one beside it; `choices` has shape (h, segments, K)."""
    n_labels, h, w = costs.shape
    n_segments = counts.shape[1]
    is_choice, least = np.zeros((n_labels, h, n_segments), np.bool_), np.empty(w, costs.dtype)
    for y in range(h):
        for x in range(w):
            least[x] = costs[0, y, x]
        for k in range(1, n_labels):
            for x in range(w):
                least[x] = min(least[x], costs[k, y, x])
        for k in range(n_labels):
            for x in range(w):
                if costs[k, y, x] - least[x] < hopeless:
                    is_choice[k, y, x // SEGMENT] = True
    for y in range(h):
        for s in range(n_segments):
            counts[y, s] = 0
            for k in range(n_labels):
                row = is_choice[k]
                is_near = row[y, s] or (y > 0 and row[y - 1, s]) or (y + 1 < h and row[y + 1, s])
                if is_near or (s > 0 and row[y, s - 1]) or (s + 1 < n_segments and row[y, s + 1]):
                    choices[y, s, counts[y, s]] = k
                    counts[y, s] += 1


@compiled
def _tell(
    belief: FloatArray, heard: FloatArray, labels: NDArray[np.int64], choices: NDArray[np.int64], prices: FloatArray, room: FloatArray
) -> None:
    """Put what the cells of a segment tell others into `room[0]`, shape (n, `SEGMENT`): what they believe without what they heard there.

    A message is what a choice costs beyond the cheapest one, or a step from another choice and its price, but no more than a jump. Choices
    that are dearer than a jump everywhere in the segment can make no other one cheaper.
    """
    n, farthest = choices.size, prices.size - 1
    told, lead, least, dearest = room[0], room[1], room[2, 0], prices[farthest]
    for x in range(SEGMENT):
        least[x] = np.inf
    for i in range(n):
        for x in range(SEGMENT):
            lead[i, x] = belief[i, x] - heard[i, x]
            least[x] = min(least[x], lead[i, x])
    for i in range(n):
        for x in range(SEGMENT):
            lead[i, x] -= least[x]
            told[i, x] = min(lead[i, x], dearest)
    for i in range(n):
        n_near = 0
        for x in range(SEGMENT):
            n_near += lead[i, x] < dearest
        label, first, last = labels[choices[i]], i, i + 1
        while n_near and first > 0 and label - labels[choices[first - 1]] < farthest:
            first -= 1
        while n_near and last < n and labels[choices[last]] - label < farthest:
            last += 1
        for other in range(first, last):
            price = prices[abs(label - labels[choices[other]])]
            for x in range(SEGMENT):
                told[other, x] = min(told[other, x], lead[i, x] + price)


@compiled
def pass_label_messages(
    costs: FloatArray,
    labels: NDArray[np.int64],
    prices: FloatArray,
    limits: tuple[np.floating[Any], np.floating[Any]],
    rounds: int,
    wanted: tuple[int, int, int, int],
    out: FloatArray,
) -> None:
    """Put what each choice costs a cell, its own reasons and its neighbors' together, into `out`, shape (K, h, w).

    Min-sum belief propagation on the four neighbors, damped. All messages of a round depend on those of the rounds before, so that a
    cell hears of nothing farther away than the number of rounds.

    Parameters
    ----------
    costs : ndarray of float32, shape (K, h, w)
        What speaks against taking each image.
    labels : ndarray of int64, shape (K,)
        The numbers of these images, ascending.
    prices : ndarray of float32
        What neighboring cells pay whose images differ by 0, 1, 2 and so on; the last entry is for that and every larger difference.
    limits : tuple of float
        Share of a message that stays as it was the round before: without it weak evidence turns over from round to round. And what an
        image costs beyond the cheapest one to be no choice for a cell: it is infinitely dear in `out`. What all neighbors say together
        must not make up for that.
    rounds : int
    wanted : tuple of int
        Top, left, bottom and right of the cells that are asked for. With every round the cells that still matter to them are fewer, and
        only these talk: `out` is right for the wanted ones alone.
    out : ndarray of float32, shape (K, h, w)
    """
    n_labels, h, w = costs.shape
    n_segments = -(-w // SEGMENT)
    choices, counts = np.empty((h, n_segments, n_labels), np.int64), np.empty((h, n_segments), np.int64)
    _list_choices(costs, limits[1], choices, counts)
    # a column more on either side, which nobody looks at, for what is told beyond the border
    heard = np.zeros((_N_NEIGHBORS, n_labels, h, n_segments * SEGMENT + 2), costs.dtype)
    told = np.zeros_like(heard)
    room = np.empty((3 + 1 + _N_NEIGHBORS, n_labels, SEGMENT), costs.dtype)
    for turn in range(rounds):
        far = rounds - turn
        left, right = max(wanted[1] - far, 0), min(wanted[3] + far, w)
        for y in range(max(wanted[0] - far, 0), min(wanted[2] + far, h)):
            for s in range(left // SEGMENT, -(-right // SEGMENT)):
                _tell_neighbors(costs, labels, prices, limits[0], (y, s), choices[y, s, : counts[y, s]], heard, told, room)
        heard, told = told, heard
    for y in range(wanted[0], wanted[2]):
        for k in range(n_labels):
            for x in range(wanted[1], wanted[3]):
                out[k, y, x] = np.inf
        for x in range(wanted[1], wanted[3]):
            s, least = x // SEGMENT, np.inf
            for i in range(counts[y, s]):
                least = min(least, costs[choices[y, s, i], y, x])
            for i in range(counts[y, s]):
                k = choices[y, s, i]
                if costs[k, y, x] - least < limits[1]:
                    words = heard[:, k, y, x + 1]
                    out[k, y, x] = costs[k, y, x] + words[0] + words[1] + words[2] + words[3]


@compiled
def _tell_neighbors(
    costs: FloatArray,
    labels: NDArray[np.int64],
    prices: FloatArray,
    damping: np.floating[Any],
    place: tuple[int, int],
    choices: NDArray[np.int64],
    heard: FloatArray,
    told: FloatArray,
    room: FloatArray,
) -> None:
    """Let the cells of one segment tell those beside, below and above them what they believe."""
    (_, h, w), (y, s), belief, answers = costs.shape, place, room[3], room[4:]
    start = s * SEGMENT + 1
    for i in range(choices.size):
        k = choices[i]
        for x in range(SEGMENT):
            belief[i, x] = costs[k, y, min(start - 1 + x, w - 1)]  # beyond the border as on it: nobody hears that
        for direction in range(_N_NEIGHBORS):
            words = heard[direction, k, y][start : start + SEGMENT]
            for x in range(SEGMENT):
                answers[direction, i, x] = words[x]
                belief[i, x] += words[x]
    # to the right, to the left, down, up; what a cell heard from the receiver stands under the opposite direction
    for direction in range(_N_NEIGHBORS):
        row = y + int(direction == _DOWN) - int(direction == _UP)
        first = start + int(direction == _RIGHT) - int(direction == _LEFT)
        if row < 0 or row >= h:
            continue
        _tell(belief, answers[direction + 1 - 2 * (direction % 2)], labels, choices, prices, room)
        for i in range(choices.size):
            message = room[0, i]
            before = heard[direction, choices[i], row][first : first + SEGMENT]
            after = told[direction, choices[i], row][first : first + SEGMENT]
            for x in range(SEGMENT):
                after[x] = message[x] + damping * (before[x] - message[x])
    if start + SEGMENT > w:
        for i in range(choices.size):
            told[_LEFT, choices[i], y, w] = 0  # there is no cell beyond the border that could tell


@compiled
def _sum_heard(lead: FloatArray, a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray, out: FloatArray) -> None:
    for x in range(out.size):
        out[x] = lead[x] + a[x] + b[x] + c[x] + d[x]


@compiled
def _tell_lead(belief: FloatArray, heard: FloatArray, before: FloatArray, limits: FloatArray, out: FloatArray) -> None:
    """Pass on a lead without what was heard from the listener, cut to the price of a border; `limits` are that price and the damping."""
    for x in range(out.size):
        message = min(max(belief[x] - heard[x], -limits[0]), limits[0])
        out[x] = message + limits[1] * (before[x] - message)


@compiled
def pass_lead_messages(lead: FloatArray, limits: FloatArray, rounds: int, out: FloatArray) -> None:
    """Do what `pass_label_messages` does for two images, of which only the difference of their costs matters.

    Parameters
    ----------
    lead, out : ndarray of float32, shape (h, w)
        By how much the first image costs a cell more than the second, without and with what its neighbors say.
    limits : ndarray of float32, shape (2,)
        What neighboring cells pay whose images differ, and the damping.
    rounds : int
    """
    h, w = lead.shape
    heard, told = np.zeros((_N_NEIGHBORS, h, w), lead.dtype), np.zeros((_N_NEIGHBORS, h, w), lead.dtype)
    for turn in range(rounds + 1):
        for y in range(h):
            _sum_heard(lead[y], heard[0, y], heard[1, y], heard[2, y], heard[3, y], out[y])
        if turn == rounds:
            break
        for y in range(h):
            # to the right, to the left, down, up, as above
            _tell_lead(out[y], heard[1, y], heard[0, y][1:], limits, told[0, y][1:])
            _tell_lead(out[y][1:], heard[0, y][1:], heard[1, y], limits, told[1, y][: w - 1])
            if y + 1 < h:
                _tell_lead(out[y], heard[3, y], heard[2, y + 1], limits, told[2, y + 1])
            if y > 0:
                _tell_lead(out[y], heard[2, y], heard[3, y - 1], limits, told[3, y - 1])
        heard, told = told, heard
