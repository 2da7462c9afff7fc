"""Guides: stacks that decisions are made on, while the samples of the result come from another stack of the same scene."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from qmcif_engine.arrays import BoolArray
from qmcif_engine.errors import InvalidImageError
from qmcif_engine.stack.separate_channels import EACH, settle_channels
from qmcif_engine.stack.stack import FindValid, Stack
from qmcif_engine.stack.window import Window


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
    # a stack with all pixels is not asked: that would make an array of true for every window
    partners = tuple(partner.find_valid for partner in (guide, stack) if partner.find_valid is not None)
    return guide.replaced(find_valid=partial(_find_common, partners) if partners else None)


def _find_common(partners: Sequence[FindValid], number: int, window: Window) -> BoolArray:
    """Return which pixels of a window may be chosen: those that all partners have."""
    is_valid: BoolArray = np.all([find_valid(number, window) for find_valid in partners], axis=0)
    return is_valid
