"""Stacks whose images coincide, resampled window by window when they are asked for."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from qmcif_engine.arrays import BoolArray, SampleArray
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.stack.alignment import warping
from qmcif_engine.stack.alignment.transforms import IDENTITY, Transforms
from qmcif_engine.stack.stack import FindValid, ReadWindow, Stack
from qmcif_engine.stack.window import Window


def align_stack(stack: Stack, transforms: Transforms) -> Stack:
    """Return the images of a stack as the reference image sees them; shape and type stay, nothing is cropped.

    Alpha and further channels move with them. Images that do not move keep their samples, and shifts by whole pixels copy samples;
    everything else is resampled.

    Parameters
    ----------
    stack : Stack
    transforms : Transforms
        Of this stack, or of another one with as many images of the same height and width.

    Raises
    ------
    InvalidConfigError
        If the transforms belong to another number or size of images.
    """
    shape = stack.image_shape[:2]
    if (transforms.n_images, transforms.image_shape) != (stack.n_images, shape):
        msg = (
            f"the transforms are for {transforms.n_images} images of {_describe(transforms.image_shape)} and the stack has "
            f"{stack.n_images} of {_describe(shape)}; both must be equal: estimate transforms for this stack"
        )
        raise InvalidConfigError(msg)
    return stack.replaced(
        follow=lambda plane: align_stack(plane, transforms),
        read=partial(_read_aligned, stack.read, transforms, stack.image_shape, stack.dtype),
        # moved images leave rows and columns of the frame empty
        find_valid=partial(_find_valid, stack.find_valid, transforms, stack.image_shape),
        transforms=transforms,
    )


def _read_aligned(
    read: ReadWindow, transforms: Transforms, shape: tuple[int, ...], dtype: np.dtype[Any], number: int, window: Window
) -> SampleArray:
    """Return one window of one image; where the image does not reach, the nearest sample on its edge."""
    if transforms.matrices[number] == IDENTITY:
        return read(number, window)
    return warping.warp_window(partial(read, number), window, matrix=transforms.matrix(number), shape=shape, dtype=dtype)


def _find_valid(find_valid: FindValid | None, transforms: Transforms, shape: tuple[int, ...], number: int, window: Window) -> BoolArray:
    """Return which pixels of a window, (h, w), come from samples inside the image alone: no others may be chosen."""
    known = None if find_valid is None else partial(find_valid, number)
    if transforms.matrices[number] == IDENTITY:
        return np.ones(window.shape, bool) if known is None else known(window)
    return warping.find_valid(window, matrix=transforms.matrix(number), shape=shape, read_valid=known)


def _describe(shape: tuple[int, ...]) -> str:
    return f"{shape[1]} x {shape[0]} px"
