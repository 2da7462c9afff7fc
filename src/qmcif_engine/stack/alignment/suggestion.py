"""Advice on alignment: whether the images of a stack moved against each other, from small previews, and how to align them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.compiled import single_thread
from qmcif_engine.stack.alignment.matching import can_match, read_pyramid
from qmcif_engine.stack.alignment.pairs import link_roughly
from qmcif_engine.stack.alignment.transforms import TransformModel, apply_matrix, frame_corners
from qmcif_engine.stack.previews import ReducedImage, choose_reduction
from qmcif_engine.stack.stack import Stack

_PREVIEW_PX = 2**17
_LARGEST_N_PAIRS = 4
_VISIBLE_PX = 1.0
_CLEAR_MOVEMENT = 4.0
"""How many times its expected error a movement must be: what is out of focus can move where what is sharp lies still (2.8 times on the
algae of shared/data), and true movements are 5 to 50 times as large."""


class AlignmentSuggestion(NamedTuple):
    """How a stack should be aligned, and why.

    Attributes
    ----------
    model : TransformModel
        The simplest that leaves less than a pixel.
    movement_px : float
        How far neighboring images lie apart where they do most.
    """

    model: TransformModel
    movement_px: float

    @property
    def message(self) -> str:
        """Return the advice in words."""
        return f"this stack looks misaligned by about {self.movement_px:.0f} px between neighboring images: try --align {self.model.value}"


def suggest_alignment(stack: Stack) -> AlignmentSuggestion | None:
    """Return how to align a stack whose images visibly moved, or None.

    Up to four pairs of neighbors are compared on small previews. Pairs that cannot be judged with certainty count as still: a false
    alarm costs more than a missed one.
    """
    if not can_match(stack.image_shape, largest_px=_PREVIEW_PX):
        return None
    corners = frame_corners(stack.image_shape)
    largest = AlignmentSuggestion(TransformModel.NONE, 0.0)
    largest_bend_px = 0.0
    with single_thread():
        for first in _choose_pairs(stack.n_images):
            movement = _find_movement(stack, first, corners)
            largest = max(largest, AlignmentSuggestion(TransformModel.TRANSLATION, _longest(movement)), key=lambda found: found.movement_px)
            # what a shift of all corners leaves: turning or growing
            largest_bend_px = max(largest_bend_px, _longest(movement - movement.mean(axis=0)))
    if largest.movement_px <= _VISIBLE_PX:
        return None
    return largest if largest_bend_px <= _VISIBLE_PX else largest._replace(model=TransformModel.SIMILARITY)


def previews_for_alignment(stack: Stack) -> list[ReducedImage]:
    """Return what `suggest_alignment` looks at, so that it can be read together with what others look at."""
    if not can_match(stack.image_shape, largest_px=_PREVIEW_PX):
        return []
    factor = choose_reduction(stack.image_shape, largest_px=_PREVIEW_PX)
    return [ReducedImage(number, factor) for first in _choose_pairs(stack.n_images) for number in (first, first + 1)]


def _choose_pairs(n_images: int) -> list[int]:
    """Return the first images of pairs of neighbors, spread over the stack."""
    return sorted({int(number) for number in np.linspace(0, n_images - 2, _LARGEST_N_PAIRS).round()}) if n_images > 1 else []


def _find_movement(stack: Stack, first: int, corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far the corners of an image moved until the next one; a pair that cannot be judged did not move."""
    link = link_roughly(*(read_pyramid(stack, number, largest_px=_PREVIEW_PX) for number in (first, first + 1)))
    is_clear = link.is_sure and link.movement_px >= _CLEAR_MOVEMENT * link.corner_error_px
    return apply_matrix(link.matrix, corners) - corners if is_clear else np.zeros_like(corners)


def _longest(movement: NDArray[np.float64]) -> float:
    return float(np.hypot(movement[:, 0], movement[:, 1]).max())
