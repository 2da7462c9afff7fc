"""Blends along the edges of a decision map: narrow for detail, wide for brightness where a step would show, none where nobody sees it.

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
from qmcif_engine.cleanup.frame_ends import reach_of_ends
from qmcif_engine.cleanup.regularization import SLOPE_FADE_PX, SLOPE_REACH_PX
from qmcif_engine.cleanup.seams import REACH_PX as SEAM_REACH_PX
from qmcif_engine.cleanup.seams import measure_seams
from qmcif_engine.cleanup.smoothness import find_smooth_parts
from qmcif_engine.config.stage import Reach, Stage, bytes_per_pixel
from qmcif_engine.kernels.boxes import TEXTURE_PX, sum_boxes
from qmcif_engine.kernels.sharing import Entries, Filters, Zones, fill_rows, find_leading, gather_shares, mark_used, mix_samples
from qmcif_engine.method.fusion import Blend
from qmcif_engine.method.patches import edge_band

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray
    from qmcif_engine.config.fusion_config import DecisionConfig, FusionConfig

LEAST_VISIBLE_CHANGE = 2.25
"""Gray levels by which a blend in texture must change a pixel to be worth it."""

LEAST_SHARE = 1e-4
"""A smaller share is none: no sample shows it."""

_NOWHERE = np.empty((0, 0), bool)
_NO_SLOPES = np.empty((0, 0), np.float32)


def blend_along_edges(
    index: IndexArray,
    blocks: Sequence[FloatArray],
    guide: FloatArray,
    config: DecisionConfig,
    *,
    is_even: BoolArray | None = None,
    is_end: BoolArray | None = None,
    is_exact: BoolArray | None = None,
) -> Blend:
    """Turn a decision map into shares that change softly across its edges, but not across edges of the image.

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
        Where an image is left because its frame ends (`qmcif_engine.cleanup.frame_ends`): edges of the scene do not stop the blend there.
    is_exact : ndarray of bool, shape (h, w), optional
        Where edges lie to the pixel: a narrow blend would only mix blurred samples into sharp ones, and is not made.

    Notes
    -----
    Near an edge of the map, a guided filter (He, Sun and Tang 2013) of each image's membership. Where the surroundings are smooth, where
    the border would be a seam and, over fewer pixels, where it runs along a slope of the scene, brightness is blended more widely than
    detail: the two bands of Burt and Adelson (1983). Everywhere else one image gives the pixel whole.
    """
    spread = measure_spread(index, blocks, config)
    # empty arrays stand for "nowhere", since compiled code takes no None
    slope = _NO_SLOPES if is_even is None or not reach_of_feather(config) else measure_slopes(index, is_even)
    is_end = _NOWHERE if is_end is None else is_end
    is_spread = spread > 0
    if slope.size:
        is_spread |= (slope > 0) & edge_band(index, reach_px=SLOPE_REACH_PX)
    if is_end.size:
        is_spread |= is_end
    # a guided filter is two means in a row, each of which reaches one radius
    band = edge_band(index, reach_px=2 * config.blend_radius_px)
    if is_exact is not None:
        band &= ~is_exact
    band |= is_spread
    filters = Filters(
        radius=config.blend_radius_px,
        power=config.blend_edge_contrast**2,
        wide=reach_of_feather(config),
        at_end=reach_of_ends(config) if is_end.size else 0,
        on_slope=SLOPE_REACH_PX if slope.size else 0,
    )
    zones = Zones(spread, np.ascontiguousarray(is_end), slope)
    entries = Entries(*gather_shares(np.ascontiguousarray(index), np.ascontiguousarray(guide), band, zones, filters, LEAST_SHARE))
    # wide blends are kept even where they change little: part of them left out would be a step
    is_kept = is_spread[band] | _is_visible(entries, blocks, index=index, band=band)
    return _as_blend(entries, is_kept, index=index, band=band, dtype=guide.dtype)


def _is_visible(entries: Entries, blocks: Sequence[FloatArray], *, index: IndexArray, band: BoolArray) -> BoolArray:
    """Return which pixels of a band their shares change by what can be seen, shape (n_pixels,).

    The others keep the samples of the decision map's image, except where brightness is blended widely: there even a slight change is part
    of a slope that shall not end in a step.
    """
    places, chosen = np.flatnonzero(band), index[band]
    own, mixed = np.zeros((len(places), 3)), np.zeros((len(places), 3))
    n_sources = int(max(chosen.max(initial=0), entries.sources.max(initial=0))) + 1
    # image by image, so that the samples of each are looked at once
    by_source = np.argsort(chosen, kind="stable")
    bounds, starts = np.searchsorted(chosen[by_source], np.arange(n_sources + 1)), np.empty(n_sources + 1, np.int32)
    shares, pixels = fill_rows(entries, np.arange(len(places)), np.arange(n_sources), entries.shares, starts)
    for source in range(n_sources):
        whole, part = by_source[bounds[source] : bounds[source + 1]], slice(starts[source], starts[source + 1])
        if len(whole) or len(pixels[part]):
            mix_samples(np.ascontiguousarray(blocks[source]), places, whole, pixels[part], shares[part], own, mixed)
    mixed -= own
    # the distance of colors against that of as many gray levels in each channel, both squared
    is_visible: BoolArray = np.einsum("nc,nc->n", mixed, mixed) >= mixed.shape[1] * LEAST_VISIBLE_CHANGE**2
    return is_visible


def _as_blend(entries: Entries, is_kept: BoolArray, *, index: IndexArray, band: BoolArray, dtype: np.dtype[Any]) -> Blend:
    """Return the blend of those pixels of a band that are kept."""
    kept, led, kept_band = np.flatnonzero(is_kept), index.copy(), band.copy()
    kept_band[band] = is_kept
    led[kept_band] = find_leading(entries, kept)
    is_used = np.zeros(int(entries.sources.max(initial=0)) + 1, bool)
    mark_used(entries, kept, is_used)
    # rows of the table: images that nothing was kept of have none
    sources, numbers = np.flatnonzero(is_used), np.cumsum(is_used) - 1
    shares = entries.shares.astype(dtype)
    weights, brightness = (
        _as_table(entries, kept, numbers=numbers, values=values, shape=(len(sources), len(kept)))
        # in `Blend` brightness is what the wide share has beyond the narrow one
        for values in (shares, entries.broad.astype(dtype) - shares)
    )
    return Blend(led, kept_band, tuple(int(source) for source in sources), weights, brightness)


def _as_table(
    entries: Entries, kept: NDArray[np.intp], *, numbers: NDArray[np.intp], values: FloatArray, shape: tuple[int, int]
) -> csr_array:
    """Return values of the entries as a sparse table, one row per image, one column per pixel that is kept."""
    starts = np.empty(shape[0] + 1, np.int32)
    data, pixels = fill_rows(entries, kept, numbers, values, starts)
    return csr_array((data, pixels, starts), shape=shape)


def measure_spread(index: IndexArray, blocks: Sequence[FloatArray], config: DecisionConfig) -> FloatArray:
    """Return how much of the brightness is blended over the wide window, from 0 (nothing) to 1 (all), shape (h, w)."""
    reach = reach_of_feather(config)
    if not reach:
        return np.zeros(index.shape, np.float32)
    spread = measure_seams(index, blocks, edge_band(index, reach_px=min(reach, SEAM_REACH_PX)))
    for window, part in find_smooth_parts(index, blocks, config):
        # whichever of the two asks for more
        np.maximum(spread[window.slices], part, out=spread[window.slices])
    return spread


def measure_slopes(index: IndexArray, is_even: BoolArray) -> FloatArray:
    """Return how much of a slope there is around each pixel, from 0 to 1, shape (h, w).

    A slope is where a border between two neighbors of the stack, and no other image, is near, and both are about as sharp. Cells are, or
    are not: the share of such pixels around each one counts, because a blend that began and ended with a cell would leave a step there.
    """
    side = 2 * SLOPE_REACH_PX + 1
    # the map names images by their place in the stack: a span of 1 is two neighbors and nobody else
    span = ndimage.maximum_filter(index, side) - ndimage.minimum_filter(index, side)
    near = np.pad(is_even & (span == 1), SLOPE_FADE_PX, mode="symmetric").astype(np.float32)
    slope = np.empty(index.shape, np.float32)
    sum_boxes(near, 2 * SLOPE_FADE_PX + 1, slope)
    slope /= np.float32((2 * SLOPE_FADE_PX + 1) ** 2)
    return slope


def _reach_to_samples(config: FusionConfig, _detail_patch_px: int) -> int:
    """Return how far smooth surroundings are looked for, the feather and the window of texture at its end, or a seam."""
    feather = reach_of_feather(config.decision)
    return max(feather + TEXTURE_PX // 2, SEAM_REACH_PX) if feather else 0


def _reach_to_map(config: FusionConfig, _detail_patch_px: int) -> int:
    """Return the reach of the narrow blend, of the wide one, or of what asks for it: a slope or a seam."""
    feather = reach_of_feather(config.decision)
    return max(2 * config.decision.blend_radius_px, *((feather, SLOPE_REACH_PX + SLOPE_FADE_PX, SEAM_REACH_PX) if feather else (0,)))


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
            "2 `blend_radius_px`; 2 ⌊`feather_px` / 2⌋, `SLOPE_REACH_PX` + `SLOPE_FADE_PX` or `cleanup.seams.REACH_PX` if larger",
            of="map",
            adds_up=True,
        ),
    ),
    overlap_px=lambda config, _side: reach_of_blend(config.decision),
    working_bytes=bytes_per_pixel(56),
)
