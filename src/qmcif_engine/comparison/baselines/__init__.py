"""Published methods written anew from their papers, so that they can be run beside ours on any image.

What all of them have in common is here: a name, the paper it is written from, and how images go in and out. A new one takes a file with a
`Baseline`, its line in `qmcif_engine.comparison.methods.BASELINES`, and the properties that all of them are tested for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
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
        Takes images of shape (N, C, h, w) with samples from 0 to 1 and returns (C, h, w). It calls the second argument repeatedly, which
        raises where the work is to end.
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


def fuse_patches(
    stack: FloatArray,
    fuse_row: Callable[[FloatArray], FloatArray],
    *,
    side_px: int,
    step_px: int,
    check_cancelled: Callable[[], None] = lambda: None,
) -> FloatArray:
    """Fuse overlapping patches, and average what comes of them where they overlap.

    Parameters
    ----------
    stack : ndarray of float, shape (N, C, h, w)
        Extended by reflection where it is smaller than a patch.
    fuse_row : callable
        Takes the patches of one row, shape (N, C, P, side, side), and returns (C, P, side, side): all patches of an image at once would
        be many images.
    side_px, step_px : int
        Side of a patch, and distance of neighboring ones; the last of each axis end at the border.
    check_cancelled : callable, optional
        Called before each row.
    """
    height, width = stack.shape[-2:]
    missing = [(0, max(0, side_px - length)) for length in (height, width)]
    padded = np.pad(stack, [(0, 0), (0, 0), *missing], mode="symmetric")
    tops, lefts = (sorted({*range(0, length - side_px, step_px), length - side_px}) for length in padded.shape[-2:])
    total, count = np.zeros(padded.shape[1:]), np.zeros(padded.shape[-2:])
    for top in tops:
        check_cancelled()
        windows = sliding_window_view(padded[..., top : top + side_px, :], side_px, axis=-1)[..., lefts, :]
        fused = fuse_row(np.moveaxis(windows, -3, -2))
        for number, left in enumerate(lefts):
            place = np.s_[..., top : top + side_px, left : left + side_px]
            total[place] += fused[:, number]
            count[place] += 1
    mean: FloatArray = (total / count)[:, :height, :width]
    return mean
