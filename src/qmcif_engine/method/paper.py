"""The rule ``paper``: QMCIF as it is printed, from the images of a tile to its samples.

Images are measured one at a time, and what is kept of each, its detail-scale levels, waits in a temporary file where there are many: memory
does not grow with the number of images. Of the settings of decisions `order`, `measure` and all that concern blends have no meaning here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qmcif_engine.config.fusion_config import Precision, ResultScale
from qmcif_engine.method.focus import SOLVE_MARGIN_PX, measure_focus
from qmcif_engine.method.focus_levels import LEVELS_IN_MEMORY_BYTES, compare_levels, interpolate_position, weigh_images
from qmcif_engine.method.fusion import LargestLevel, blend_shares, compose_samples, select, share_patches
from qmcif_engine.method.patches import LARGEST_DETAIL_PATCH_PX, detail_patch_side, pad_to_grid, spread_patches, sum_patches
from qmcif_engine.method.refinement import COMPARED_PX, refine, source_weights
from qmcif_engine.rules import Decision, Rule
from qmcif_engine.stack.spilling import SpilledArrays
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray, SampleArray
    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.rules import Planes, Samples, StackStatistics, TileSteps

SOLVED_PIXEL_BYTES, LOW_RANK_PIXEL_BYTES = 160, 460
"""What a solve holds for each of its pixels, and what the low-rank term adds to that."""

COMPARED_PIXEL_BYTES, WINDOW_PIXEL_BYTES = 400, 150
"""What the refinement holds for each pixel that it compares at once, and what all stages hold for each pixel of the window."""


class FocusMaps(NamedTuple):
    """What was found of all images.

    Attributes
    ----------
    base : ndarray of uint16, shape (h, w)
        ``M_B``.
    choices : ndarray of uint16, shape (h, w)
        Which image the detail patch centered on each pixel chose.
    levels : SpilledArrays
        Detail-scale levels of all images, times the weight of their image.
    is_orphan : ndarray of bool, shape (h, w), or None
        Pixels that no image may give; None where every image may give all.
    """

    base: IndexArray
    choices: IndexArray
    levels: SpilledArrays
    is_orphan: BoolArray | None


def decide(
    planes: Planes, core: Window, statistics: StackStatistics, config: FusionConfig, *, with_position: bool, steps: TileSteps
) -> Decision:
    """Decide which image, or which mean of images, gives each pixel of the core of a tile.

    An image never gives a pixel that it may not give while another one may.

    Parameters
    ----------
    planes : Planes
    core : Window
        Counted from the corner of the padded window.
    statistics : StackStatistics
        Not looked at.
    config : FusionConfig
    with_position : bool
    steps : TileSteps

    Notes
    -----
    Focus maps ``M_B`` and ``M_D`` [QMCIF, Eqs. (16) and (17)], fusion [QMCIF, Eqs. (18) and (19)], refinement
    [QMCIF, Eqs. (20), (21) and (22)].
    """
    del statistics
    side = detail_patch_side(planes.image_shape, config.method)
    maps = find_focus_maps(planes, config, side_px=side, steps=steps)
    share_of = _shares(planes, maps, side_px=side)
    chosen, in_base = np.unique(maps.choices).tolist(), np.unique(maps.base).tolist()
    steps.check_cancelled()
    is_detail = _choose_scale(planes, maps, share_of, side_px=side, config=config)
    detail_map = LargestLevel(core.shape)
    for number in chosen:
        detail_map.add(number, share_of(number)[core.slices])
    shares = ((number, np.where(is_detail, share_of(number), maps.base == number)[core.slices]) for number in sorted({*chosen, *in_base}))
    blend = blend_shares(shares, shape=core.shape)
    weights = weigh_images(planes.n_images, config.decision)
    position = None
    if with_position:
        unweighted = (level[core.slices] / level.dtype.type(weight) for level, weight in zip(maps.levels, weights, strict=True))
        position = interpolate_position(unweighted, blend.index)
    return Decision(
        window=core,
        index=blend.index,
        confidence=compare_levels((level[core.slices] for level in maps.levels), blend.index),
        position=position,
        maps={"base_map": np.ascontiguousarray(maps.base[core.slices]), "detail_map": detail_map.index},
        blend=blend,
    )


def find_focus_maps(planes: Planes, config: FusionConfig, *, side_px: int, steps: TileSteps) -> FocusMaps:
    """Measure the images one after the other and return which is the sharpest around each pixel at either scale.

    Notes
    -----
    [QMCIF, Eq. (16)] and [QMCIF, Eq. (17)] of levels times `weigh_images`, which are 1 without a preference.
    """
    shape, patch = planes.window.shape, config.method.base_patch_px
    base, detail = LargestLevel((-(-shape[0] // patch), -(-shape[1] // patch))), LargestLevel(shape)
    levels = SpilledArrays(memory_bytes=LEVELS_IN_MEMORY_BYTES)
    is_orphan: BoolArray | None = None
    for number, weight in enumerate(weigh_images(planes.n_images, config.decision)):
        steps.check_cancelled()
        focus = measure_focus(
            _color_block(planes, number),
            config.method,
            detail_patch_px=side_px,
            part_px=_part_side(config),
            check_cancelled=steps.check_cancelled,
        )
        base_level, level = focus.base * weight, focus.detail * focus.detail.dtype.type(weight)
        may_give = planes.choosable(number)
        if may_give is None:
            detail.add(number, level)
        else:
            level[~may_give] = 0
            detail.add(number, np.where(may_give, level, -np.inf))
            # a base patch gives all its pixels
            is_missing = pad_to_grid((~may_give).astype(np.float32), patch_px=patch)
            base_level[sum_patches(is_missing, patch_px=patch) > 0] = -np.inf
            is_orphan = ~may_give if is_orphan is None else is_orphan & ~may_give
        base.add(number, base_level)
        levels.append(level)
        steps.report_image()
    base_map = spread_patches(base.index, shape=shape, patch_px=patch)
    for number in np.unique(base_map).tolist():
        may_give = planes.choosable(number)
        if may_give is not None:
            base_map = np.where((base_map == number) & ~may_give, detail.index, base_map)
    return FocusMaps(base_map, detail.index, levels, is_orphan)


def _shares(planes: Planes, maps: FocusMaps, *, side_px: int) -> Callable[[int], FloatArray]:
    """Return the function that gives the share of an image in the detail-scale result, shape (h, w), of those that may give the pixel."""
    plain = partial(share_patches, maps.choices, side_px=side_px)
    if maps.is_orphan is None:
        return plain
    orphans = maps.is_orphan

    def possible(number: int) -> FloatArray:
        may_give = planes.choosable(number)
        return plain(number) if may_give is None else plain(number) * (may_give | orphans)

    # not 0: the patch around a pixel chose an image that may give it
    total = sum(possible(number) for number in np.unique(maps.choices).tolist())
    return lambda number: possible(number) / total


def _choose_scale(
    planes: Planes, maps: FocusMaps, share_of: Callable[[int], FloatArray], *, side_px: int, config: FusionConfig
) -> BoolArray:
    """Return where the detail-scale result is taken: everywhere, nowhere, or where the refinement says so."""
    if config.method.result is not ResultScale.REFINED:
        return np.full(maps.base.shape, config.method.result is ResultScale.DETAIL)
    block = partial(_color_block, planes)
    of_base = select(((number, block(number)) for number in np.unique(maps.base).tolist()), maps.base)
    of_detail = np.zeros_like(of_base)
    for number in np.unique(maps.choices).tolist():
        of_detail += share_of(number) * block(number)
    return refine(
        (of_base, of_detail),
        map(block, range(planes.n_images)),
        weights=source_weights(maps.levels, rule=config.method.weights, saturation=config.method.saturation),
        detail_patch_px=side_px,
        part=config.method.similarity,
    )


def _color_block(planes: Planes, number: int) -> FloatArray:
    """Return an image as a block of three planes; those of a gray image are equal."""
    block = planes.block(number)
    return np.broadcast_to(block, (3, *block.shape[1:]))


def compose(images: Samples, decision: Decision, *, inner: Window, noise: float, config: FusionConfig) -> SampleArray:
    """Return samples of the inner window; each is copied, or a mean by the shares of the decision, whatever noise and settings are."""
    del noise, config
    return compose_samples(images, decision.blend)[inner.slices]


def _part_side(config: FusionConfig) -> int:
    """Return the side of the parts that are decomposed at once."""
    return config.tiling.tile_px // 2


def reach_px(config: FusionConfig, shape: tuple[int, int]) -> int:
    """Return how far beyond its core a tile reads.

    The solve, the amplification and the forward difference; then half a patch each for the level, the mean of patches and the similarity,
    and for the votes.
    """
    side = detail_patch_side(shape, config.method)
    return SOLVE_MARGIN_PX + config.method.amplification_radius_px + 1 + 4 * (side // 2)


def working_bytes(config: FusionConfig, n_pixels: int, n_images: int) -> int:
    """Return an upper bound of the memory of a tile of so many pixels with the overlap, beside its samples."""
    of_solve = SOLVED_PIXEL_BYTES + (LOW_RANK_PIXEL_BYTES if config.method.is_low_rank else 0)
    scale = 2 if config.method.precision is Precision.DOUBLE else 1
    solving = scale * of_solve * min(n_pixels, 2 * _part_side(config) ** 2)
    comparing = COMPARED_PIXEL_BYTES * min(n_pixels, (COMPARED_PX + LARGEST_DETAIL_PATCH_PX) ** 2)
    stored = min(4 * scale * n_images * n_pixels, LEVELS_IN_MEMORY_BYTES)
    return stored + max(solving, comparing) + WINDOW_PIXEL_BYTES * n_pixels


RULE = Rule(decide=decide, compose=compose, reach_px=reach_px, working_bytes=working_bytes, has_statistics=False)
