"""The movement of one image against another, estimated from coarse to fine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from qmcif_engine.stack.alignment.fitting import TOLERANCE_PX, Fit, compare_fits, fit_movement
from qmcif_engine.stack.alignment.matching import Level, Matches, choose_windows, match_windows, search_windows
from qmcif_engine.stack.alignment.transforms import (
    IDENTITY,
    TransformModel,
    apply_matrix,
    frame_corners,
    is_affine,
    lift_matrix,
    linearize,
    lower_matrix,
    measure_movement,
)

_N_WINDOWS, _N_WINDOWS_FINEST, _N_WINDOWS_SECOND_LOOK = 60, 300, 2000
_ROUNDS = 3
_CONVERGED_PX, _CONVERGED_FINEST_PX = 0.3, 0.03
"""Movement of the corners at which a level is done, in its pixels."""

_SEARCH_PX, _SEARCH_AGAIN_PX = 12, 7
"""Reach of the search at the coarsest level, and at the others where the first attempt failed."""

_SMALLEST_N_AGREEING = {
    TransformModel.TRANSLATION: 4,
    TransformModel.SIMILARITY: 6,
    TransformModel.AFFINE: 10,
    TransformModel.HOMOGRAPHY: 16,
}
_SMALLEST_SHARE = 0.3
_FIRST_CORRELATION, _SMALLEST_CORRELATION = 0.5, 0.7
_LARGEST_CORNER_ERROR_PX = 6.0
"""Expected error of a homography at a corner of the frame, in pixels of a level; windows that are badly spread leave more."""

_PERSPECTIVE_GAIN = 20.0
"""What a homography must explain beyond a similarity, by `compare_fits`: without perspective it is below 16 (measured, windows overlap),
and the further parameters would only follow noise."""

_SMALLEST_SUPPORT = 0.55
_SURE_ERROR_PX, _SURE_CORNER_ERROR_PX = 1.0, 4.0
"""Expected errors up to which a link is sure. Of 27 generated pairs that were wrong by more than a pixel, 26 lie beyond, and 2 of 43 that
were right: ``python benchmarks/alignment.py blurred``."""

_USABLE_ERROR_PX, _CLEAR_MOVEMENT = 2.0, 2.0
_LARGEST_TURN = 0.2
_LARGEST_GROWTH = 1.25
_LARGEST_SHIFT = 0.4


class Link(NamedTuple):
    """How one image moved against another, and how far that can be trusted.

    Attributes
    ----------
    matrix : ndarray of float64, shape (3, 3)
        Maps coordinates of the first image to the second.
    model : TransformModel
        What could be estimated; ``NONE`` where nothing could.
    error_px : float
        Expected error of the shift, up to a factor; infinite where nothing could be estimated.
    corner_error_px : float
        The same at the corner of the frame where it is largest.
    movement_px : float
        How far a corner of the frame moves at most.
    support : float
        Share of the information that agrees, 0 to 1.
    """

    matrix: NDArray[np.float64]
    model: TransformModel
    error_px: float = np.inf
    corner_error_px: float = np.inf
    movement_px: float = 0.0
    support: float = 0.0

    @property
    def is_sure(self) -> bool:
        """Whether no warning is due."""
        return self.support >= _SMALLEST_SUPPORT and self.error_px <= _SURE_ERROR_PX and self.corner_error_px <= _SURE_CORNER_ERROR_PX

    @property
    def is_usable(self) -> bool:
        """Whether an image is moved by it: it is sure, or the movement is clearly larger than its expected error."""
        is_clear = self.error_px <= _USABLE_ERROR_PX and self.movement_px >= _CLEAR_MOVEMENT * self.corner_error_px
        # a shift that is not sure may be the growth of what is blurred
        return self.is_sure or (self.model is not TransformModel.TRANSLATION and self.support >= _SMALLEST_SUPPORT and is_clear)


_STILL: dict[str, Any] = {"begin": -1}
_STILL_PX = 1.0
NO_LINK = Link(np.eye(3), TransformModel.NONE)


def link_images(first: Sequence[Level], second: Sequence[Level], model: TransformModel) -> Link:
    """Estimate the movement from one image to another; a homography that explains no more than a similarity is replaced by it.

    Parameters
    ----------
    first, second : sequence of Level
        Coarsest first.
    model : TransformModel
        Not ``NONE``.
    """
    refine = partial(_refine, first, second, _without_perspective(model))
    link = refine()
    shift = None if link.is_sure else _shift_whole(first[0], second[0])
    if shift is not None:
        link = max(link, refine(start=shift), key=_rank)
    return _add_perspective(link, first, second, model)


def look_again(first: Sequence[Level], second: Sequence[Level], model: TransformModel, *, known: Link) -> Link:
    """Estimate a movement of images of which little is sharp in both, from many more windows.

    Tried are, until one is sure: images that did not move at all, the movement known so far, and a search at every level; then the same
    for shifts, since two parameters can be certain where four are not.

    Parameters
    ----------
    first, second : sequence of Level
        Coarsest first; the finest may be finer than before.
    model : TransformModel
        Not ``NONE``.
    known : Link
        What `link_images` found.
    """
    link = NO_LINK
    for simple in (_without_perspective(model), TransformModel.TRANSLATION):
        refine = partial(_refine, first, second, simple, n_finest=_N_WINDOWS_SECOND_LOOK)
        for options in (_STILL, {"start": known.matrix, "begin": -2}, {"is_wide": True}):
            if link.is_sure:
                break
            found = refine(**options)
            # from no movement, little more than a pixel is found to the end
            if options != _STILL or found.movement_px <= _STILL_PX:
                link = max(link, found, key=_rank)
        if link.is_usable:
            break
    return _add_perspective(link, first, second, model)


def _without_perspective(model: TransformModel) -> TransformModel:
    return TransformModel.SIMILARITY if model is TransformModel.HOMOGRAPHY else model


def _add_perspective(link: Link, first: Sequence[Level], second: Sequence[Level], model: TransformModel) -> Link:
    """Return the homography that was asked for where it explains clearly more than a similarity, or where that is not sure."""
    if model is not TransformModel.HOMOGRAPHY:
        return link
    is_rigid = link.is_sure and link.model is TransformModel.SIMILARITY
    has_perspective = _judge_perspective(first[-1], second[-1], link) if is_rigid else True
    if not has_perspective:
        return link if has_perspective is None else link._replace(model=model)
    # the finest levels alone correct what a similarity could not follow
    free = _refine(first, second, model, start=link.matrix, begin=-2) if is_rigid else _refine(first, second, model)
    return free if free.model is model and free.is_sure else max(free, link, key=_rank)


def refine_link(first: Sequence[Level], second: Sequence[Level], model: TransformModel, *, start: NDArray[np.float64]) -> Link:
    """Estimate a movement that is known to within a few pixels from the finest two levels; a homography only if it is known to be one."""
    used = TransformModel.SIMILARITY if model is TransformModel.HOMOGRAPHY and is_affine(start) else model
    link = _refine(first, second, used, start=start, begin=-2)
    return link._replace(model=model) if link.model is used else link


def link_roughly(first: Sequence[Level], second: Sequence[Level]) -> Link:
    """Estimate a similarity from few windows, where a pixel more or less does not matter."""
    return _refine(first, second, TransformModel.SIMILARITY, n_finest=_N_WINDOWS)


def _rank(link: Link) -> tuple[bool, bool, float]:
    """Return what is larger for the better link: what is sharp in both images agrees almost wholly, what only looks alike is disputed."""
    return link.is_sure, link.is_usable, link.support if link.is_usable else -link.error_px


def _shift_whole(first: Level, second: Level) -> NDArray[np.float64] | None:
    """Return the shift of the whole frame by phase correlation where it is beyond the search for windows."""
    window = cv2.createHanningWindow(first.detail.shape[::-1], cv2.CV_32F)
    (right, down), _ = cv2.phaseCorrelate(first.detail, second.detail, window)
    if math.hypot(right, down) <= 2:
        return None
    matrix = np.eye(3)
    matrix[:2, 2] = right, down
    return lift_matrix(matrix, first.factor)


def _refine(
    first: Sequence[Level],
    second: Sequence[Level],
    model: TransformModel,
    *,
    start: NDArray[np.float64] | None = None,
    begin: int = 0,
    is_wide: bool = False,
    n_finest: int = _N_WINDOWS_FINEST,
) -> Link:
    """Follow a start through the levels; a level where too few windows agree changes nothing.

    Parameters
    ----------
    start : ndarray of float64, shape (3, 3), optional
        No movement where it is left out.
    begin : int
        Index of the first level; windows are searched for only at the coarsest of all.
    is_wide : bool
        Search at every level, so that sharp windows can correct blurred ones.
    n_finest : int
        Windows at the finest level.
    """
    link = Link(np.eye(3) if start is None else start, TransformModel.NONE)
    levels = list(zip(first, second, strict=True))
    for level, other in levels[max(begin, -len(levels)) if begin else 0 :]:
        is_coarsest, is_finest = level is first[0], level is first[-1]
        expected = lower_matrix(link.matrix, level.factor)
        n_windows = n_finest if is_finest else _N_WINDOWS
        if is_wide or (is_coarsest and not begin):
            expected = _search(level, other, model, expected=expected, n_windows=n_windows, is_coarsest=is_coarsest)
        center = choose_windows(level, other, matrix=expected, n_windows=n_windows)
        for number in range(_ROUNDS):
            fit, used, matches = _fit_level(level, other, model, center=center, expected=expected, is_first=number == 0)
            if fit is None:
                break
            expected = expected @ fit.matrix
            if not is_plausible(expected, level.detail.shape):
                break
            link = _describe(fit, matches, used, expected, level)
            if measure_movement(fit.matrix, level.detail.shape) < (_CONVERGED_FINEST_PX if is_finest else _CONVERGED_PX):
                break
    return link


def _search(
    level: Level, other: Level, model: TransformModel, *, expected: NDArray[np.float64], n_windows: int, is_coarsest: bool
) -> NDArray[np.float64]:
    """Return a transform corrected by a search over whole pixels, or as it was where too few windows agree."""
    simple = TransformModel.TRANSLATION if model is TransformModel.TRANSLATION else TransformModel.SIMILARITY
    center = choose_windows(level, other, matrix=expected, n_windows=n_windows)
    matches = search_windows(level, other, center, matrix=expected, reach_px=_SEARCH_PX if is_coarsest else _SEARCH_AGAIN_PX)
    if len(matches.shift) < _SMALLEST_N_AGREEING[simple]:
        return expected
    fit = fit_movement(matches, simple, shape=level.detail.shape, tolerance_px=1.0)
    found = expected @ fit.matrix
    is_found = fit.agrees.sum() >= _SMALLEST_N_AGREEING[simple] and is_plausible(found, level.detail.shape)
    return found if is_found else expected


def _fit_level(
    level: Level, other: Level, model: TransformModel, *, center: NDArray[np.float64], expected: NDArray[np.float64], is_first: bool
) -> tuple[Fit | None, TransformModel, Matches]:
    """Return what the windows of one level say, in the model or, where they are too few or badly spread for a homography, a similarity."""
    smallest = _FIRST_CORRELATION if is_first else _SMALLEST_CORRELATION
    matches = match_windows(level, other, center, matrix=expected, smallest_correlation=smallest)
    models = (model, TransformModel.SIMILARITY) if model is TransformModel.HOMOGRAPHY else (model,)
    for used in models:
        if len(matches.shift) < _SMALLEST_N_AGREEING[used]:
            continue
        tolerance_px = TOLERANCE_PX * (2 if is_first else 1)
        fit = fit_movement(matches, used, shape=level.detail.shape, tolerance_px=tolerance_px, is_near=not is_first)
        is_spread = used is not TransformModel.HOMOGRAPHY or fit.corner_error_px <= _LARGEST_CORNER_ERROR_PX * fit.support
        if fit.agrees.sum() >= max(_SMALLEST_N_AGREEING[used], _SMALLEST_SHARE * len(fit.agrees)) and is_spread:
            return fit, used, matches
    return None, model, matches


def _describe(fit: Fit, matches: Matches, model: TransformModel, expected: NDArray[np.float64], level: Level) -> Link:
    factor, shape = level.factor, level.detail.shape
    precision = np.linalg.eigvalsh(matches.information[fit.agrees])[:, 0]
    matrix = lift_matrix(expected, factor)
    matrix /= matrix[2, 2]
    if model is TransformModel.TRANSLATION:
        matrix[:2, :2] = np.eye(2)  # exactly, whatever the arithmetic of levels left
    if model is not TransformModel.HOMOGRAPHY and is_affine(np.round(matrix, 12)):
        matrix[2] = IDENTITY[2]
    # inverse variances of independent windows add up; disagreeing windows make the rest less believable
    error_px = factor / float(np.sqrt(precision.sum())) / fit.support
    movement_px = factor * measure_movement(expected, shape)
    return Link(matrix, model, error_px, factor * fit.corner_error_px / fit.support, movement_px, fit.support)


def _judge_perspective(level: Level, other: Level, link: Link) -> bool | None:
    """Return whether the windows of one level say clearly more than a similarity can; None where they are too few or too badly spread."""
    expected = lower_matrix(link.matrix, level.factor)
    center = choose_windows(level, other, matrix=expected, n_windows=_N_WINDOWS_FINEST)
    fit, used, matches = _fit_level(level, other, TransformModel.HOMOGRAPHY, center=center, expected=expected, is_first=False)
    if fit is None or used is not TransformModel.HOMOGRAPHY:
        return None
    gain = compare_fits(matches, TransformModel.SIMILARITY, TransformModel.HOMOGRAPHY, shape=level.detail.shape)
    return gain >= _PERSPECTIVE_GAIN


def is_plausible(matrix: NDArray[np.float64], shape: tuple[int, ...]) -> bool:
    """Return whether images of one stack can have moved so: neighbors never turn, grow or shift more."""
    corners = frame_corners(shape)
    if (corners @ matrix[2, :2] + matrix[2, 2]).min() <= 0:
        return False  # a part of the frame would lie behind the camera
    linear = linearize(matrix, corners)
    growth = np.linalg.svd(linear, compute_uv=False)
    turn = np.abs(np.arctan2(linear[:, 1, 0] - linear[:, 0, 1], linear[:, 0, 0] + linear[:, 1, 1])).max()
    shift = np.abs((apply_matrix(matrix, corners) - corners).mean(axis=0)).max()
    is_small = turn <= _LARGEST_TURN and shift <= _LARGEST_SHIFT * max(shape[:2])
    return bool(is_small and growth.max() <= _LARGEST_GROWTH and growth.min() >= 1 / _LARGEST_GROWTH)
