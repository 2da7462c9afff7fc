"""The movement of one image against another, estimated from coarse to fine."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qmcif_engine.stack.alignment.fitting import compare_fits, fit_movement
from qmcif_engine.stack.alignment.matching import match_windows
from qmcif_engine.stack.alignment.opencv import load_opencv
from qmcif_engine.stack.alignment.transforms import (
    TransformModel,
    apply_matrix,
    frame_corners,
    is_affine,
    lift_matrix,
    linearize,
    lower_matrix,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qmcif_engine.stack.alignment.matching import Matches
    from qmcif_engine.stack.alignment.pyramids import Level

TRUSTED_PX = 1.5
"""Uncertainty up to which windows sharp in both images carry a link; measured errors are several times smaller."""

USABLE_PX = 6.0
"""Uncertainty up to which a shift is better than none; beyond, what agrees is blur."""

_SMALLEST_PRECISION = 0.5
_N_BEST, _PRECISE_SHARE = 20, 0.25
_LARGEST_N_MATCHES = 120
_SMALLEST_N_AGREEING = {
    TransformModel.TRANSLATION: 4,
    TransformModel.SIMILARITY: 6,
    TransformModel.AFFINE: 10,
    TransformModel.HOMOGRAPHY: 16,
}
_LARGEST_CORNER_ERROR_PX = 6.0
"""Expected error of a homography at a corner of the frame, in pixels of a level; windows that are badly spread leave more. Measured
errors are about a tenth."""

_PERSPECTIVE_GAIN = 20.0
"""What a homography must explain beyond a similarity, by `compare_fits`: without perspective it is below 16 (measured, windows overlap),
and the further parameters would only follow noise."""

_SMALLEST_SHARE = 0.3
ROUNDS = 2
"""How often the windows of a level are matched, each time beside where the round before expects them."""

_LARGEST_TURN = 0.2
_LARGEST_GROWTH = 1.25
_LARGEST_SHIFT = 0.4
_ECC_ITERATIONS = 60
_ECC_EPSILON = 1e-6


class Link(NamedTuple):
    """How one image moved against another, and how far that can be trusted.

    Attributes
    ----------
    matrix : ndarray of float64, shape (3, 3)
        Maps coordinates of the first image to the second.
    model : TransformModel
        What could be estimated; ``NONE`` where nothing could.
    uncertainty_px : float
        Expected error, up to a factor; infinite where nothing could be estimated.
    """

    matrix: NDArray[np.float64]
    model: TransformModel
    uncertainty_px: float


def link_images(
    first: Sequence[Level], second: Sequence[Level], model: TransformModel, *, image_shape: tuple[int, ...], rounds: int = ROUNDS
) -> Link:
    """Estimate the movement from one image to another; a homography that explains no more than a similarity is replaced by it.

    Parameters
    ----------
    first, second : sequence of Level
        Coarsest first.
    model : TransformModel
        Not ``NONE``.
    image_shape : tuple of int
        Of the images at full size.
    rounds : int
        1 where a pixel more or less does not matter.
    """
    link = _link_freely(first, second, model, image_shape=image_shape, rounds=rounds)
    if model is not TransformModel.HOMOGRAPHY:
        return link
    rigid = _link_freely(first, second, TransformModel.SIMILARITY, image_shape=image_shape, rounds=rounds)
    if link.model is not TransformModel.HOMOGRAPHY:
        return rigid
    if rigid.uncertainty_px > TRUSTED_PX or _has_perspective(first[-1], second[-1], rigid):
        return link
    return rigid._replace(model=TransformModel.HOMOGRAPHY)


def _has_perspective(level: Level, other: Level, rigid: Link) -> bool:
    """Return whether the windows of one level say clearly more than a similarity can, which they were expected by."""
    matches = _keep_precise(match_windows(level.detail, other.detail, matrix=lower_matrix(rigid.matrix, level.factor)))
    if len(matches.shift) < _SMALLEST_N_AGREEING[TransformModel.HOMOGRAPHY]:
        return False
    gain = compare_fits(matches, TransformModel.SIMILARITY, TransformModel.HOMOGRAPHY, shape=level.detail.shape)
    return gain >= _PERSPECTIVE_GAIN


def _link_freely(
    first: Sequence[Level], second: Sequence[Level], model: TransformModel, *, image_shape: tuple[int, ...], rounds: int
) -> Link:
    refine = partial(_refine, first, second, model, image_shape=image_shape, rounds=rounds)
    link = refine(start=np.eye(3))
    if link.uncertainty_px <= TRUSTED_PX:
        return link
    # only where the search from no movement failed: the whole frame moved farther than windows are looked for
    starts = _register_whole(first[0], second[0])
    others = [refine(start=start) for start in starts]
    return min([link, *others], key=lambda candidate: candidate.uncertainty_px)


def _register_whole(first: Level, second: Level) -> list[NDArray[np.float64]]:
    """Return the translation of the whole frame by the enhanced correlation coefficient, for movements beyond the search for windows."""
    cv2 = load_opencv()
    height, width = first.detail.shape
    window = cv2.createHanningWindow((width, height), cv2.CV_32F)
    # a first guess for the iteration below, which converges only from nearby
    (right, down), _ = cv2.phaseCorrelate(first.detail, second.detail, window)
    matrix = np.array([(1, 0, right), (0, 1, down)], np.float32)
    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, _ECC_ITERATIONS, _ECC_EPSILON)
    try:
        _, matrix = cv2.findTransformECC(first.detail, second.detail, matrix, cv2.MOTION_TRANSLATION, criteria, None, 5)
    except cv2.error:  # how it reports that the iteration left the frame or found no texture
        return []
    return [lift_matrix(np.vstack((matrix.astype(np.float64), (0, 0, 1))), first.factor)]


def _refine(
    first: Sequence[Level],
    second: Sequence[Level],
    model: TransformModel,
    *,
    start: NDArray[np.float64],
    image_shape: tuple[int, ...],
    rounds: int,
) -> Link:
    """Follow a start through the levels; a level where too few windows agree changes nothing.

    Windows that are too few or badly spread for a homography still correct by a similarity what coarser levels found.
    """
    link = Link(start, TransformModel.NONE, np.inf)
    for level, other in zip(first, second, strict=True):
        for _ in range(rounds):
            found = _refine_level(level, other, model, start=link.matrix)
            if found is None and model is TransformModel.HOMOGRAPHY:
                found = _refine_level(level, other, TransformModel.SIMILARITY, start=link.matrix)
            if found is None or not is_plausible(found.matrix, image_shape):
                break
            link = found
    return link


def _refine_level(level: Level, other: Level, model: TransformModel, *, start: NDArray[np.float64]) -> Link | None:
    """Return what the windows of one level say, or None where too few of them agree."""
    expected = lower_matrix(start, level.factor)
    matches = _keep_precise(match_windows(level.detail, other.detail, matrix=expected))
    if len(matches.shift) < _SMALLEST_N_AGREEING[model]:
        return None
    fit = fit_movement(matches, model, shape=level.detail.shape)
    if fit.agrees.sum() < max(_SMALLEST_N_AGREEING[model], _SMALLEST_SHARE * len(fit.agrees)):
        return None
    if model is TransformModel.HOMOGRAPHY and fit.corner_error_px > _LARGEST_CORNER_ERROR_PX * fit.support:
        return None
    # inverse variances of independent windows add up
    certainty = float((matches.precision[fit.agrees] ** 2).sum())
    matrix = lift_matrix(expected @ fit.matrix, level.factor)
    if model is TransformModel.TRANSLATION:
        matrix[:2, :2] = np.eye(2)  # exactly, whatever the arithmetic of levels left
    if not is_affine(matrix):
        matrix /= matrix[2, 2]
        model = TransformModel.HOMOGRAPHY
    # in pixels of the full image; disagreeing windows make the rest less believable
    return Link(matrix, model, level.factor / np.sqrt(certainty) / fit.support)


def _keep_precise(matches: Matches) -> Matches:
    """Return the windows that tell best; the many that tell little would outvote them."""
    precision = matches.precision
    order = np.argsort(-precision, kind="stable")[:_LARGEST_N_MATCHES]
    if len(order) == 0:
        return matches
    # the precision that at least so many windows have
    best = precision[order[min(_N_BEST, len(order)) - 1]]
    return matches.chosen(order[precision[order] >= max(_SMALLEST_PRECISION, _PRECISE_SHARE * best)])


def is_plausible(matrix: NDArray[np.float64], image_shape: tuple[int, ...]) -> bool:
    """Return whether images of one stack can have moved so: neighbors never turn, grow or shift more."""
    corners = frame_corners(image_shape)
    if (corners @ matrix[2, :2] + matrix[2, 2]).min() <= 0:
        return False  # a part of the frame would lie behind the camera
    linear = linearize(matrix, corners)
    growth = np.linalg.svd(linear, compute_uv=False)
    turn = np.abs(np.arctan2(linear[:, 1, 0] - linear[:, 0, 1], linear[:, 0, 0] + linear[:, 1, 1])).max()
    shift = np.abs((apply_matrix(matrix, corners) - corners).mean(axis=0)).max()
    is_small = turn <= _LARGEST_TURN and shift <= _LARGEST_SHIFT * max(image_shape[:2])
    return bool(is_small and growth.max() <= _LARGEST_GROWTH and growth.min() >= 1 / _LARGEST_GROWTH)
