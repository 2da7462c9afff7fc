"""Outlines of the regions of a decision map, as short as the evidence allows.

What a pixel shows is noisy evidence, so deciding each one for itself leaves ragged outlines, specks and stripes. Here every decision
costs what speaks against it, and every step of an outline costs the same: the map sought is the one that costs least in all. Belief
propagation (min-sum) finds it nearly: pixels tell their neighbors what they believe, for a fixed number of rounds, so that what lies
farther away than that many pixels can never matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.cells import list_boxes
from qmcif_engine.kernels.messages import STRAIGHT, settle_cells

if TYPE_CHECKING:
    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray

ROUNDS = 16
"""How often the pixels talk, which is also how far, in pixels, a word can travel. Twice as many changed no figure by .001."""

CELL_PX = 64
"""Side of the squares in which pixels talk: small enough for the cache."""


def shorten_outlines(
    evidence: FloatArray,
    is_second: BoolArray,
    is_open: BoolArray,
    *,
    pairs: tuple[IndexArray, IndexArray],
    stiffness: float,
    inertia: float = 0.0,
    rounds: int = ROUNDS,
) -> BoolArray:
    """Return which of two images each pixel is to be taken from: true for the second one.

    Parameters
    ----------
    evidence : ndarray of float, shape (h, w)
        Above 0 the second image is the better one; of open pixels only.
    is_second : ndarray of bool, shape (h, w)
        What is decided where nothing is open.
    is_open : ndarray of bool, shape (h, w)
    pairs : tuple of two ndarray of uint16, shape (h, w)
        The two images that compete for each pixel. Pixels that have others to choose from do not talk to each other.
    stiffness : float
        What a step of an outline costs, in units of evidence; 0 lets every pixel decide for itself.
    inertia : float
        What it costs to decide an open pixel otherwise than before.
    rounds : int
        How often the pixels talk; fewer are enough where only pixels near an outline are open.
    """
    if stiffness == 0:
        # evidence must exceed the inertia, on whichever side the pixel is
        threshold = np.where(is_second, -inertia, inertia).astype(evidence.dtype)
        return np.where(is_open, evidence > threshold, is_second)
    # costs divided by the stiffness, so that a straight step always costs the same in the kernel
    decided, boxes = is_second.copy(), list_boxes(is_open, CELL_PX)
    settle_cells(evidence, is_second, is_open, pairs, boxes, (STRAIGHT / stiffness, inertia), rounds, decided)
    return decided
