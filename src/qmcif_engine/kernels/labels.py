"""Belief propagation over the images of a stack: cells of a map tell their neighbors what each choice would cost them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.kernels.compilation import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray

_N_NEIGHBORS = 4
# opposite directions are next to each other: the one turns into the other by a change of the last bit
_RIGHT, _LEFT, _DOWN, _UP = range(_N_NEIGHBORS)


_SHORTEST_GAP = 16
"""Fewer cells than this, for which an image is no choice, are not worth leaving out between two for which it is."""


@compiled
def _mark_choices(costs: FloatArray, hopeless: np.floating[Any]) -> BoolArray:
    """Return for which cells each image is a choice, shape (K, h, w)."""
    n_labels, h, w = costs.shape
    is_choice, least = np.empty((n_labels, h, w), np.bool_), np.empty(w, costs.dtype)
    for y in range(h):
        for x in range(w):
            least[x] = costs[0, y, x]
        for k in range(1, n_labels):
            _lower(least, costs[k, y])
        for k in range(n_labels):
            _compare(costs[k, y], least, hopeless, is_choice[k, y])
    return is_choice


@compiled
def _list_runs(is_choice: BoolArray, runs: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    """List the label, the first column and the end of every run of cells in a row that an image is a choice for, or a neighbor of such."""
    n_labels, h, w = is_choice.shape
    is_near = np.empty(w, np.bool_)
    for y in range(h):
        n_runs = 0
        for k in range(n_labels):
            row, above, below = is_choice[k, y], is_choice[k, max(y - 1, 0)], is_choice[k, min(y + 1, h - 1)]
            for x in range(w):
                # neighbors too: they receive messages about the image, which the cells beyond do not
                is_near[x] = row[x] or above[x] or below[x] or row[max(x - 1, 0)] or row[min(x + 1, w - 1)]
            end = -_SHORTEST_GAP
            for x in range(w):
                if not is_near[x]:
                    continue
                # a new run; shorter gaps are filled, because a long loop is cheaper than two short ones
                if x - end >= _SHORTEST_GAP:
                    runs[y, n_runs, 0], runs[y, n_runs, 1] = k, x
                    n_runs += 1
                end = x + 1
                runs[y, n_runs - 1, 2] = end
        counts[y] = n_runs


@compiled
def _compare(costs: FloatArray, least: FloatArray, hopeless: np.floating[Any], out: BoolArray) -> None:
    for x in range(out.size):
        out[x] = costs[x] - least[x] < hopeless


@compiled
def _lower(least: FloatArray, values: FloatArray) -> None:
    for x in range(least.size):
        least[x] = min(least[x], values[x])


@compiled
def _subtract(belief: FloatArray, heard: FloatArray, out: FloatArray) -> None:
    for x in range(out.size):
        out[x] = belief[x] - heard[x]


@compiled
def _start(lead: FloatArray, least: FloatArray, dearest: np.floating[Any], out: FloatArray) -> int:
    """Begin a message: what a choice costs beyond the cheapest one, but no more than a jump to that; return for how many it costs less."""
    n_near = 0
    for x in range(out.size):
        beyond = lead[x] - least[x]
        lead[x] = beyond
        out[x] = min(beyond, dearest)
        n_near += beyond < dearest
    return n_near


@compiled
def _step(lead: FloatArray, price: np.floating[Any], out: FloatArray) -> None:
    """Lower a message to that of another image at the price of the step to it."""
    for x in range(lead.size):
        out[x] = min(out[x], lead[x] + price)


@compiled
def _mix(message: FloatArray, before: FloatArray, damping: np.floating[Any], out: FloatArray) -> None:
    """Keep a share of what was told before, so that cells do not talk each other into turning over and over."""
    for x in range(message.size):
        out[x] = message[x] + damping * (before[x] - message[x])


@compiled
def _add_words(costs: FloatArray, a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray, out: FloatArray) -> None:
    for x in range(out.size):
        out[x] = costs[x] + a[x] + b[x] + c[x] + d[x]


@compiled
def _tell_row(
    spoken: FloatArray, runs: NDArray[np.int64], labels: NDArray[np.int64], prices: FloatArray, least: FloatArray, told: FloatArray
) -> None:
    """Turn what the cells of a row believe, shape (K, w), into what they tell their neighbors, by the price of every change of the image.

    Choices that are dearer than a jump everywhere in their run can make no other one cheaper.
    """
    # differences from here on all cost the same: a jump to any image, which `_start` has dealt with
    farthest = prices.size - 1
    for x in range(least.size):
        least[x] = np.inf
    for r in range(len(runs)):
        k, start, end = runs[r]
        _lower(least[start:end], spoken[k, start:end])
    n_near = np.empty(len(runs), np.int64)
    for r in range(len(runs)):
        k, start, end = runs[r]
        n_near[r] = _start(spoken[k, start:end], least[start:end], prices[farthest], told[k, start:end])
    first = 0
    for r in range(len(runs)):
        k, start, end = runs[r]
        # runs are listed by ascending label: those before `first` are too far from this and from every later one
        while labels[k] - labels[runs[first, 0]] >= farthest:
            first += 1
        other = first
        # an image dearer than a jump lowers no message, whatever step is taken from it
        while n_near[r] and other < len(runs) and labels[runs[other, 0]] - labels[k] < farthest:
            near, begin, stop = runs[other, 0], max(start, runs[other, 1]), min(end, runs[other, 2])
            if near != k and begin < stop:
                _step(spoken[k, begin:stop], prices[abs(labels[near] - labels[k])], told[near, begin:stop])
            other += 1


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
    is_choice = _mark_choices(costs, limits[1])
    runs, counts = np.empty((h, n_labels * (w // _SHORTEST_GAP + 1), 3), np.int64), np.empty(h, np.int64)
    _list_runs(is_choice, runs, counts)
    heard = np.zeros((_N_NEIGHBORS, n_labels, h, w), costs.dtype)
    told = np.zeros_like(heard)
    rows = np.zeros((3, n_labels, w), costs.dtype)
    for turn in range(rounds):
        # with so many rounds left, cells farther from the wanted ones are not heard by them any more
        far = rounds - turn
        left, right = max(wanted[1] - far, 0), min(wanted[3] + far, w)
        for y in range(max(wanted[0] - far, 0), min(wanted[2] + far, h)):
            near = _cut_runs(runs[y, : counts[y]], left, right)
            for r in range(len(near)):
                k, start, end = near[r]
                words = heard[:, k, y, start:end]
                _add_words(costs[k, y, start:end], words[0], words[1], words[2], words[3], rows[0, k, start:end])
            _tell_neighbors(rows, near, labels, prices, limits[0], y, heard, told)
        heard, told = told, heard
    for k in range(n_labels):
        for y in range(wanted[0], wanted[2]):
            for x in range(wanted[1], wanted[3]):
                words = heard[:, k, y, x]
                out[k, y, x] = costs[k, y, x] + words[0] + words[1] + words[2] + words[3] if is_choice[k, y, x] else np.inf


@compiled
def _cut_runs(runs: NDArray[np.int64], left: int, right: int) -> NDArray[np.int64]:
    """Return what of the runs lies between two columns."""
    cut, n_runs = np.empty_like(runs), 0
    for r in range(len(runs)):
        start, end = max(runs[r, 1], left), min(runs[r, 2], right)
        if start < end:
            cut[n_runs, 0], cut[n_runs, 1], cut[n_runs, 2] = runs[r, 0], start, end
            n_runs += 1
    return cut[:n_runs]


@compiled
def _tell_neighbors(
    rows: FloatArray,
    runs: NDArray[np.int64],
    labels: NDArray[np.int64],
    prices: FloatArray,
    damping: np.floating[Any],
    y: int,
    heard: FloatArray,
    told: FloatArray,
) -> None:
    """Pass what the cells of row `y` believe to those beside, below and above them; `rows` are that, and room for two more."""
    belief, spoken, message = rows[0], rows[1], rows[2]
    h, w = heard.shape[2:]
    least = np.empty(w, rows.dtype)
    # what a cell heard from the receiver stands under the opposite direction
    for direction in range(_N_NEIGHBORS):
        down, right = int(direction == _DOWN) - int(direction == _UP), int(direction == _RIGHT) - int(direction == _LEFT)
        # nobody above the first row and below the last one
        if y + down < 0 or y + down >= h:
            continue
        for r in range(len(runs)):
            k, start, end = runs[r]
            _subtract(belief[k, start:end], heard[direction + 1 - 2 * (direction % 2), k, y, start:end], spoken[k, start:end])
        _tell_row(spoken, runs, labels, prices, least, message)
        for r in range(len(runs)):
            k, start, end = runs[r]
            # the same at both ends of a row
            start, end = max(start, -right), min(end, w - right)
            before, after = heard[direction, k, y + down, start + right :], told[direction, k, y + down, start + right :]
            _mix(message[k, start:end], before, damping, after)


@compiled
def _sum_heard(lead: FloatArray, a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray, out: FloatArray) -> None:
    for x in range(out.size):
        out[x] = lead[x] + a[x] + b[x] + c[x] + d[x]


@compiled
def _tell_lead(belief: FloatArray, heard: FloatArray, before: FloatArray, limits: FloatArray, out: FloatArray) -> None:
    """Pass on a lead without what was heard from the listener, cut to the price of a border; `limits` are that price and the damping."""
    for x in range(out.size):
        # for two images the min-sum message is the lead, cut to the price of a border: beyond that the border is cheaper
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
