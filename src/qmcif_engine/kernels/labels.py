"""Belief propagation over the images of a stack: cells of a map tell their neighbors what each choice would cost them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.compilation import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.kernels.array_types import FloatArray

_N_NEIGHBORS = 4


@compiled
def _subtract(belief: FloatArray, heard: FloatArray, out: FloatArray) -> None:
    for x in range(out.size):
        out[x] = belief[x] - heard[x]


@compiled
def _lower(least: FloatArray, values: FloatArray) -> None:
    for x in range(least.size):
        least[x] = min(least[x], values[x])


@compiled
def _start(values: FloatArray, least: FloatArray, dearest: FloatArray, out: FloatArray) -> None:
    """Begin a message: what a choice costs beyond the cheapest one, but no more than a jump to that."""
    for x in range(out.size):
        out[x] = min(values[x] - least[x], dearest[0])


@compiled
def _step(values: FloatArray, least: FloatArray, price: FloatArray, out: FloatArray) -> None:
    """Let a message choose another image at the price of the step to it."""
    for x in range(out.size):
        out[x] = min(out[x], values[x] - least[x] + price[0])


@compiled
def _mix(message: FloatArray, before: FloatArray, damping: FloatArray, out: FloatArray) -> None:
    """Keep a share of what was told before, so that cells do not talk each other into turning over and over."""
    for x in range(out.size):
        out[x] = message[x] + damping[0] * (before[x] - message[x])


@compiled
def _add(total: FloatArray, values: FloatArray) -> None:
    for x in range(total.size):
        total[x] += values[x]


@compiled
def _tell_row(spoken: FloatArray, labels: NDArray[np.int64], prices: FloatArray, least: FloatArray, told: FloatArray) -> None:
    """Turn what a row of cells believes, shape (K, w), into what it tells its neighbors, by the price of every change of the image."""
    n_labels, farthest = labels.size, prices.size - 1
    for x in range(least.size):
        least[x] = spoken[0, x]
    for k in range(1, n_labels):
        _lower(least, spoken[k])
    for k in range(n_labels):
        _start(spoken[k], least, prices[farthest:], told[k])
        for other in range(k + 1, n_labels):
            if labels[other] - labels[k] >= farthest:
                break
            _step(spoken[other], least, prices[labels[other] - labels[k] :], told[k])
        for other in range(k - 1, -1, -1):
            if labels[k] - labels[other] >= farthest:
                break
            _step(spoken[other], least, prices[labels[k] - labels[other] :], told[k])


@compiled
def pass_label_messages(
    costs: FloatArray,
    labels: NDArray[np.int64],
    prices: FloatArray,
    damping: FloatArray,
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
    damping : ndarray of float32, shape (1,)
        Share of a message that stays as it was the round before: without it weak evidence turns over from round to round.
    rounds : int
    wanted : tuple of int
        Top, left, bottom and right of the cells that are asked for. With every round the cells that still matter to them are fewer, and
        only these talk: `out` is right for the wanted ones alone.
    out : ndarray of float32, shape (K, h, w)
    """
    n_labels, h, w = costs.shape
    heard, told = np.zeros((_N_NEIGHBORS, n_labels, h, w), costs.dtype), np.zeros((_N_NEIGHBORS, n_labels, h, w), costs.dtype)
    spoken, message = np.empty((n_labels, w), costs.dtype), np.empty((n_labels, w), costs.dtype)
    least = np.empty(w, costs.dtype)
    for turn in range(rounds + 1):
        far = rounds - turn
        top, bottom = max(wanted[0] - far, 0), min(wanted[2] + far, h)
        left, right = max(wanted[1] - far, 0), min(wanted[3] + far, w)
        for k in range(n_labels):
            for y in range(top, bottom):
                for x in range(left, right):
                    out[k, y, x] = costs[k, y, x]
                for neighbor in range(_N_NEIGHBORS):
                    _add(out[k, y][left:right], heard[neighbor, k, y][left:right])
        if turn == rounds:
            break
        before, last = max(left, 1), min(right, w - 1)
        for y in range(top, bottom):
            # to the right, to the left, down, up; what a cell heard from the receiver stands under the opposite direction
            for direction in range(_N_NEIGHBORS):
                back = direction + 1 - 2 * (direction % 2)
                for k in range(n_labels):
                    _subtract(out[k, y][left:right], heard[back, k, y][left:right], spoken[k][left:right])
                _tell_row(spoken[:, left:right], labels, prices, least[left:right], message[:, left:right])
                for k in range(n_labels):
                    if direction == 0:
                        _mix(message[k][left:last], heard[0, k, y][left + 1 :], damping, told[0, k, y][left + 1 : last + 1])
                    elif direction == 1:
                        _mix(message[k][before:right], heard[1, k, y][before - 1 :], damping, told[1, k, y][before - 1 : right - 1])
                    elif direction == 2 and y + 1 < h:
                        _mix(message[k][left:right], heard[2, k, y + 1][left:], damping, told[2, k, y + 1][left:right])
                    elif direction == 3 and y > 0:
                        _mix(message[k][left:right], heard[3, k, y - 1][left:], damping, told[3, k, y - 1][left:right])
        heard, told = told, heard


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
