"""What decides about a stack: which of its channels, a guide in its place, and the samples that count as black and white."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from qmcif_engine.arrays import BoolArray, SampleArray
from qmcif_engine.errors import InvalidConfigError, InvalidImageError
from qmcif_engine.stack.samples import FocusRange, FocusRanges, GivenRanges, check_focus_ranges, measure_focus_range
from qmcif_engine.stack.stack import FindValid, Stack, sample_stack
from qmcif_engine.stack.window import Window

EACH = "each"
"""What asks for a decision on every channel by itself."""


def choose_deciding_channels(stack: Stack, channels: str | None) -> Stack:
    """Return a stack that is decided on as was asked for.

    Parameters
    ----------
    stack : Stack
    channels : "each" or None
        None leaves the stack as it was opened.

    Raises
    ------
    InvalidConfigError
        For another word, and for a stack that hides some of its channels.
    """
    if channels not in (EACH, None):
        msg = f"channels is {channels!r}; 'each' or None is needed: name channels that decide together when the stack is opened"
        raise InvalidConfigError(msg)
    if channels is None or stack.decides_each or (len(stack.image_shape) == 2 and stack.further_planes is None):
        return stack
    # a stack that was opened from files knows its further channels and shows them all
    opened = stack.each_channel()
    if opened is not None:
        return opened
    if stack.further_planes is not None:
        msg = (
            "channels='each' was asked of a stack with alpha, or with channels that follow others; all channels are needed side by side: "
            "give channels='each' to open_stack, before the stack is aligned"
        )
        raise InvalidConfigError(msg)
    return stack.replaced(decides_each=True)


def join_guide(guide: Stack | None, stack: Stack) -> Stack | None:
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
        guide = choose_deciding_channels(guide, EACH)
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


def choose_focus_range(stack: Stack, given: GivenRanges | None, *, samples: Sequence[SampleArray] | None = None) -> FocusRanges:
    """Return the samples that count as black and white: those given, else what the source says of its bits, else the samples' own.

    Channels that were recorded one by one have a range each, so that a dim one counts as much as a bright one. The colors of an image
    share one: their relation is the white balance. Channels that are decided on one by one have a range each, whatever they are.
    `samples` are those of `sample_stack`, where they were read before.
    """
    n_separate = stack.image_shape[2] if stack.decides_each else stack.n_separate_channels
    if given is not None:
        n_channels = n_separate or (stack.image_shape[2] if len(stack.image_shape) == 3 else 1)
        return check_focus_ranges(given, n_channels=n_channels)
    samples = sample_stack(stack) if samples is None else samples
    if n_separate:
        return tuple(measure_focus_range([block[..., channel] for block in samples]) for channel in range(n_separate))
    bits = stack.metadata.significant_bits
    # a claim that the samples contradict is none
    if bits is not None and all(int(block.max()) < 2**bits for block in samples):
        return FocusRange(0.0, float(2**bits - 1))
    return measure_focus_range(samples)
