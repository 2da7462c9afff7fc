"""Messages by which the pixels of a map tell their neighbors what they believe, until what they believe fits together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.compilation import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.kernels.array_types import FloatArray

_STEPS = np.array([(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, -1), (1, -1), (-1, 1)])
"""Where the eight neighbors of a pixel lie; opposite ones are next to each other."""

_N_STRAIGHT = 4
"""How many of them are not diagonal."""

_DIAGONAL_WEIGHT = 0.7
"""What a diagonal neighbor counts, so that an outline costs about the same in every direction."""


@compiled
def _link(groups: NDArray[np.int64], stiffness: float, links: FloatArray) -> None:
    """Put how much a pixel listens to each neighbor into `links`, shape (8, h, w): nothing across groups and beyond the border."""
    h, w = groups.shape
    for k in range(8):
        down, right = _STEPS[k]
        weight = stiffness if k < _N_STRAIGHT else _DIAGONAL_WEIGHT * stiffness
        for y in range(h):
            for x in range(w):
                is_inside = 0 <= y + down < h and 0 <= x + right < w
                links[k, y, x] = weight if is_inside and groups[y + down, x + right] == groups[y, x] else 0.0


@compiled
def _add(total: FloatArray, values: FloatArray) -> None:
    for x in range(total.size):
        total[x] += values[x]


@compiled
def _tell(belief: FloatArray, heard: FloatArray, link: FloatArray, out: FloatArray) -> None:
    """Pass on what a row of pixels believes, without what it heard from the listeners."""
    for x in range(out.size):
        out[x] = min(max(belief[x] - heard[x], -link[x]), link[x])


@compiled
def pass_messages(evidence: FloatArray, groups: NDArray[np.int64], stiffness: float, rounds: int, out: FloatArray) -> None:
    """Put the evidence of each pixel, and what its neighbors told it in the last of some rounds, into `out`.

    A message is the belief of its sender without what the receiver told it, cut to plus or minus the stiffness: min-sum belief
    propagation for two labels. Only pixels of the same group talk. All messages of a round depend on those of the round before.
    """
    h, w = evidence.shape
    heard, told, links = np.zeros((8, h, w), evidence.dtype), np.zeros((8, h, w), evidence.dtype), np.empty((8, h, w), evidence.dtype)
    _link(groups, stiffness, links)
    for turn in range(rounds + 1):
        for y in range(h):
            for x in range(w):
                out[y, x] = evidence[y, x]
            for k in range(8):
                _add(out[y], heard[k, y])
        if turn == rounds:
            break
        for k in range(8):
            down, right = _STEPS[k]
            back = k + 1 - 2 * (k % 2)
            here, there, n = max(0, -right), max(0, right), w - abs(right)
            for y in range(max(0, -down), min(h, h - down)):
                belief, memory = out[y + down][there : there + n], heard[back, y + down][there : there + n]
                _tell(belief, memory, links[k, y][here : here + n], told[k, y][here : here + n])
        heard, told = told, heard
