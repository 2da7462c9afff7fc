"""What every baseline has in common: a name, the paper it is written from, and how images go in and out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.arrays import FloatArray
from qmcif_engine.errors import InvalidImageError

FULL_SCALE = 255.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A published method that is run here, beside ours.

    Attributes
    ----------
    name : str
        What `--method` calls it; also the name of its folder of images.
    label : str
        What tables call it: the paper's own name for it, where the paper compares with it.
    paper : str
        The publication it was written from.
    fuse_planes : callable
        Takes images of shape (N, C, h, w) with samples from 0 to 1 and returns (C, h, w). It asks the second argument, again and again,
        to raise where the work is to end.
    """

    name: str
    label: str
    paper: str
    fuse_planes: Callable[[FloatArray, Callable[[], None]], FloatArray]


def fuse_with(
    baseline: Baseline, images: Sequence[NDArray[np.uint8]], *, check_cancelled: Callable[[], None] = lambda: None
) -> NDArray[np.uint8]:
    """Fuse two or more 8-bit images of one shape, (H, W) or (H, W, 3), by a baseline.

    Raises
    ------
    InvalidImageError
        When there are fewer than two, or their shapes or types differ.
    """
    shapes = {(image.shape, image.dtype.name) for image in images}
    if len(images) < 2 or len(shapes) > 1 or next(iter(shapes))[1] != "uint8":
        msg = f"{len(images)} images of {len(shapes)} kinds given; two or more 8-bit images of one shape are needed: convert or crop them"
        raise InvalidImageError(msg)
    stack = np.stack([np.moveaxis(image.reshape(*image.shape[:2], -1), -1, 0) for image in images]) / FULL_SCALE
    fused = baseline.fuse_planes(stack, check_cancelled)
    # filters and codes can leave the range of the samples
    samples = np.clip(np.rint(fused * FULL_SCALE), 0, FULL_SCALE).astype(np.uint8)
    return np.ascontiguousarray(np.moveaxis(samples, 0, -1).reshape(images[0].shape))


def gray_of(planes: FloatArray) -> FloatArray:
    """Return the mean of the channels of ``(..., C, h, w)`` planes, shape (..., h, w)."""
    gray: FloatArray = planes.mean(axis=-3)
    return gray


def each_channel(
    fuse_gray: Callable[[FloatArray, Callable[[], None]], FloatArray],
) -> Callable[[FloatArray, Callable[[], None]], FloatArray]:
    """Return what fuses color channel by channel with a method for gray images, (N, h, w) to (h, w)."""

    def fuse_planes(stack: FloatArray, check_cancelled: Callable[[], None]) -> FloatArray:
        return np.stack([fuse_gray(stack[:, channel], check_cancelled) for channel in range(stack.shape[1])])

    return fuse_planes


def take_largest(activity: FloatArray, values: FloatArray) -> FloatArray:
    """Return, place by place, the values of the image that is the most active there; the first of several that are equal.

    Parameters
    ----------
    activity : ndarray of float, shape (N, ...)
    values : ndarray of float, shape (N, ...) or (N, C, ...)
        Of the images; with channels they are taken together.
    """
    winner = activity.argmax(axis=0)
    # (1, h, w), or the same choice for every channel
    spread = winner[None] if values.ndim == activity.ndim else np.broadcast_to(winner, (1, *values.shape[1:]))
    taken: FloatArray = np.take_along_axis(values, spread, axis=0)[0]
    return taken
