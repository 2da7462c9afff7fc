"""Messages by which the pixels of a map tell their neighbors what they believe, until what they believe fits together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.cells import copy_cell, join_row, largest_size
from qmcif_engine.kernels.compilation import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray

STRAIGHT, DIAGONAL = 2048, 1434
"""What the largest message between neighbors counts: seven tenths for diagonal ones, so that an outline costs about the same in every
direction. Everything is counted in whole numbers of this unit: 16 bits are fast, and sums of them do not depend on their order."""

CERTAIN = 5 * STRAIGHT + 4 * DIAGONAL
"""Evidence that nothing outweighs: all neighbors together leave enough of it for the largest message. Twice this fits into 16 bits."""

_STEPS = np.array([(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, -1), (1, -1), (-1, 1)])
"""Where the eight neighbors of a pixel lie; opposite ones are next to each other."""

_N_STRAIGHT = 4
"""How many of them are not diagonal."""


@compiled
def _is_even(values: IndexArray) -> bool:
    first, is_even = values[0], True
    for x in range(values.size):
        is_even &= values[x] == first
    return is_even


@compiled
def _compare(group: IndexArray, other: IndexArray, link: NDArray[np.int16]) -> None:
    """Cut links between pixels of different groups."""
    for x in range(link.size):
        weight = link[x]
        link[x] = weight if group[x] == other[x] else np.int16(0)


@compiled
def _link(firsts: IndexArray, seconds: IndexArray, width: int, links: NDArray[np.int16]) -> None:
    """Put how much each neighbor of a pixel listens to it into `links`, shape (8, n): nothing where other images compete."""
    start, stop = width + 1, firsts.size - width - 1
    # where the same two images compete everywhere, the usual case, nothing has to be compared
    is_even = _is_even(firsts) and _is_even(seconds)
    for k in range(8):
        step = _STEPS[k, 0] * width + _STEPS[k, 1]
        weight = np.int16(STRAIGHT if k < _N_STRAIGHT else DIAGONAL)
        link = links[k]
        for x in range(link.size):
            link[x] = weight
        if not is_even:
            _compare(firsts[start:stop], firsts[start + step :], link[start:stop])
            _compare(seconds[start:stop], seconds[start + step :], link[start:stop])


@compiled
def _close_ring(links: NDArray[np.int16], width: int) -> None:
    """Cut the links of the outermost pixels, which are none of the image."""
    for k in range(8):
        link = links[k]
        n = link.size
        for x in range(width + 1):
            link[x] = link[n - 1 - x] = 0
        # a flat image has no sides: without this the last pixel of a row would talk to the first of the next
        for y in range(n // width):
            link[y * width] = link[y * width + width - 1] = 0


@compiled
def _add_four(
    values: NDArray[np.int16],
    a: NDArray[np.int16],
    b: NDArray[np.int16],
    c: NDArray[np.int16],
    d: NDArray[np.int16],
    out: NDArray[np.int16],
) -> None:
    for x in range(out.size):
        out[x] = np.int16(np.int16(values[x] + np.int16(a[x] + b[x])) + np.int16(c[x] + d[x]))


@compiled
def _tell(belief: NDArray[np.int16], heard: NDArray[np.int16], link: NDArray[np.int16], out: NDArray[np.int16]) -> None:
    """Pass on what pixels believe, without what they heard from the listeners."""
    for x in range(out.size):
        # 16 bits everywhere, or the compiler widens to 64 and does a quarter of the pixels at once
        message, limit = np.int16(belief[x] - heard[x]), link[x]
        least = np.int16(-limit)
        message = message if message > least else least
        out[x] = message if message < limit else limit


@compiled
def pass_messages(
    evidence: NDArray[np.int16],
    links: NDArray[np.int16],
    width: int,
    rounds: int,
    buffers: NDArray[np.int16],
    out: NDArray[np.int16],
) -> None:
    """Put the evidence of each pixel, and what its neighbors told it in the last of some rounds, into `out`.

    A message is the belief of its sender without what the receiver told it, cut to plus or minus the link: min-sum belief propagation
    for two labels. All messages of a round depend on those of the round before.

    Parameters
    ----------
    evidence, out : ndarray of int16, shape (n,)
        Of a flat image whose outermost pixels have no links.
    links : ndarray of int16, shape (8, n)
        How much the neighbor in each direction listens to a pixel.
    width, rounds : int
    buffers : ndarray of int16, shape (2, 8, n)
        For messages heard and told.
    """
    n = evidence.size
    heard, told, half = buffers[0], buffers[1], np.empty_like(out)
    for k in range(8):
        for x in range(n):
            heard[k, x] = told[k, x] = 0
    for turn in range(rounds + 1):
        _add_four(evidence, heard[0], heard[1], heard[2], heard[3], half)
        _add_four(half, heard[4], heard[5], heard[6], heard[7], out)
        if turn == rounds:
            break
        for k in range(8):
            step = _STEPS[k, 0] * width + _STEPS[k, 1]
            # what a pixel hears from the opposite direction
            back, start, stop = k + 1 - 2 * (k % 2), width + 1, n - width - 1
            _tell(out[start:stop], heard[k][start:], links[k][start:], told[back][start + step : stop + step])
        heard, told = told, heard


@compiled
def _quantize(evidence: FloatArray, is_second: BoolArray, is_open: BoolArray, weights: tuple[float, float], out: NDArray[np.int16]) -> None:
    """Count a row of evidence in whole units; closed pixels are certain."""
    per_unit, inertia = weights
    for x in range(out.size):
        side = 1.0 if is_second[x] else -1.0
        # inertia counts as evidence for what is decided already
        weighed = (evidence[x] + side * inertia) * per_unit if is_open[x] else side * CERTAIN
        out[x] = np.int16(np.rint(min(max(weighed, -CERTAIN), CERTAIN)))


@compiled
def _surround(is_open: BoolArray, box: NDArray[np.int64], rounds: int) -> tuple[int, int, int, int]:
    """Return top, left, bottom and right of what may matter to a box: as far as words travel, but no farther than a closed line.

    Closed pixels are certain: nothing that lies behind a row or a column of them is heard.
    """
    h, w = is_open.shape
    left, right = max(box[1] - rounds, 0), min(box[3] + rounds, w)
    columns = np.zeros(right - left, np.bool_)
    top, bottom = box[0], min(box[2], h)
    for y in range(top, bottom):
        join_row(columns, is_open[y, left:right])
    farthest = max(top - rounds, 0)
    is_heard = True
    # row by row outwards, until a row is closed whole; that one is kept, since closed pixels do speak
    while is_heard and top > farthest:
        top -= 1
        is_heard = join_row(columns, is_open[top, left:right])
    farthest = min(box[2] + rounds, h)
    is_heard = True
    while is_heard and bottom < farthest:
        is_heard = join_row(columns, is_open[bottom, left:right])
        bottom += 1
    near = box[1] - left
    while near > 0 and columns[near - 1]:
        near -= 1
    far = min(box[3], w) - left
    while far < columns.size and columns[far]:
        far += 1
    return top, left + max(near - 1, 0), bottom, left + min(far + 1, columns.size)


@compiled
def settle_cells(
    evidence: FloatArray,
    is_second: BoolArray,
    is_open: BoolArray,
    pairs: tuple[IndexArray, IndexArray],
    boxes: NDArray[np.int64],
    weights: tuple[float, float],
    rounds: int,
    out: BoolArray,
) -> None:
    """Decide the open pixels in some boxes by what they believe after some rounds; who believes nothing stays where it is.

    `weights` are `STRAIGHT` over the stiffness, and what the evidence must exceed to change a decision. Closed pixels of `out` are left as
    they are.
    """
    h, w = evidence.shape
    room = largest_size(boxes, rounds + 1)
    planes, links_room, buffers_room = np.empty((2, room), np.int16), np.empty(8 * room, np.int16), np.empty(16 * room, np.int16)
    names = np.empty((2, room), np.uint16)
    for box in boxes:
        top, left, bottom, right = _surround(is_open, box, rounds)
        # a ring of one pixel around it, which has no links and saves the loops every question about borders
        width = right - left + 2
        n = (bottom - top + 2) * width
        known, beliefs, firsts, seconds = planes[0][:n], planes[1][:n], names[0][:n], names[1][:n]
        links, buffers = links_room[: 8 * n].reshape(8, n), buffers_room[: 16 * n].reshape(2, 8, n)
        for x in range(n):
            known[x] = 0
        copy_cell(pairs[0], top - 1, left - 1, width, firsts)
        copy_cell(pairs[1], top - 1, left - 1, width, seconds)
        for y in range(top, bottom):
            start = (y - top + 1) * width + 1
            _quantize(
                evidence[y, left:right], is_second[y, left:right], is_open[y, left:right], weights, known[start : start + right - left]
            )
        _link(firsts, seconds, width, links)
        _close_ring(links, width)
        pass_messages(known, links, width, rounds, buffers, beliefs)
        for y in range(box[0], min(box[2], h)):
            start = (y - top + 1) * width + 1
            for x in range(box[1], min(box[3], w)):
                belief = beliefs[start + x - left]
                if is_open[y, x]:
                    # a tie changes nothing
                    out[y, x] = is_second[y, x] if belief == 0 else belief > 0
