"""Blend along the edges of a decision map: narrowly where there is structure, widely where it is smooth, not at all where nobody sees it.

Two images of one scene differ where they meet. In texture a blend of a few pixels hides the step, and a wider one would blur; on a smooth
backdrop, where one image is a little brighter, only a wide one does. Where the step is below what an eye can see, the samples of one
image are kept as they are. None of this is in the paper, and the ``paper`` preset cuts hard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage
from scipy.sparse import csr_array

from qmcif_engine.filters import guided_filter
from qmcif_engine.frame_ends import reach_of_ends
from qmcif_engine.fusion import Blend, lead, row_of
from qmcif_engine.patches import cells_of, cut_reflected, edge_band, window_mean
from qmcif_engine.regularization import SLOPE_REACH_PX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from qmcif_engine.array_types import BoolArray, FloatArray, IndexArray
    from qmcif_engine.config import DecisionConfig
    from qmcif_engine.window import Window

TEXTURE_PX = 5
"""Side of the window whose mean is taken away from a picture to leave its texture: slopes and soft shadows are none."""

SMOOTH_CONTRAST = (0.7, 2.0)
"""Root mean squares of a channel's texture, in gray levels: below the first ground is smooth, above the second not, in between in part."""

LEAST_VISIBLE_STEP = 1.0
"""Gray levels by which a channel of smooth images must differ for their border to show: less than in texture."""

LEAST_VISIBLE_CHANGE = 2.25
"""Gray levels by which a blend in texture must change a pixel to be worth it."""


def blend_along_edges(
    index: IndexArray,
    blocks: Sequence[FloatArray],
    guide: FloatArray,
    config: DecisionConfig,
    *,
    is_even: BoolArray | None = None,
    is_end: BoolArray | None = None,
) -> Blend:
    """Turn a decision map into shares that change softly across its edges, but not across edges of the picture.

    Parameters
    ----------
    index : ndarray of uint16, shape (h, w)
    blocks : sequence of ndarray of float, shape (3, h, w)
        The images on the 0-255 scale.
    guide : ndarray of float, shape (h, w)
        Mean of the images on the 0-1 scale.
    config : DecisionConfig
    is_even : ndarray of bool, shape (h, w), optional
        Where the neighbor in the stack is about as sharp as the chosen image: there the blend runs from one to the other across the
        border, by the position between them.
    is_end : ndarray of bool, shape (h, w), optional
        Where an image is left because its frame ends (`qmcif_engine.frame_ends`): there edges of the picture do not stop the blend.

    Notes
    -----
    Near an edge of the map, a guided filter (He, Sun and Tang 2013) of each image's membership; where the surroundings are smooth, its
    mean over a wide window instead. Everywhere else one image gives the pixel whole.
    """
    smoothness = measure_smoothness(index, blocks, config)
    is_slope = find_slopes(index, is_even) if is_even is not None and config.blend_radius_px else np.zeros(index.shape, bool)
    is_end = np.zeros(index.shape, bool) if is_end is None else is_end
    is_slope &= ~is_end
    band = edge_band(index, reach_px=2 * config.blend_radius_px) | (smoothness > 0) | is_slope | is_end
    number = np.cumsum(band, dtype=np.int32).reshape(band.shape) - 1  # of a pixel of the band among all of them
    images, pixels, shares = [np.empty(0, np.int64)], [np.empty(0, np.int32)], [np.empty(0, guide.dtype)]
    for cell in cells_of(band):
        is_blended = band[cell.slices]
        shares_there = _shares(
            index,
            guide,
            cell,
            smoothness=smoothness[cell.slices],
            is_slope=is_slope[cell.slices],
            is_end=is_end[cell.slices],
            config=config,
        )
        for source, share in shares_there:
            given = np.clip(share[is_blended], 0, 1)
            is_given = given > 0
            shares.append(given[is_given])
            pixels.append(number[cell.slices][is_blended][is_given])
            images.append(np.full(len(shares[-1]), source))
    sources, rows = np.unique(np.concatenate(images), return_inverse=True)
    where, share_of_each = np.concatenate(pixels), np.concatenate(shares)
    n_pixels = int(np.count_nonzero(band))
    total = np.bincount(where, weights=share_of_each, minlength=n_pixels)
    share_of_each = (share_of_each / total[where]).astype(guide.dtype)
    weights = csr_array((share_of_each, (rows.astype(np.int32), where)), shape=(len(sources), n_pixels))
    named = tuple(int(source) for source in sources)
    blend = Blend(lead(index, band, sources=named, weights=weights), band, named, weights)
    return _without_invisible(blend, blocks, index=index, is_smooth=((smoothness > 0) | is_slope | is_end)[band])


def find_slopes(index: IndexArray, is_even: BoolArray) -> BoolArray:
    """Return where a border between two neighbors of the stack, and no other image, is near, and both are about as sharp, shape (h, w)."""
    side = 2 * SLOPE_REACH_PX + 1
    span = ndimage.maximum_filter(index, side) - ndimage.minimum_filter(index, side)
    found: BoolArray = is_even & (span == 1)
    return found


def measure_smoothness(index: IndexArray, blocks: Sequence[FloatArray], config: DecisionConfig) -> FloatArray:
    """Return 1 where a step between smooth images would show, 0 where an image has structure or none would, shape (h, w).

    An image counts as far as the feather could bring it in.
    """
    reach = config.feather_px // 2 * 2 if config.blend_radius_px else 0
    smooth, rough = SMOOTH_CONTRAST
    band = edge_band(index, reach_px=reach)
    power, is_step = np.zeros(index.shape, np.float32), np.zeros(index.shape, bool)
    around = [(cell, cut_reflected(index, cell, margin_px=reach)) for cell in cells_of(band)]
    extremes: dict[Window, tuple[FloatArray, FloatArray]] = {}
    for source in np.flatnonzero(np.bincount(index[band])):
        block = blocks[int(source)]
        for cell, near in around:
            known = power[cell.slices]
            if not (near == source).any() or (known >= rough**2).all():
                continue
            # where only two images meet, every pixel of the band has both in reach
            inner = (slice(reach, -reach), slice(reach, -reach))
            counts = np.asarray(_is_pair(near) or ndimage.maximum_filter(near == source, 2 * reach + 1)[inner])
            near_block = cut_reflected(block, cell, margin_px=reach + TEXTURE_PX // 2)
            # brightness has no more texture than the channel with most of it: where it has enough, the channels need not be looked at
            found = _texture_power(near_block.mean(axis=0, keepdims=True), reach_px=reach)
            if (found < rough**2).any():
                found = _texture_power(near_block, reach_px=reach)
                darkest, brightest = extremes.setdefault(cell, (np.full((3, *cell.shape), np.inf), np.full((3, *cell.shape), -np.inf)))
                mean = _inner(window_mean(_inner(near_block, TEXTURE_PX // 2), side_px=2 * reach + 1), reach)
                np.maximum(brightest, mean, out=brightest, where=counts)
                np.minimum(darkest, mean, out=darkest, where=counts)
            np.maximum(known, found, out=known, where=counts)
    for cell, (darkest, brightest) in extremes.items():
        is_step[cell.slices] = (brightest - darkest >= LEAST_VISIBLE_STEP).any(axis=0)
    return np.where(band & is_step, np.clip((rough - np.sqrt(power)) / (rough - smooth), 0, 1), 0).astype(np.float32)


def _texture_power(near_block: FloatArray, *, reach_px: int) -> FloatArray:
    """Return the mean power of the texture over the window of this reach, of the channel with most of it; all windows lie inside."""
    texture = _inner(near_block - window_mean(near_block, side_px=TEXTURE_PX), TEXTURE_PX // 2)
    power: FloatArray = _inner(window_mean(texture * texture, side_px=2 * reach_px + 1), reach_px).max(axis=0)
    return power


def _inner(planes: FloatArray, margin_px: int) -> FloatArray:
    return planes[..., margin_px:-margin_px, margin_px:-margin_px]


def _is_pair(index: IndexArray) -> bool:
    return bool(((index == index.min()) | (index == index.max())).all())


def _shares(
    index: IndexArray,
    guide: FloatArray,
    cell: Window,
    *,
    smoothness: FloatArray,
    is_slope: BoolArray,
    is_end: BoolArray,
    config: DecisionConfig,
) -> Iterator[tuple[int, FloatArray]]:
    """Yield each image that the filters' windows around a cell contain, and its smoothed membership there."""
    narrow, wide = 2 * config.blend_radius_px, config.feather_px // 2 * 2
    at_end = reach_of_ends(config) if is_end.any() else 0
    margin = max(narrow, wide if smoothness.any() else 0, SLOPE_REACH_PX if is_slope.any() else 0, at_end)
    near_index, near_guide = cut_reflected(index, cell, margin_px=margin), cut_reflected(guide, cell, margin_px=margin)
    inner = (slice(margin, -margin), slice(margin, -margin))
    for source in np.flatnonzero(np.bincount(near_index.reshape(-1))):
        membership = (near_index == source).astype(guide.dtype)
        share = guided_filter(membership, near_guide, radius_px=config.blend_radius_px, edge_contrast=config.blend_edge_contrast)[inner]
        if at_end:
            side = at_end + 1
            share = np.where(is_end, window_mean(window_mean(membership, side_px=side), side_px=side)[inner], share)
        if smoothness.any():
            side = wide + 1
            feathered = window_mean(window_mean(membership, side_px=side), side_px=side)[inner]
            share = share + smoothness * (feathered - share)
        if is_slope.any():
            share = np.where(is_slope, window_mean(membership, side_px=2 * SLOPE_REACH_PX + 1)[inner], share)
        yield int(source), share


def _without_invisible(blend: Blend, blocks: Sequence[FloatArray], *, index: IndexArray, is_smooth: BoolArray) -> Blend:
    """Return the blend without the pixels that it would hardly change: there the image of the decision map keeps its samples.

    On smooth ground even a slight change is part of a slope that shall not end in a step.
    """
    n_pixels = len(is_smooth)
    own, mixed = np.zeros((3, n_pixels)), np.zeros((3, n_pixels))
    chosen = index[blend.band]
    for source in np.union1d(blend.sources, chosen).astype(int):
        samples = blocks[source][:, blend.band]
        np.copyto(own, samples, where=chosen == source)
        if source in blend.sources:
            pixels, shares = row_of(blend.weights, blend.sources.index(source))
            mixed[:, pixels] += shares * samples[:, pixels]
    is_kept = is_smooth | (np.sqrt(((mixed - own) ** 2).mean(axis=0)) >= LEAST_VISIBLE_CHANGE)
    band = blend.band.copy()
    band[blend.band] = is_kept
    weights = csr_array(blend.weights[:, np.flatnonzero(is_kept)])
    is_used = np.diff(weights.indptr) > 0
    sources = tuple(source for source, is_one in zip(blend.sources, is_used, strict=True) if is_one)
    return Blend(np.where(band, blend.source_index, index), band, sources, csr_array(weights[np.flatnonzero(is_used)]))
