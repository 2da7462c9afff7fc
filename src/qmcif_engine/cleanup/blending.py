"""Blend along the edges of a decision map: detail narrowly, brightness widely where a step would show, nothing where nobody sees it.

Two images of one scene differ where they meet. In texture a blend of a few pixels hides the step, and a wider one would blur. Where one
image is brighter, on a smooth backdrop or between two planes of a thick specimen, only a wide blend hides that, and it is made of the
brightness alone. Where the step is below what an eye can see, the samples of one image are kept as they are. None of this is in the paper,
and the ``paper`` preset cuts hard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import ndimage
from scipy.sparse import csr_array

from qmcif_engine.cleanup.blend_reach import reach_of_blend, reach_of_feather
from qmcif_engine.cleanup.filters import guided_filter
from qmcif_engine.cleanup.frame_ends import reach_of_ends
from qmcif_engine.cleanup.regularization import SLOPE_REACH_PX
from qmcif_engine.cleanup.seams import REACH_PX as SEAM_REACH_PX
from qmcif_engine.cleanup.seams import measure_seams
from qmcif_engine.config.stage import Reach, Stage, bytes_per_pixel
from qmcif_engine.method.fusion import Blend, lead, row_of
from qmcif_engine.method.patches import cells_of, cut_reflected, edge_band, window_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from qmcif_engine.config.fusion_config import DecisionConfig, FusionConfig
    from qmcif_engine.kernels.array_types import BoolArray, FloatArray, IndexArray
    from qmcif_engine.stack.window import Window

TEXTURE_PX = 5
"""Side of the window whose mean is taken away from a picture to leave its texture: slopes and soft shadows are none."""

SMOOTH_CONTRAST = (0.7, 2.0)
"""Root mean squares of a channel's texture, in gray levels: below the first ground is smooth, above the second not, in between in part."""

LEAST_VISIBLE_STEP = 1.0
"""Gray levels by which a channel of smooth images must differ for their border to show: less than in texture."""

LEAST_VISIBLE_CHANGE = 2.25
"""Gray levels by which a blend in texture must change a pixel to be worth it."""

LEAST_SHARE = 1e-4
"""A smaller share is none: it may be the rounding of a running sum, which depends on where the sum begins."""


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
        Where the neighbor in the stack is about as sharp as the chosen image: there the brightness runs from one to the other across the
        border.
    is_end : ndarray of bool, shape (h, w), optional
        Where an image is left because its frame ends (`qmcif_engine.cleanup.frame_ends`): there edges of the picture do not stop the blend.

    Notes
    -----
    Near an edge of the map, a guided filter (He, Sun and Tang 2013) of each image's membership. Where the surroundings are smooth, where
    the border would be a seam and, over fewer pixels, where it runs along a slope of the scene, brightness is blended more widely than
    detail: the two bands of Burt and Adelson (1983). Everywhere else one image gives the pixel whole.
    """
    spread = measure_spread(index, blocks, config)
    is_slope = np.zeros(index.shape, bool) if is_even is None or not reach_of_feather(config) else find_slopes(index, is_even)
    is_end = np.zeros(index.shape, bool) if is_end is None else is_end
    band = edge_band(index, reach_px=2 * config.blend_radius_px) | (spread > 0) | is_slope | is_end
    table = _ShareTable(band)
    for cell in cells_of(band):
        at = cell.slices
        for source, share, broad in _shares(index, guide, cell, spread=spread[at], is_slope=is_slope[at], is_end=is_end[at], config=config):
            table.add(source, cell, share=share, broad=broad)
    sources, weights, brightness = table.finished(guide.dtype)
    blend = Blend(lead(index, band, sources=sources, weights=weights), band, sources, weights, brightness)
    return _without_invisible(blend, blocks, index=index, is_spread=((spread > 0) | is_slope | is_end)[band])


class _ShareTable:
    """Shares of images in the pixels of a band, gathered cell by cell."""

    def __init__(self, band: BoolArray) -> None:
        self._band = band
        self._number = np.cumsum(band, dtype=np.int32).reshape(band.shape) - 1  # of a pixel of the band among all of them
        self._images, self._pixels = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
        self._shares: list[FloatArray] = [np.empty((2, 0), np.float32)]

    def add(self, source: int, cell: Window, *, share: FloatArray, broad: FloatArray) -> None:
        """Take down the shares of one image in a cell: in the picture, and in its brightness."""
        is_blended = self._band[cell.slices]
        shares = np.clip(np.stack([share[is_blended], broad[is_blended]]), 0, 1)
        shares[shares < LEAST_SHARE] = 0
        is_given = shares.any(axis=0)
        self._shares.append(shares[:, is_given])
        self._pixels.append(self._number[cell.slices][is_blended][is_given])
        self._images.append(np.full(np.count_nonzero(is_given), source))

    def finished(self, dtype: np.dtype[Any]) -> tuple[tuple[int, ...], csr_array, csr_array]:
        """Return the images, their shares, and by how much their shares in the brightness exceed them."""
        sources, rows = np.unique(np.concatenate(self._images), return_inverse=True)
        where, n_pixels = np.concatenate(self._pixels), int(np.count_nonzero(self._band))
        share, broad = (
            (values / np.bincount(where, weights=values, minlength=n_pixels)[where]).astype(dtype)
            for values in np.concatenate(self._shares, axis=1)
        )
        tables = [csr_array((values, (rows.astype(np.int32), where)), shape=(len(sources), n_pixels)) for values in (share, broad - share)]
        for table in tables:
            table.eliminate_zeros()
        return tuple(int(source) for source in sources), tables[0], tables[1]


def measure_spread(index: IndexArray, blocks: Sequence[FloatArray], config: DecisionConfig) -> FloatArray:
    """Return how much of the brightness is blended over the wide window, from 0 (nothing) to 1 (all), shape (h, w)."""
    reach = reach_of_feather(config)
    if not reach:
        return np.zeros(index.shape, np.float32)
    seams = measure_seams(index, blocks, edge_band(index, reach_px=reach))
    return np.maximum(measure_smoothness(index, blocks, config), seams)


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
    reach = reach_of_feather(config)
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
    spread: FloatArray,
    is_slope: BoolArray,
    is_end: BoolArray,
    config: DecisionConfig,
) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    """Yield each image that the filters' windows around a cell contain, and its shares there: in the picture, and in its brightness."""
    wide = reach_of_feather(config) if spread.any() else 0
    at_end = reach_of_ends(config) if is_end.any() else 0
    on_slope = SLOPE_REACH_PX if is_slope.any() else 0
    margin = max(2 * config.blend_radius_px, wide, at_end, on_slope)
    near_index, near_guide = cut_reflected(index, cell, margin_px=margin), cut_reflected(guide, cell, margin_px=margin)
    inner = (slice(margin, -margin), slice(margin, -margin))
    for source in np.flatnonzero(np.bincount(near_index.reshape(-1))):
        membership = (near_index == source).astype(guide.dtype)
        share = guided_filter(membership, near_guide, radius_px=config.blend_radius_px, edge_contrast=config.blend_edge_contrast)[inner]
        if at_end:
            share = np.where(is_end, _mean_twice(membership, reach_px=at_end)[inner], share)
        broad = share
        if wide:
            broad = share + spread * (_mean_twice(membership, reach_px=wide)[inner] - share)
        if on_slope:
            broad = np.where(is_slope, window_mean(membership, side_px=2 * on_slope + 1)[inner], broad)
        yield int(source), share, broad


def _mean_twice(plane: FloatArray, *, reach_px: int) -> FloatArray:
    """Return the plane averaged by two windows, one after the other, that together reach so far."""
    return window_mean(window_mean(plane, side_px=reach_px + 1), side_px=reach_px + 1)


def _without_invisible(blend: Blend, blocks: Sequence[FloatArray], *, index: IndexArray, is_spread: BoolArray) -> Blend:
    """Return the blend without the pixels that it would hardly change: there the image of the decision map keeps its samples.

    Where brightness is blended widely, even a slight change is part of a slope that shall not end in a step.
    """
    n_pixels = len(is_spread)
    own, mixed = np.zeros((3, n_pixels)), np.zeros((3, n_pixels))
    chosen = index[blend.band]
    for source in np.union1d(blend.sources, chosen).astype(int):
        samples = blocks[source][:, blend.band]
        np.copyto(own, samples, where=chosen == source)
        if source in blend.sources:
            pixels, shares = row_of(blend.weights, blend.sources.index(source))
            mixed[:, pixels] += shares * samples[:, pixels]
    is_kept = is_spread | (np.sqrt(((mixed - own) ** 2).mean(axis=0)) >= LEAST_VISIBLE_CHANGE)
    band = blend.band.copy()
    band[blend.band] = is_kept
    kept = np.flatnonzero(is_kept)
    weights, brightness = csr_array(blend.weights[:, kept]), csr_array(blend.brightness[:, kept])
    used = np.flatnonzero(np.diff(weights.indptr) + np.diff(brightness.indptr))
    sources = tuple(blend.sources[row] for row in used)
    return Blend(np.where(band, blend.source_index, index), band, sources, csr_array(weights[used]), csr_array(brightness[used]))


def _reach_to_samples(config: FusionConfig, _detail_patch_px: int) -> int:
    """Return how far smooth surroundings are looked for, the feather and the window of texture at its end, or a seam."""
    feather = reach_of_feather(config.decision)
    return max(feather + TEXTURE_PX // 2, SEAM_REACH_PX) if feather else 0


def _reach_to_map(config: FusionConfig, _detail_patch_px: int) -> int:
    """Return the reach of the narrow blend, of the wide one, or of what asks for it: a slope or a seam."""
    feather = reach_of_feather(config.decision)
    return max(2 * config.decision.blend_radius_px, *((feather, SLOPE_REACH_PX, SEAM_REACH_PX) if feather else (0,)))


BLENDING = Stage(
    name="cleanup.blending.blend_along_edges",
    reaches=(
        Reach(
            _reach_to_samples,
            "2 ⌊`feather_px` / 2⌋ + ⌊`TEXTURE_PX` / 2⌋, `cleanup.seams.REACH_PX` at least; 0 without wide shares",
            of="samples",
        ),
        Reach(lambda config, _side: 2 * config.decision.blend_radius_px, "2 `blend_radius_px`", of="guide"),
        Reach(
            _reach_to_map,
            "2 `blend_radius_px`; 2 ⌊`feather_px` / 2⌋, `SLOPE_REACH_PX` or `cleanup.seams.REACH_PX` if larger",
            of="map",
            adds_up=True,
        ),
    ),
    halo_px=lambda config, _side: reach_of_blend(config.decision),
    working_bytes=bytes_per_pixel(56),
)
