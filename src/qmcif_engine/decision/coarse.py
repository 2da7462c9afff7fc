"""The coarse decision: one for the whole image, on cells of 16 px, which says where tiles cannot look."""

from __future__ import annotations

from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from qmcif_engine.arrays import FloatArray
from qmcif_engine.config.fusion_config import Effort, FusionConfig, NoiseHandling, RuleName
from qmcif_engine.decision.cleaning import clip_outliers
from qmcif_engine.decision.evidence import COLOR_FREEDOM, EXCLUDED, FREEDOM, image_prior
from qmcif_engine.decision.filters import average_cells, largest_of_cells, reach_of, smooth
from qmcif_engine.decision.propagation import BORDER, far_apart, pass_messages, price_candidates
from qmcif_engine.rules import Planes, StackStatistics, TileSteps
from qmcif_engine.stack.window import Window

COARSE_PX = 16
"""Side of the cells of the coarse decision, a whole number of blocks."""

DETAIL_PX = 2
"""Standard deviation of the Laplacian of Gaussian whose energy is compared, and side of the cells it is computed on: finer detail is mostly
noise, and wider detail can be seen out of focus, too."""

COARSE_NOISE_ENERGY = 0.028
"""Mean of that energy in white noise of deviation 1 (`tests/engine/decision` derives it)."""

COARSE_FREEDOM = sum(FREEDOM) * COLOR_FREEDOM
"""It weighs as much as the evidence of tiles, in whose place it is: else noise would make borders too dear."""

COARSE_CANDIDATES = 4
"""Images that are compared in each cell."""

COARSE_ROUNDS = 64
"""Rounds of messages: each looks one cell further, so that evidence decides up to 1024 px away."""

COARSE_MARGIN_PX = 16
"""How far beyond a window its samples are looked at: outliers, cells, Gaussian and Laplacian, on the grid of the cells."""

assert 1 + DETAIL_PX * (reach_of(1.0) + 2) <= COARSE_MARGIN_PX


class CoarseCells(NamedTuple):
    """The candidates of the cells of a window.

    Attributes
    ----------
    label : ndarray of int32, shape (rows, columns, K)
        Images in ascending order.
    cost : ndarray of float32, shape (rows, columns, K)
        Cost of each of them, in nats per pixel.
    price : ndarray of float32, shape (rows, columns, K, K)
        Cost of a pixel of border between each two of them, in units of `qmcif_engine.decision.propagation.BORDER`.
    """

    label: NDArray[np.int32]
    cost: FloatArray
    price: FloatArray


class CoarseDecision(NamedTuple):
    """The candidates of the cells of an image, and what their neighbors say of them.

    Attributes
    ----------
    label : ndarray of uint16, shape (rows, columns, K)
        Images in ascending order.
    messages : ndarray of float16, shape (rows, columns, 4, K)
        The last messages from the left, right, upper and lower neighbor, in nats per cell.
    """

    label: NDArray[np.uint16]
    messages: NDArray[np.float16]

    def cut(self, window: Window) -> CoarseDecision:
        """Return the cells of a window of the image that starts on a cell."""
        cells = window.in_cells(COARSE_PX).slices
        return CoarseDecision(self.label[cells], self.messages[cells])


def has_coarse_decision(config: FusionConfig) -> bool:
    """Return whether tiles start from a coarse decision."""
    return config.decision.rule is RuleName.ENERGY and config.decision.effort is Effort.FULL


def coarse_energy(planes: FloatArray) -> FloatArray:
    """Return the energy of detail of planes, shape (c, h, w), in units of the noise, on cells of `COARSE_PX`.

    That of the gray image, which costs a third: ``e = mean (LoG * I)^2``.
    """
    gray = average_cells(planes.mean(axis=0), DETAIL_PX)
    detail = cv2.Laplacian(smooth(gray, 1.0), -1, borderType=cv2.BORDER_REFLECT)
    return average_cells(np.square(detail), COARSE_PX // DETAIL_PX)


def weigh_coarsely(planes: Planes, core: Window, statistics: StackStatistics, config: FusionConfig, *, steps: TileSteps) -> CoarseCells:
    """Return the candidates of the cells of a window.

    Parameters
    ----------
    planes : Planes
        The window, grown by `COARSE_MARGIN_PX`.
    core : Window
        The window, counted from the corner of the planes.
    statistics : StackStatistics
    config : FusionConfig
    steps : TileSteps

    Notes
    -----
    The cost of an image is that of the evidence (`qmcif_engine.decision.evidence.find_candidates`), from one energy instead of three. An
    image that lacks a pixel of a cell is none of its candidates while others have all. Light of clipped samples stays as it is.
    """
    n = planes.n_images
    cells = core.in_cells(COARSE_PX).slices
    has_outliers = config.decision.noise is NoiseHandling.AUTO
    energies, means, is_open = [], [], []
    for number in range(n):
        steps.check_cancelled()
        block = planes.block(number)
        block = (clip_outliers(block) if has_outliers else block) / np.float32(statistics.noise)
        energies.append(coarse_energy(block)[*cells])
        means.append(average_cells(block, COARSE_PX)[:, *cells])
        choosable = planes.choosable(number)
        is_open.append(np.ones_like(energies[-1], np.bool_) if choosable is None else ~largest_of_cells(~choosable, COARSE_PX)[*cells])
    evidence = np.log1p(np.stack(energies) / np.float32(statistics.coarse_floor)) + image_prior(config, n)[:, None, None]
    # where no image has a whole cell, all compete
    may_be_chosen = np.stack(is_open) | ~np.any(is_open, axis=0)
    best = np.where(may_be_chosen, evidence, 0).max(axis=0)
    below = np.maximum(best - evidence, 0)
    cost = np.where(may_be_chosen, np.float32(COARSE_FREEDOM / 2) * (below - 1 + np.exp(-below)), np.float32(EXCLUDED))
    # the first images where costs are equal
    chosen = np.sort(np.argsort(cost, axis=0, kind="stable")[:COARSE_CANDIDATES], axis=0)
    label = np.ascontiguousarray(chosen.transpose(1, 2, 0), np.int32)
    own = np.ascontiguousarray(np.take_along_axis(cost, chosen, 0).transpose(1, 2, 0))
    far = far_apart(n, is_ordered=statistics.is_ordered)
    return CoarseCells(label, own, price_candidates(np.stack(means), label, np.exp(best), far))


def decide_coarsely(cells: CoarseCells, *, far: float, smoothness: float, steps: TileSteps) -> CoarseDecision:
    """Pass messages between the cells of a whole image.

    Notes
    -----
    The energy is that of `qmcif_engine.decision.propagation.propagate` without halos, on one grid.
    """
    label, cost, price = cells
    messages = np.zeros((*label.shape[:2], 4, label.shape[2]), np.float32)
    total, border = cost * np.float32(COARSE_PX**2), np.float32(COARSE_PX * BORDER * smoothness)
    for _ in range(COARSE_ROUNDS // 2):
        steps.check_cancelled()
        # both colors of the chessboard
        pass_messages(total, label, 1, price, 1, np.float32(far), border, 2, messages)
    return CoarseDecision(label.astype(np.uint16), messages.astype(np.float16))


def start_messages(coarse: CoarseDecision, label: NDArray[np.int32], *, side: int, far: float, smoothness: float) -> FloatArray:
    """Return the messages with which the grid of blocks starts, shape (rows, columns, 4, K), for the candidates of the blocks.

    A candidate of which a cell knows nothing gets its least message, and the price of a border that cannot be seen.
    """
    times, shape = COARSE_PX // side, label.shape[:2]

    def spread(cells: NDArray[Any]) -> FloatArray:
        return cells.repeat(times, axis=0).repeat(times, axis=1)[: shape[0], : shape[1]].astype(np.float32)

    step = np.abs(label[..., :, None] - spread(coarse.label)[..., None, :])
    border = np.float32(COARSE_PX * BORDER * smoothness) * np.minimum(step / np.float32(far), 1).astype(np.float32)
    given = spread(coarse.messages)
    messages = [(given[:, :, d, None, :] + border).min(axis=-1) for d in range(4)]
    return np.ascontiguousarray(np.stack(messages, axis=2) / np.float32(times))


def wanted_labels(coarse: CoarseDecision, window: Window, side: int) -> NDArray[np.int32]:
    """Return the labels that are candidates of the blocks of a window in any case, counted from the corner of the coarse decision."""
    spread = coarse.cut(window).label.repeat(COARSE_PX // side, axis=0).repeat(COARSE_PX // side, axis=1)
    return np.ascontiguousarray(spread[: -(-window.shape[0] // side), : -(-window.shape[1] // side)], np.int32)
