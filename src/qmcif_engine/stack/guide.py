"""Guides: stacks that decisions are made on, while the samples of the result come from another stack of the same scene."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.errors import InvalidImageError
from qmcif_engine.stack.separate_channels import EACH, settle_channels
from qmcif_engine.stack.stack import StackView

if TYPE_CHECKING:
    from qmcif_engine.arrays import BoolArray
    from qmcif_engine.stack.stack import Stack
    from qmcif_engine.stack.window import Window


class DecidingStack(StackView):
    """Samples of a guide, and the pixels that both the guide and the stack it decides for have.

    Parameters
    ----------
    guide : Stack
    stack : Stack
        Where the samples of the result come from.
    """

    def __init__(self, guide: Stack, stack: Stack) -> None:
        super().__init__(guide)
        # asking a stack that has all pixels would make an array of trues for every window
        self._partners = [partner for partner in (guide, stack) if partner.has_validity]
        self.has_validity = bool(self._partners)

    def valid(self, number: int, window: Window) -> BoolArray:
        """Return which pixels of a window may be chosen: those that both have."""
        is_valid = np.ones(window.shape, bool)
        for partner in self._partners:
            is_valid &= partner.valid(number, window)
        return is_valid


def settle_guide(guide: Stack | None, stack: Stack) -> Stack | None:
    """Return what decisions for a stack are made on, once it is known to show the same pixels; None where there is no guide.

    Parameters
    ----------
    guide : Stack or None
        As many images as the stack has, of the same height and width. Its sample type may be another one, and so may its channels
        where all of them decide together. Alpha and further channels of a guide are not looked at.
    stack : Stack
        Where the samples of the result come from.

    Raises
    ------
    InvalidImageError
        When the two do not fit each other.
    """
    if guide is None:
        return None
    if stack.decides_each and len(guide.image_shape) == 3:
        guide = settle_channels(guide, EACH)
    # with a decision for each channel the guide needs as many; otherwise one decides for all
    n_compared = 3 if stack.decides_each or guide.decides_each else 2
    if guide.n_images != stack.n_images or guide.image_shape[:n_compared] != stack.image_shape[:n_compared]:
        msg = (
            f"the guide has {guide.n_images} images of shape {guide.image_shape} and the stack has {stack.n_images} of "
            f"{stack.image_shape}; as many images of the same height{', width and channels' if n_compared == 3 else ' and width'} are "
            "needed: make the guide from this stack, without cropping it"
        )
        raise InvalidImageError(msg)
    if guide.decides_each and not stack.decides_each:
        msg = (
            "each channel of the guide is decided on by itself, but the channels of the stack are not; one way for both is needed: "
            "pass channels='each', or open the guide without it"
        )
        raise InvalidImageError(msg)
    return DecidingStack(guide, stack)
