"""Dark borders that software leaves: outermost rows or columns that fade to black in some of the images only.

Programs that blur with zeros beyond the border, or that align images, darken the last few pixels of what they write. Such pixels have
the contrast of a sharp edge, so a focus measure likes them, and the fused image would show a dark line at its border. They count as
pixels that the image does not have.

A border that is dark in the scene is dark in every image. So the images are compared with each other, each first with its own pixels
a little further in, since images of a stack may differ in exposure.

None of this is in the paper; a depth of 0 switches it off.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np
from scipy import ndimage

from qmcif_engine.config.stage import Reach, Stage
from qmcif_engine.method.focus import WHOLE_IMAGE, Borders
from qmcif_engine.stack.samples import FULL_SCALE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray
    from qmcif_engine.config.fusion_config import FusionConfig

Side: TypeAlias = Literal["top", "left", "bottom", "right"]
"""The sides of a block, named as in `Borders`."""

REFERENCE_PX = 8
"""Rows next to the outermost ones that these are compared with: near enough to show the same things, enough to average noise out."""

REACH_PX = 32
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


@dataclass(frozen=True, slots=True)
class DarkBorders:
    """Which pixels belong to dark borders: strips only, so that deep stacks take little memory.

    Attributes
    ----------
    shape : tuple of int
        Height and width of the block.
    strips : tuple of mapping from side to ndarray of bool, shape (depth, length of the side)
        One mapping per image; true for the pixels of a dark border, outermost row first; sides without one are left out.
    """

    shape: tuple[int, int]
    strips: tuple[Mapping[Side, BoolArray], ...]

    def validity(self, number: int) -> BoolArray:
        """Return which pixels of an image belong to no dark border, shape (h, w)."""
        is_valid = np.ones(self.shape, np.bool_)
        for side, is_missing in self.strips[number].items():
            # a view, so this writes into `is_valid`
            seen_from(is_valid, side)[: len(is_missing)] &= ~is_missing
        return is_valid


def exclude_dark_borders(
    validity: Callable[[int], BoolArray] | None, blocks: Sequence[FloatArray], *, depth_px: int, borders: Borders = WHOLE_IMAGE
) -> Callable[[int], BoolArray] | None:
    """Return what tells which pixels an image has, those of dark borders not among them.

    Parameters
    ----------
    validity : callable or None
        What tells it so far. Where it is given, it is returned as it is: images that were aligned end inside the fused image, and not at
        the borders that are looked at here.
    blocks : sequence of ndarray of float, shape (3, h, w)
        The images on the 0-255 scale; gone through once.
    depth_px : int
        How deep a dark border can be; 0 looks for none.
    borders : Borders
        The sides where the block ends because the image does.

    Returns
    -------
    callable or None
        None where every image has all pixels.
    """
    if validity is not None:
        return validity
    found = find_dark_borders(blocks, depth_px=depth_px, borders=borders)
    return None if found is None else found.validity


def find_dark_borders(blocks: Sequence[FloatArray], *, depth_px: int, borders: Borders = WHOLE_IMAGE) -> DarkBorders | None:
    """Look for dark borders; the parameters are those of `exclude_dark_borders`.

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

    Departs: the paper takes every pixel of every image to show the scene, which is `depth_px` = 0.
    """
    if depth_px == 0:
        return None
    shape, seen = (0, 0), []
    # one pass over the images, since each may have to be computed; only their border profiles are kept
    for block in blocks:
        shape = (block.shape[-2], block.shape[-1])
        sides = sides_looked_at(shape, depth_px=depth_px, borders=borders)
        seen.append({side: border_brightness(block, side, depth_px=depth_px) for side in sides})
    strips: list[dict[Side, BoolArray]] = [{} for _ in seen]
    for side in sides_looked_at(shape, depth_px=depth_px, borders=borders):
        profiles, references = zip(*(image[side] for image in seen), strict=True)
        best = _best_profile(profiles, references)
        for found, profile in zip(strips, profiles, strict=True):
            is_missing = _find_dark(profile, best)
            if is_missing.any():
                found[side] = is_missing
    return DarkBorders(shape, tuple(strips)) if any(strips) else None


def sides_looked_at(shape: tuple[int, int], *, depth_px: int, borders: Borders) -> list[Side]:
    """Return the sides of a block that are borders of the image, long enough, and have enough image behind them."""
    height, width = shape
    # depth is measured across a border, length along it: top and bottom need a deep block that is long
    is_deep, is_wide = (length >= sight_across(depth_px) for length in shape)
    is_tall, is_long = height > 2 * REACH_PX, width > 2 * REACH_PX
    is_enough = {"top": is_deep and is_long, "left": is_wide and is_tall, "bottom": is_deep and is_long, "right": is_wide and is_tall}
    return [side for side in get_args(Side) if getattr(borders, side) and is_enough[side]]


def sight_across(depth_px: int) -> int:
    """Return how much image there must be behind a border."""
    return SMALLEST_MULTIPLE * (depth_px + REFERENCE_PX)


def border_brightness(block: FloatArray, side: Side, *, depth_px: int) -> tuple[FloatArray, FloatArray]:
    """Return how bright the outermost rows are, in units of the rows next to them, and how bright these are.

    Parameters
    ----------
    block : ndarray of float, shape (3, h, w)
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
    total = ndimage.uniform_filter1d(total, 2 * REACH_PX + 1, axis=-1, mode="reflect")
    brightness = total / len(block) + PEDESTAL_LEVEL
    reference: FloatArray = brightness[depth_px:].mean(axis=0)
    profile: FloatArray = (brightness[: depth_px + 1] / reference).astype(np.float32)
    return profile, reference.astype(np.float32)


def _best_profile(profiles: Sequence[FloatArray], references: Sequence[FloatArray]) -> FloatArray:
    """Return the largest profile of the images that are about as bright as most; a blank image tells nothing about the others."""
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


def _reach(config: FusionConfig, _detail_patch_px: int) -> int:
    """Return how far it is along the border, or across to the last row compared with, whichever is farther."""
    depth_px = config.focus.dark_border_px
    return max(REACH_PX, depth_px + REFERENCE_PX - 1) if depth_px else 0


DARK_BORDERS = Stage(
    name="cleanup.dark_border.find_dark_borders",
    reaches=(
        Reach(
            _reach,
            "`cleanup.dark_border.REACH_PX` = 32 along the border, `dark_border_px` + `REFERENCE_PX` − 1 across, `REFERENCE_PX` = 8",
        ),
    ),
)
