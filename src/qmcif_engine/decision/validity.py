"""Which pixels an image may give: not those that it lacks, not those near the end of its frame, and none of a dark border.

An aligned image ends inside the fused image, along straight lines. So where another image has the pixel, an image is chosen only as far
from its end as a narrow blend reaches; the line does not show then.

Programs that blur with zeros beyond the border, or that align images, darken the last few pixels of what they write. Such pixels have the
contrast of a sharp edge, so that the fused image would show a dark line at its border. A border that is dark in the scene is dark in every
image: the images are compared with each other, each first with its own pixels a little further in, since exposures may differ.

None of this is in the paper.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from scipy import ndimage

from qmcif_engine.stack.samples import FULL_SCALE
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray
    from qmcif_engine.config.fusion_config import DecisionConfig

Side: TypeAlias = Literal["top", "left", "bottom", "right"]
SIDES: tuple[Side, ...] = ("top", "left", "bottom", "right")

FRAME_END_PX = 8
"""How far from its end an image is chosen: far enough to hide a line, and near enough to lose little of what it alone shows sharp."""

REFERENCE_PX = 8
"""Rows next to the outermost ones that these are compared with: near enough to show the same things, enough to average noise out."""

ALONG_PX = 32
"""How far along the border pixels count for a decision, to either side. Dark borders run along whole sides, texture does not."""

PEDESTAL_LEVEL = 8.0
"""Gray levels added before brightness is divided, so that dark backgrounds and their noise decide nothing."""

DARK_LOSS = 0.3
"""An image has a dark border where its outermost row lost this share of its brightness; blur and texture seldom make such a difference."""

FADING_LOSS = 0.1
"""A dark border goes inwards as far as at least this share is lost: what is left of the fade is too faint to be seen as a line."""

LARGEST_DIFFERENCE = 0.4
"""Images that differ more than this from the usual brightness behind the border show something else there, and prove nothing."""

SMALLEST_MULTIPLE = 4
"""A block must be this many times as deep as what is looked at; in a smaller one a dark border cannot be told from the scene."""

_Sample = TypeVar("_Sample", bound="np.generic[Any]")


class Validity(Protocol):
    """Which pixels of a window, counted from the corner of the padded window of a tile, an image may give."""

    def __call__(self, image: int, window: Window) -> BoolArray:
        """Return a mask of shape (h, w)."""


def frame_end_px(config: DecisionConfig) -> int:
    """Return how far from the end of its frame an image is chosen; 0 for hard cuts."""
    return FRAME_END_PX if config.blend_px or config.feather_px else 0


class FrameEnds:
    """Where the images of an aligned stack may be chosen.

    Parameters
    ----------
    valid : callable
        Returns which pixels of a window of the image, shape (h, w), an image has. It is asked for `reach_px` more than is needed, so that a
        pixel is the same in all windows.
    padded : Window
        The padded window of a tile, in pixels of the image.
    n_images : int
    shape : tuple of int
        Height and width of the fused image, whose own border is no end of a frame.
    reach_px : int
    """

    def __init__(
        self, valid: Callable[[int, Window], BoolArray], padded: Window, *, n_images: int, shape: tuple[int, int], reach_px: int
    ) -> None:
        self._valid, self._padded, self._shape, self._reach_px = valid, padded, shape, reach_px
        self._is_covered = np.zeros(padded.shape, bool)
        for number in range(n_images):
            self._is_covered |= self._depth(number, Window.whole(padded.shape)) > reach_px
            # the others need not be asked
            if self._is_covered.all():
                break

    def __call__(self, image: int, window: Window) -> BoolArray:
        """Return where an image may be chosen: wherever it is, if no image lies deep enough inside its frame."""
        depth = self._depth(image, window)
        return np.asarray((depth > self._reach_px) | ((depth > 0) & ~self._is_covered[window.slices]))

    def _depth(self, image: int, window: Window) -> NDArray[np.int32]:
        """Return how far it is to the next pixel that an image lacks, 0 there, and no more than one beyond the reach."""
        asked = window.moved(self._padded.top, self._padded.left)
        outer = asked.grown(self._reach_px, self._shape)
        is_valid = self._valid(image, outer)
        farthest = np.int32(self._reach_px + 1)
        if is_valid.all():  # there is nothing to measure a distance to
            return np.full(window.shape, farthest)
        # the distance of rows or columns, whichever is larger, as windows of blends have
        distance: NDArray[np.int32] = ndimage.distance_transform_cdt(is_valid, metric="chessboard")
        return np.minimum(distance[asked.relative_to(outer).slices], farthest)


class DarkBorders:
    """Which pixels belong to dark borders: strips only, so that deep stacks take little memory.

    Parameters
    ----------
    shape : tuple of int
        Height and width of the block.
    strips : sequence of mapping from side to ndarray of bool, shape (depth, length of the side)
        One mapping per image; true for the pixels of a dark border, outermost row first; sides without one are left out.
    """

    def __init__(self, shape: tuple[int, int], strips: Sequence[Mapping[Side, BoolArray]]) -> None:
        self.shape, self.strips = shape, tuple(strips)

    def __call__(self, image: int, window: Window) -> BoolArray:
        """Return which pixels of an image belong to no dark border."""
        is_valid = np.ones(self.shape, np.bool_)
        for side, is_missing in self.strips[image].items():
            # a view, so this writes into `is_valid`
            seen_from(is_valid, side)[: len(is_missing)] &= ~is_missing
        return is_valid[window.slices]


def find_dark_borders(
    read: Callable[[int, Window], FloatArray], shape: tuple[int, int], *, n_images: int, depth_px: int, ends: Sequence[bool]
) -> DarkBorders | None:
    """Look for dark borders along the sides of a block, of which only strips are read.

    Parameters
    ----------
    read : callable
        Returns planes of a window of an image on the 0-255 scale, shape (c, h, w).
    shape : tuple of int
        Height and width of the block.
    n_images : int
    depth_px : int
        How deep a dark border can be; 0 looks for none.
    ends : sequence of bool
        Whether the block ends because the image does: top, left, bottom and right.

    Returns
    -------
    DarkBorders or None
        None where no image has one. Along one side every pixel is left to at least one image, the brightest there; in a corner dark
        borders of two images can meet.

    Notes
    -----
    With ``p`` an image's profile (`border_brightness`) and ``b`` the largest of all comparable images, but at most 1, the image has a
    dark border where ``p(0) < (1 - DARK_LOSS) b(0)``; it has the rows up to the first with ``p(d) >= (1 - FADING_LOSS) b(d)``.
    It must end within the depth that is looked at, or else the rows that lost `DARK_LOSS` within half of it: what goes on is a dark
    part of the scene.

    A contour of the scene that runs along the border, tens of pixels and more, can pass for a dark border of the image that shows it sharp
    beside one that shows it much blurred. That costs these few pixels their sharpness.
    """
    (height, width), sight = shape, border_sight_px(depth_px)
    if depth_px == 0 or min(shape) < sight:
        return None
    parts = (Window(0, 0, sight, width), Window(0, 0, height, sight), Window(height - sight, 0, *shape), Window(0, width - sight, *shape))
    strips: list[dict[Side, BoolArray]] = [{} for _ in range(n_images)]
    for side, part, is_end in zip(SIDES, parts, ends, strict=True):
        if not is_end or max(part.shape) <= 2 * ALONG_PX:
            continue
        measured = [border_brightness(read(number, part), side, depth_px=depth_px) for number in range(n_images)]
        best = _best_profile([profile for profile, _ in measured], [reference for _, reference in measured])
        for found, (profile, _) in zip(strips, measured, strict=True):
            is_missing = _find_dark(profile, best)
            if is_missing.any():
                found[side] = is_missing
    return DarkBorders(shape, strips) if any(strips) else None


def border_sight_px(depth_px: int) -> int:
    """Return how much image there must be behind a border."""
    return SMALLEST_MULTIPLE * (depth_px + REFERENCE_PX)


def border_brightness(block: FloatArray, side: Side, *, depth_px: int) -> tuple[FloatArray, FloatArray]:
    """Return how bright the outermost rows are, in units of the rows next to them, and how bright these are.

    Parameters
    ----------
    block : ndarray of float, shape (c, h, w)
    side : str
    depth_px : int

    Returns
    -------
    profile : ndarray of float32, shape (depth + 1, length of the side)
        Outermost row first; 1 where the border is as bright as the rest. The last row tells whether a dark border ends.
    reference : ndarray of float32, shape (length of the side,)

    Notes
    -----
    Light beyond the 0-255 scale counts as its end, so that one glaring pixel does not lift its whole surroundings.
    """
    strip = seen_from(block, side)[:, : depth_px + REFERENCE_PX]
    # sums before any division: they are exact for whole gray levels, so that a tile decides as the whole image does
    total = np.clip(strip.sum(axis=0, dtype=np.float64), 0, len(block) * FULL_SCALE)
    # along the border only
    total = ndimage.uniform_filter1d(total, 2 * ALONG_PX + 1, axis=-1, mode="reflect")
    brightness = total / len(block) + PEDESTAL_LEVEL
    reference: FloatArray = brightness[depth_px:].mean(axis=0)
    profile: FloatArray = (brightness[: depth_px + 1] / reference).astype(np.float32)
    return profile, reference.astype(np.float32)


def _best_profile(profiles: Sequence[FloatArray], references: Sequence[FloatArray]) -> FloatArray:
    """Return the largest profile of the images that are about as bright as most; a blank image says nothing about the others."""
    # the median, so that a few blank or overexposed images do not shift it
    usual = np.median(references, axis=0)
    is_usual = [np.abs(reference - usual) <= LARGEST_DIFFERENCE * usual for reference in references]
    candidates = (np.where(is_one, profile, 0) for is_one, profile in zip(is_usual, profiles, strict=True))
    # at most 1: an image with a bright border makes no dark one of the others
    best: FloatArray = np.minimum(reduce(np.maximum, candidates), 1)
    return best


def seen_from(planes: NDArray[_Sample], side: Side) -> NDArray[_Sample]:
    """Return a view of planes, shape (..., h, w), whose rows start at a side and go inwards."""
    upright = planes if side in ("top", "bottom") else planes.swapaxes(-2, -1)
    return upright if side in ("top", "left") else upright[..., ::-1, :]


def _find_dark(profile: FloatArray, best: FloatArray) -> BoolArray:
    """Return which pixels of a strip belong to a dark border."""
    # from the outermost row on without a gap
    is_dark = np.logical_and.accumulate(profile < (1 - DARK_LOSS) * best, axis=0)
    is_faded = np.logical_and.accumulate(profile < (1 - FADING_LOSS) * best, axis=0) & is_dark[0]
    # a contour of the scene right behind a dark border can look like its fading: then only what is dark beyond doubt and thin counts
    is_border = np.where(is_faded[-1], is_dark & ~is_dark[len(profile) // 2], is_faded)
    # the last row was looked at only to see whether it ends
    found: BoolArray = is_border[:-1].copy()
    return found
