"""Windows with texture in both of two images, and how far each lies beside where a transform expects it.

A window that is sharp in both images agrees almost perfectly and only at one place; a window that is sharp in one of them only agrees
less, and over many pixels. The second kind is common in a focus stack and often wrong by pixels, because a lens out of focus moves
edges. So each match carries its *information*, the curvature of its correlation over what is missing to perfect agreement: an inverse
covariance, up to a factor.
"""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from qmcif_engine.arrays import FloatArray
from qmcif_engine.stack.alignment.transforms import apply_matrix, linearize
from qmcif_engine.stack.previews import choose_reduction, read_preview, to_gray
from qmcif_engine.stack.stack import Stack

FINEST_PX = 3 * 2**19
"""Pixels of the finest level: half the resolution of 5 megapixels leaves errors below 0.1 px (measured)."""

_COARSEST_SIDE_PX = 160
"""The shorter side is halved while it is longer."""

_DETAIL_SIGMA_PX, _GROUND_SIGMA_PX = 1.0, 5.0
"""Band of sizes matched at each level: noise is below it, brightness and large blurs are above."""

_LARGEST_SIDE_PX = 2**15 - 1
"""What OpenCV samples from."""

_RANGE_PERCENTILES = (0.5, 99.5)
_LARGEST_LEVEL = 1e6
"""Extremes beyond the range of an image are cut there: their squares are still numbers."""

_WINDOW_PX, _CELL_PX = 40, 16
"""Side of a window, and of the cells of which 3 x 3 give its texture."""

_MARGIN_PX = _WINDOW_PX / 2 + 3
_N_BUCKETS = 8
_SMALLEST_TEXTURE = 1e-7
_SMALLEST_CONTRAST = 0.004
"""Standard deviation a window needs in both images, as a share of the image's range: one level of 255. On flat ground compression and
the sensor leave a pattern below it, which never moves."""

_SEARCH_CORRELATION = 0.6
_LARGEST_STEP_PX = 4.0
_SMALLEST_PRECISION, _N_BEST, _PRECISE_SHARE = 0.5, 20, 0.25
"""Windows with little information would outvote the others: they are left out below that precision, or share of what the best have."""

_PERFECT_GAP = 0.002
"""Added to what is missing to perfect agreement: no window is perfect, and none may decide alone."""


_FLOOR = np.finfo(np.float32).eps * np.eye(2)


class Level(NamedTuple):
    """The detail of one image at one size.

    Attributes
    ----------
    factor : int
        How many pixels of the image one pixel here stands for, along a side.
    detail : ndarray of float32, shape (h, w)
        On a scale where the image's range is 1.
    texture : ndarray of float32, shape (h // 16, w // 16)
        How much runs in two directions around each cell: along a line nothing shows how far it moved.
    """

    factor: int
    detail: FloatArray
    texture: FloatArray


class Matches(NamedTuple):
    """N windows and where they were found.

    Attributes
    ----------
    position : ndarray of float64, shape (n, 2)
        Centers, x and y.
    shift : ndarray of float64, shape (n, 2)
        How far beside the expected place they were found, in the first image's pixels.
    information : ndarray of float64, shape (n, 2, 2)
    """

    position: NDArray[np.float64]
    shift: NDArray[np.float64]
    information: NDArray[np.float64]

    def chosen(self, which: NDArray[np.bool_]) -> Matches:
        """Return some of them."""
        return Matches(*(part[which] for part in self))


def can_match(image_shape: tuple[int, ...], *, largest_px: int = FINEST_PX) -> bool:
    """Return whether images of this shape, reduced to so many pixels, have room for windows and are not too long."""
    factor = choose_reduction(image_shape, largest_px=largest_px)
    return min(image_shape[:2]) // factor >= 2 * _WINDOW_PX and max(image_shape[:2]) // factor < _LARGEST_SIDE_PX


def read_pyramid(stack: Stack, number: int, *, largest_px: int = FINEST_PX) -> tuple[Level, ...]:
    """Return the levels of one image, the coarsest first; the image is read once, in bands."""
    factor = choose_reduction(stack.image_shape, largest_px=largest_px)
    gray = _normalize_range(to_gray(read_preview(stack, number, factor=factor)))
    levels = []
    while True:
        detail = _extract_detail(gray)
        levels.append(Level(factor, detail, _measure_texture(detail)))
        if min(gray.shape) <= _COARSEST_SIDE_PX:
            return tuple(reversed(levels))
        height, width = gray.shape[0] // 2, gray.shape[1] // 2
        gray = np.asarray(cv2.resize(gray[: 2 * height, : 2 * width], (width, height), interpolation=cv2.INTER_AREA), np.float32)
        factor *= 2


def _normalize_range(gray: FloatArray) -> FloatArray:
    """Return an image on a scale where its range, without its extremes, is 1."""
    low, high = (float(bound) for bound in np.percentile(gray[::4, ::4], _RANGE_PERCENTILES))
    if high - low <= np.finfo(np.float32).eps * max(abs(low), abs(high)):  # nothing but extremes: few bright beads on dark ground
        low, high = float(gray.min()), float(gray.max())
    scaled = (gray - np.float32(low)) / np.float32(high - low if high > low else 1)
    return np.asarray(np.clip(scaled, -_LARGEST_LEVEL, _LARGEST_LEVEL))


def _extract_detail(gray: FloatArray) -> FloatArray:
    """Return a difference of Gaussians: brightness as a whole drops out."""
    height, width = gray.shape
    # the wide one at a quarter of the size, in a third of the time; reducing and enlarging blur by 1.5 px more
    small = cv2.resize(gray, (-(-width // 4), -(-height // 4)), interpolation=cv2.INTER_AREA)
    ground = cv2.resize(cv2.GaussianBlur(small, (0, 0), _GROUND_SIGMA_PX / 4), (width, height), interpolation=cv2.INTER_LINEAR)
    return np.asarray(cv2.GaussianBlur(gray, (0, 0), _DETAIL_SIGMA_PX) - ground)


def _measure_texture(detail: FloatArray) -> FloatArray:
    """Return the smaller eigenvalue of the structure tensor around each cell."""
    height, width = (side // _CELL_PX for side in detail.shape)
    across, along = (cv2.Sobel(detail, cv2.CV_32F, *order, scale=1 / 8) for order in ((1, 0), (0, 1)))
    sums = []
    for product in (across * across, across * along, along * along):
        cells = cv2.resize(product[: height * _CELL_PX, : width * _CELL_PX], (width, height), interpolation=cv2.INTER_AREA)
        sums.append(cv2.boxFilter(cells, -1, (3, 3), borderType=cv2.BORDER_CONSTANT))
    xx, xy, yy = sums
    return np.asarray((xx + yy) / 2 - np.hypot((xx - yy) / 2, xy))


def choose_windows(first: Level, second: Level, *, matrix: NDArray[np.float64], n_windows: int) -> NDArray[np.float64]:
    """Return the centers (n, 2) of windows with texture in both images: half of them the best, half the best of each part of the frame.

    Parameters
    ----------
    first, second : Level
    matrix : ndarray of float64, shape (3, 3)
        Maps coordinates of the first to the second.
    n_windows : int
        About how many.
    """
    height, width = first.detail.shape
    rows, columns = first.texture.shape
    # without the cells on the border, around which 3 x 3 are not all there
    center = np.stack(np.meshgrid(np.arange(1, columns - 1), np.arange(1, rows - 1)), axis=-1).reshape(-1, 2) * float(_CELL_PX)
    center += (_CELL_PX - 1) / 2
    moved = apply_matrix(matrix, center)
    last = (width - 1 - _MARGIN_PX, height - 1 - _MARGIN_PX)
    is_inside = np.logical_and.reduce([(place >= _MARGIN_PX) & (place <= last) for place in (center, moved)]).all(axis=1)
    center, moved = center[is_inside], moved[is_inside]
    cells = [np.clip((place // _CELL_PX).astype(int), 0, (columns - 1, rows - 1)) for place in (center, moved)]
    texture = np.minimum(*(level.texture[cell[:, 1], cell[:, 0]] for level, cell in zip((first, second), cells, strict=True)))
    order = np.argsort(-texture, kind="stable")
    order = order[texture[order] > _SMALLEST_TEXTURE]
    bucket = (center[order] / (width / _N_BUCKETS, height / _N_BUCKETS)).astype(int) @ (1, _N_BUCKETS)
    # rank of each window within its bucket: those of rank 0 come first, then those of rank 1
    by_bucket = np.argsort(bucket, kind="stable")
    starts = np.searchsorted(bucket[by_bucket], bucket[by_bucket])
    rank = np.empty(len(order), int)
    rank[by_bucket] = np.arange(len(order)) - starts
    spread = order[np.argsort(rank, kind="stable")]
    return np.asarray(center[np.union1d(order[: n_windows // 2], spread[: n_windows // 2])])


def search_windows(first: Level, second: Level, center: NDArray[np.float64], *, matrix: NDArray[np.float64], reach_px: int) -> Matches:
    """Find windows by normalized correlation at whole pixels: for movements beyond the reach of `match_windows`.

    Parameters
    ----------
    first, second : Level
    center : ndarray of float64, shape (n, 2)
    matrix : ndarray of float64, shape (3, 3)
    reach_px : int
        How far around the expected place.
    """
    height, width = first.detail.shape
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    moved = cv2.warpPerspective(second.detail, matrix, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    shift, correlation = np.zeros_like(center), np.zeros(len(center))
    for index, (x, y) in enumerate(np.rint(center - (_WINDOW_PX - 1) / 2).astype(int)):
        left, top = max(x - reach_px, 0), max(y - reach_px, 0)
        area = moved[top : y + _WINDOW_PX + reach_px, left : x + _WINDOW_PX + reach_px]
        found = cv2.matchTemplate(area, first.detail[y : y + _WINDOW_PX, x : x + _WINDOW_PX], cv2.TM_CCOEFF_NORMED)
        _, correlation[index], _, (column, row) = cv2.minMaxLoc(found)
        shift[index] = left + column - x, top + row - y
    information = np.eye(2) / (1.02 - correlation)[:, np.newaxis, np.newaxis]
    return Matches(center, shift, information).chosen(correlation > _SEARCH_CORRELATION)


def match_windows(
    first: Level, second: Level, center: NDArray[np.float64], *, matrix: NDArray[np.float64], smallest_correlation: float
) -> Matches:
    """Find windows by one symmetric Gauss-Newton step, all at once, and return the most precise.

    The step follows the mean gradient of both images, so that a window blurred in one of them is not biased.

    Parameters
    ----------
    first, second : Level
    center : ndarray of float64, shape (n, 2)
    matrix : ndarray of float64, shape (3, 3)
        Maps coordinates of the first to the second, to within a few pixels.
    smallest_correlation : float
    """
    if len(center) == 0:
        return Matches(center, center, np.empty((0, 2, 2)))
    (one, contrast), (other, other_contrast) = _cut_windows(first.detail, center), _sample_windows(second.detail, center, matrix)
    correlation = np.einsum("nij,nij->n", one, other).astype(np.float64)
    slopes = [slope.reshape(len(center), -1) for image in (one, other) for slope in _slopes(image)]
    left = (one - other)[:, 1:-1, 1:-1].reshape(len(center), -1)
    products = np.matmul(np.stack(slopes, axis=1), np.stack((*slopes, left), axis=1).swapaxes(1, 2)).astype(np.float64)
    mean = products[:, :2] + products[:, 2:]
    # slopes of both images together are twice their mean
    shift = np.linalg.solve((mean[..., :2] + mean[..., 2:4]) / 4 + _FLOOR, mean[..., 4:] / 2)[..., 0]
    # of the correlation: the product of both images' slopes, in which noise and what is blurred in one of them count little
    curvature = (products[:, :2, 2:4] + products[:, 2:, :2]) / 2
    information = curvature * (2 / (1 - correlation + _PERFECT_GAP))[:, np.newaxis, np.newaxis]
    precision = np.sqrt(np.maximum(np.linalg.eigvalsh(information)[:, 0], 0))
    is_good = (correlation > smallest_correlation) & (np.abs(shift).max(axis=1) < _LARGEST_STEP_PX)
    is_good &= np.minimum(contrast, other_contrast) >= _SMALLEST_CONTRAST
    if is_good.any():
        # the precision that at least so many windows have
        best = np.sort(precision[is_good])[-_N_BEST:][0]
        is_good &= precision >= max(_SMALLEST_PRECISION, _PRECISE_SHARE * best)
    return Matches(center, shift, information).chosen(is_good)


def _slopes(windows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the derivatives of windows (n, h, w) along x and y, without their borders."""
    return (windows[:, 1:-1, 2:] - windows[:, 1:-1, :-2]) / 2, (windows[:, 2:, 1:-1] - windows[:, :-2, 1:-1]) / 2


def _cut_windows(detail: FloatArray, center: NDArray[np.float64]) -> tuple[FloatArray, FloatArray]:
    corner = np.rint(center - (_WINDOW_PX - 1) / 2).astype(int)
    windows = np.lib.stride_tricks.sliding_window_view(detail, (_WINDOW_PX, _WINDOW_PX))
    return _normalize(windows[corner[:, 1], corner[:, 0]])


def _sample_windows(detail: FloatArray, center: NDArray[np.float64], matrix: NDArray[np.float64]) -> tuple[FloatArray, FloatArray]:
    """Return the windows where a transform expects them, sampled along its derivative at each center."""
    offset = np.arange(_WINDOW_PX, dtype=np.float32) - np.float32((_WINDOW_PX - 1) / 2)
    moved, linear = (part.astype(np.float32) for part in (apply_matrix(matrix, center), linearize(matrix, center)))
    right, down = (
        ((linear[:, axis, :1] * offset)[:, np.newaxis] + (linear[:, axis, 1:] * offset)[..., np.newaxis]).reshape(len(center), -1)
        + moved[:, axis, np.newaxis]
        for axis in (0, 1)
    )
    return _normalize(np.asarray(cv2.remap(detail, right, down, cv2.INTER_CUBIC), np.float32).reshape(-1, _WINDOW_PX, _WINDOW_PX))


def _normalize(windows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return windows (n, h, w) around their mean, each of norm 1, and their standard deviations."""
    centered = windows - windows.mean(axis=(1, 2), keepdims=True)
    norm = np.sqrt(np.einsum("nij,nij->n", centered, centered))
    return centered / np.maximum(norm, np.float32(1e-9))[:, np.newaxis, np.newaxis], norm / _WINDOW_PX
