"""Decisions that fit together: focus evidence of all images, weighed against what neighboring decisions say.

Neighboring images of a stack are near in depth, so a slope is a row of small bands and no error, while a lone patch of a far image
mostly is one. Here every cell of a coarse grid pays for the image it takes: the less sharp that image is beside the sharpest, the more;
and neighboring cells pay for taking different images, the more the farther these are apart in the stack, up to a limit. Belief
propagation finds the map that costs least in all, nearly. It runs for a fixed number of rounds, so that what lies farther away than
that many cells can never matter.

The same costs tell how sure a decision is: by how much dearer every choice is that would be wrong. None of this is in the paper;
`consistency` = 0, as in the ``paper`` preset, keeps the map as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

from qmcif_engine.config.fusion_config import StackOrder
from qmcif_engine.config.stage import Reach, Stage
from qmcif_engine.kernels.cell_sums import CELL_PX
from qmcif_engine.kernels.labels import pass_label_messages, pass_lead_messages
from qmcif_engine.method.cell_grid import sample_cells, spread_cells
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray
    from qmcif_engine.config.fusion_config import DecisionConfig, FusionConfig
    from qmcif_engine.config.stage import TileSize

ROUNDS = 12
"""How often the cells talk, which is also how far, in cells, a word can travel."""

DAMPING = 0.15
"""Share of what a cell tells that stays as it was the round before: weak evidence would else turn over from round to round."""

REACH_PX = (ROUNDS + 1) * CELL_PX
"""How far from a pixel the evidence lies that its decision depends on."""

CONTRAST_WEIGHT = 6.0
"""What the logarithm of a ratio of focus levels counts against the price of a border between two cells, which is 1; noise makes it less."""

NOISE_AT_HALF_CONTRAST = 50.0
"""Gray levels of noise at which that ratio counts half."""

FLOOR_LEVEL = 0.001
"""Added to focus levels before they are compared: ratios of levels that are hardly there mean nothing."""

NOISE_FLOOR = 0.4
"""Added to that for each gray level of noise that smoothing leaves: several times what noise alone reaches."""

CHOSEN_WEIGHT = 1.0
"""What it costs to leave the image that the refinement chose; noise makes it less."""

HALF_SIGNIFICANT = 0.125
"""Highest level of a cell, in units of the floor, at which its evidence counts half: with less its neighbors decide. In clean stacks only:
in others the floor is high, and weak evidence is all there is."""

FAINT_WEIGHT = 0.02
"""Share of the say of the refinement that is left in cells without evidence: it settles ties, and no island lasts by it."""

NOISE_AT_HALF = 5.0
"""Gray levels of noise at which that choice counts half: under noise the similarity of small windows says little."""

NOISE_AT_HALF_BREADTH = 20.0
"""Gray levels of noise at which the weight of large windows falls with the root of the number of images, not with the number itself."""

DEAREST_STEP = (2, 8)
"""Difference of the images at which a border costs most, of a shallow and of a deep stack; in between an eighth of the images."""

STEP_EXPONENT = 1.5
"""How the price grows with the difference: gently at first, so that slopes are cheaper than stairs."""

HOPELESS_COST = 8.0
"""An image that costs this much more than the best in every cell of a block is not a choice there, unless borders are dearer still."""

_N_NEIGHBORS = 4

BLOCK_CELLS = 48
"""Side of the blocks of a deep stack that are solved at once, without the cells around them that matter; of a shallow one it is twice
that. In smaller blocks fewer images contend, in larger ones fewer cells are solved twice."""

SHALLOW_IMAGES = 4
"""Up to this many images a stack counts as shallow."""

CELL_LEVEL_BYTES = 6 / CELL_PX**2
"""What the levels of one image take per pixel, kept one per cell, in single and in half precision."""

BLOCK_OF_CELLS_BYTES = 12 * 4 * (BLOCK_CELLS + 2 * ROUNDS) ** 2
"""What belief propagation holds for each image of a block: costs, beliefs, and messages of two rounds to four neighbors."""

SLOPE_REACH_PX = 4
"""How far from a border between two neighbors of the stack both are mixed, where they are about as sharp."""

SLOPE_FADE_PX = 7
"""How far around a slope its blend fades, so that it does not begin and end with a cell."""

LARGEST_SUPPORT = 1.0
"""By how many times what a cell and those beside it see, neighbors may make a decision surer."""

EVEN_SHARE = 0.7
"""An image counts as about as sharp as its neighbor from this share of the sharper one's focus level on."""

CONFIDENCE_MARGINS = (0.0, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 1.4)
CONFIDENCES = (0.58, 0.71, 0.8, 0.845, 0.895, 0.93, 0.953, 0.966, 0.977, 0.995)
"""Share of right decisions among those whose wrong alternatives are so much dearer, measured on generated scenes."""


class CellEvidence:
    """Logarithms of the focus levels of all images, one per cell, gathered image by image.

    Parameters
    ----------
    noise_level : float
        Standard deviation of the noise in what the levels were measured on, in gray levels.

    Notes
    -----
    Half precision on the logarithmic scale is a thousandth of a level, and a deep stack then takes an eighth of a byte per pixel and image.
    """

    def __init__(self, *, noise_level: float) -> None:
        self._planes: list[NDArray[np.float16]] = []
        self._floor = FLOOR_LEVEL + NOISE_FLOOR * noise_level

    def add(self, level: FloatArray) -> None:
        """Take the levels of the next image, one per cell."""
        # the floor keeps the logarithm of nothing finite, and ratios below it near 1
        self._planes.append(np.log(level + np.asarray(self._floor, level.dtype)).astype(np.float16))

    def costs(self, window: Window, *, contrast_weight: float) -> NDArray[np.float32]:
        """Return what speaks against each image in a window of cells, shape (N, h, w): logarithms of ratios of levels, weighted."""
        # sums of costs and messages are in single precision; half is for keeping only
        levels = np.stack([plane[window.slices] for plane in self._planes]).astype(np.float32)
        costs: NDArray[np.float32] = np.float32(contrast_weight) * (levels.max(axis=0) - levels)
        return costs

    def significance(self, window: Window) -> NDArray[np.float32]:
        """Return what evidence counts in each cell of a window, from 0 to 1: less where no image shows more than the floor.

        ``l / (l + a f)`` with the highest level ``l``, the floor ``f`` and ``a`` = `HALF_SIGNIFICANT`.
        """
        highest = np.max([plane[window.slices] for plane in self._planes], axis=0).astype(np.float32)
        floor = np.log(np.float32(self._floor)).astype(np.float16).astype(np.float32)  # rounded as levels are, so that none is above it
        level = np.maximum(np.exp(highest - floor) - 1, 0)  # in units of the floor
        counted: NDArray[np.float32] = level / (level + np.float32(HALF_SIGNIFICANT))
        return counted

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of cells."""
        return self._planes[0].shape

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self._planes)


def weigh_breadth(n_images: int, noise_level: float) -> float:
    """Return what evidence of large windows counts beside that of small ones: 1 for a pair, less in deeper stacks, more under noise.

    The windows of a pair lie in one image's depth mostly; those of a deep stack hold slopes, where every image is the sharpest somewhere.
    Under noise only large windows tell anything.
    """
    return float((2 / n_images) ** (1 / (1 + noise_level / NOISE_AT_HALF_BREADTH)))


def find_even_focus(index: IndexArray, levels: Sequence[FloatArray]) -> BoolArray:
    """Return where the image before or after the chosen one is about as sharp, shape (h, w).

    Parameters
    ----------
    index : ndarray of uint16, shape (h, w)
    levels : sequence of ndarray of float, one level per cell
        Of the finest window, in the order of the stack.
    """
    chosen = sample_cells(index)
    is_even = np.zeros(chosen.shape, bool)
    for number in range(len(levels) - 1):
        least = np.asarray(EVEN_SHARE, levels[number].dtype) * np.maximum(levels[number], levels[number + 1])
        is_alike = np.minimum(levels[number], levels[number + 1]) >= least
        # pair by pair, so that two planes are looked at whatever N is
        is_even |= is_alike & ((chosen == number) | (chosen == number + 1))
    return spread_cells(is_even, index.shape)


def price_borders(n_images: int, order: StackOrder) -> NDArray[np.float32]:
    """Return what two neighboring cells pay whose images differ by 0, 1, 2 and so on; the last price holds for larger differences.

    Notes
    -----
    ``min(d / c, 1)^p`` for a difference of ``d`` images. ``c`` grows with the number of images, because a deep stack cuts the same
    depth into thinner slices. Two images, and images without an order, are as far apart as can be.
    """
    if n_images == 2 or order is StackOrder.NONE:
        return np.array([0, 1], np.float32)
    dearest = int(np.clip(n_images / 8, *DEAREST_STEP))
    return ((np.arange(dearest + 1) / dearest) ** STEP_EXPONENT).astype(np.float32)


def regularize(chosen: IndexArray, evidence: CellEvidence, *, noise_level: float, config: DecisionConfig) -> tuple[IndexArray, FloatArray]:
    """Return the map whose decisions fit together and to the evidence, and the probability that each is right; one per cell.

    Parameters
    ----------
    chosen : ndarray of uint16, shape (rows, columns)
        What the refinement chose.
    evidence : CellEvidence
    noise_level : float
        In gray levels.
    config : DecisionConfig
    """
    # block by block: costs of all images at once would be a volume of the size of the stack
    decided, margin = np.empty(evidence.shape, np.uint16), np.empty(evidence.shape, np.float32)
    prices = price_borders(len(evidence), config.order)
    rounds = ROUNDS if config.consistency else 0
    contrast_weight = CONTRAST_WEIGHT / (1 + noise_level / NOISE_AT_HALF_CONTRAST)
    weight = CHOSEN_WEIGHT * weigh_breadth(len(evidence), noise_level) / (1 + noise_level / NOISE_AT_HALF)
    # a neighbor in depth is hardly a wrong choice
    n_alike = 1 if len(evidence) > 2 and config.order is StackOrder.ORDERED else 0
    for block in _blocks(evidence.shape, BLOCK_CELLS if len(evidence) > SHALLOW_IMAGES else 2 * BLOCK_CELLS):
        # messages travel one cell per round, so that what is farther away cannot matter
        near = block.grown(rounds, evidence.shape)
        significance = evidence.significance(near) if noise_level == 0 else np.ones(near.shape, np.float32)
        costs = significance * evidence.costs(near, contrast_weight=contrast_weight)
        # what a cell or one beside it sees by itself, before the refinement's say and the messages
        known = ndimage.maximum_filter(_margin(costs, np.arange(len(evidence)), n_alike=n_alike)[1], 3)
        # the refinement's choice is a cost on all other images, like any other evidence
        loyalty = np.float32(weight) * np.maximum(significance, np.float32(FAINT_WEIGHT))
        costs += loyalty * (np.arange(len(evidence), dtype=np.uint16)[:, None, None] != chosen[near.slices])
        inner = block.relative_to(near).slices
        best, alone = _margin(costs, np.arange(len(evidence)), n_alike=n_alike)
        # where all around agree, they confirm what is seen
        decided[block.slices], margin[block.slices] = best[inner], (known if rounds else np.minimum(alone, known))[inner]
        # where all cells within earshot prefer one image, messages change nothing
        is_near = _near_borders(best, rounds)
        if not is_near.any():
            continue
        # only the part of the block that has borders, and what can be heard there
        talking = _box_of(is_near).grown(rounds, near.shape)
        costs = costs[:, *talking.slices]
        hopeless_cost = max(HOPELESS_COST, _N_NEIGHBORS * config.consistency)
        # every image that contends takes time and memory in every round
        labels = _contenders(costs, hopeless_cost=hopeless_cost)
        # in cells of the whole grid; `within` is the same window as the messages see it
        told = talking.moved(near.top, near.left).common(block)
        within = told.relative_to(near).relative_to(talking)
        limits = (np.float32(DAMPING), np.float32(hopeless_cost))
        beliefs = _fit_together(costs[labels], labels, prices * np.float32(config.consistency), rounds, wanted=within, limits=limits)
        settled, others = _margin(beliefs[:, *within.slices], labels, n_alike=n_alike)
        # neighbors may confirm what is seen; they cannot see for a cell where there is nothing
        others = np.minimum(others, np.float32(LARGEST_SUPPORT) * known[told.relative_to(near).slices])
        is_told = is_near[told.relative_to(near).slices]
        np.copyto(decided[told.slices], settled, where=is_told)
        np.copyto(margin[told.slices], others, where=is_told)
    # margins in a unit that noise and the number of images do not change, in which confidence was measured
    unit = contrast_weight * float(prices[min(n_alike + 1, prices.size - 1)]) ** 0.5
    return decided, _probability(margin / np.float32(unit))


def _fit_together(
    costs: NDArray[np.float32],
    labels: NDArray[np.int64],
    prices: NDArray[np.float32],
    rounds: int,
    *,
    wanted: Window,
    limits: tuple[np.float32, np.float32],
) -> NDArray[np.float32]:
    """Return what each choice costs each wanted cell, its own reasons and its neighbors' together, up to a constant per cell.

    The shape is that of the costs, (K, h, w); what stands in other cells means nothing. `limits` are those of `pass_label_messages`.
    """
    beliefs = np.zeros_like(costs)
    # of two images only the difference of costs matters: one message in place of two
    if len(labels) == 2:
        price = prices[min(int(labels[1] - labels[0]), prices.size - 1)]
        pass_lead_messages(costs[0] - costs[1], np.array([price, limits[0]], np.float32), rounds, beliefs[0])
    else:
        sides = (wanted.top, wanted.left, wanted.bottom, wanted.right)
        pass_label_messages(np.ascontiguousarray(costs), labels, prices, limits, rounds, sides, beliefs)
    return beliefs


def _near_borders(best: IndexArray, rounds: int) -> BoolArray:
    """Return which cells may hear of a border between the cheapest images; nobody farther away gains by differing from all around."""
    is_border = np.zeros(best.shape, bool)
    across, down = best[:, 1:] != best[:, :-1], best[1:] != best[:-1]
    # both cells of a pair
    is_border[:, 1:] |= across
    is_border[:, :-1] |= across
    is_border[1:] |= down
    is_border[:-1] |= down
    if rounds == 0 or not is_border.any():
        return is_border & (rounds > 0)
    return np.asarray(ndimage.maximum_filter(is_border, 2 * rounds - 1, mode="constant"))


def _box_of(is_wanted: BoolArray) -> Window:
    """Return the rectangle that holds all wanted cells, of which there are some."""
    rows, columns = (np.flatnonzero(is_wanted.any(axis=axis)) for axis in (1, 0))
    return Window(int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1)


def _blocks(shape: tuple[int, int], side: int) -> list[Window]:
    return [
        Window(top, left, min(top + side, shape[0]), min(left + side, shape[1]))
        for top in range(0, shape[0], side)
        for left in range(0, shape[1], side)
    ]


def _contenders(costs: NDArray[np.float32], *, hopeless_cost: float) -> NDArray[np.int64]:
    """Return the images that are not hopeless everywhere: what all neighbors say together cannot make up for that cost."""
    # how near each image comes to the best, in its best cell
    least = (costs - costs.min(axis=0)).reshape(len(costs), -1).min(axis=1)
    return np.flatnonzero(least < hopeless_cost)


def _margin(beliefs: NDArray[np.float32], labels: NDArray[np.int64], *, n_alike: int) -> tuple[IndexArray, NDArray[np.float32]]:
    """Return the cheapest image of each cell, the last of them where several are equal, and how much dearer the others are.

    Images within `n_alike` of the cheapest do not count as others.
    """
    # the same as below, without arrays of all images
    if len(labels) == 2 and n_alike == 0:
        lead = beliefs[0] - beliefs[1]
        return np.where(lead >= 0, labels[1], labels[0]).astype(np.uint16), np.minimum(np.abs(lead), np.float32(HOPELESS_COST))
    # by how much dearer than the cheapest
    lead = beliefs - beliefs.min(axis=0)

    def dearer_than(choice: NDArray[np.intp]) -> NDArray[np.float32]:
        is_alike = np.abs(labels[:, None, None] - labels[choice]) <= n_alike
        others: NDArray[np.float32] = np.where(is_alike, np.float32(np.inf), lead).min(axis=0)
        return np.minimum(others, np.float32(HOPELESS_COST))

    # of several cheapest images the first and the last, found from both ends
    first, last = np.argmin(lead, axis=0), len(labels) - 1 - np.argmin(lead[::-1], axis=0)
    others = dearer_than(last)
    if (first != last).any():  # no surer for the order in which equal images come
        others = np.minimum(others, dearer_than(first))
    return labels[last].astype(np.uint16), others


def _probability(margin: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the probability that a decision is right, from how much dearer the wrong ones are.

    Read off generated scenes with and without noise, whose depth is known (`benchmarks/stacks.py confidence` shows how well it holds).
    """
    probability: NDArray[np.float32] = np.interp(margin, CONFIDENCE_MARGINS, CONFIDENCES).astype(np.float32)
    return probability


def _reach(config: FusionConfig, _detail_patch_px: int) -> int:
    return REACH_PX if config.decision.consistency else 0


def _kept_bytes(_config: FusionConfig, size: TileSize) -> int:
    n_largest = max(size.n_images, 4 * SHALLOW_IMAGES)  # blocks of a shallow stack have four times the cells
    return int(size.n_images * CELL_LEVEL_BYTES * size.padded_px + n_largest * BLOCK_OF_CELLS_BYTES)


REGULARIZATION = Stage(
    name="cleanup.regularization.regularize",
    reaches=(Reach(_reach, "(`cleanup.regularization.ROUNDS` + 1) `cleanup.regularization.CELL_PX`", adds_up=True),),
    overlap_px=_reach,
    acts_far=True,
    kept_bytes=_kept_bytes,
)
