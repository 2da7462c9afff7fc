"""Channels that are decided on one by one: views of stacks, and what of a result has a plane for each channel."""

from __future__ import annotations

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.stack.stack import Stack

EACH = "each"
"""What asks for a decision on every channel by itself."""


def settle_channels(stack: Stack, channels: str | None) -> Stack:
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


def channel_planes(stack: Stack) -> tuple[int, ...]:
    """Return the shape, behind height and width, of what a decision gives: a plane for each channel, or nothing for a joint decision."""
    return stack.image_shape[2:] if stack.decides_each else ()


def count_decisions(stack: Stack) -> int:
    """Return how many decisions are made for every pixel: one, or one per channel."""
    return stack.image_shape[2] if stack.decides_each else 1
