"""Matches of windows of one image in another, and how well each of them tells.

A window that is sharp in both images agrees almost perfectly and only at one place; a window that is sharp in one of them only agrees
less, and over many pixels. The second kind is common in a focus stack and often wrong by pixels, because a lens out of focus moves
edges. So each match carries its *information*, the curvature of the correlation peak over what is missing to perfect agreement: an
inverse covariance, up to a factor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qmcif_engine.stack.alignment.opencv import load_opencv
from qmcif_engine.stack.alignment.transforms import apply_matrix, is_affine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray

WINDOW_PX = 64
SEARCH_PX = 6
_STEP_PX = 32
_SMALL_PX = 2**17
"""In images with fewer pixels windows overlap more, so that enough remain to choose from."""

_LARGEST_N_WINDOWS = 2000
_SMALLEST_CONTRAST = 0.004
"""Standard deviation a window needs, as a share of the image's range: one level of 255. Compression leaves less on flat ground."""

_SMALLEST_CORRELATION = 0.8
_PERFECT_GAP = 0.002
"""Added to what is missing to perfect agreement: no window is perfect, and none may decide alone."""


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

    @property
    def precision(self) -> NDArray[np.float64]:
        """How well each window tells along the direction it tells least, shape (n,): the inverse of an error in pixels."""
        return np.asarray(np.sqrt(np.maximum(np.linalg.eigvalsh(self.information)[:, 0], 0)))

    def chosen(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> Matches:
        """Return some of them."""
        return Matches(*(part[which] for part in self))


def match_windows(first: FloatArray, second: FloatArray, *, matrix: NDArray[np.float64]) -> Matches:
    """Find the windows of one image that have texture in another one, near where a transform expects them.

    Parameters
    ----------
    first, second : ndarray of float32, shape (h, w)
        Detail of two images, on a scale where the image's range is 1.
    matrix : ndarray of float64, shape (3, 3)
        Maps coordinates of the first to the second, to within `SEARCH_PX`.
    """
    cv2 = load_opencv()
    height, width = first.shape
    options = {"flags": cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP, "borderMode": cv2.BORDER_REPLICATE}
    if is_affine(matrix):
        moved = cv2.warpAffine(second, matrix[:2], (width, height), **options)
    else:
        moved = cv2.warpPerspective(second, matrix, (width, height), **options)
    found = []
    for top, left in _choose_windows(first, moved, matrix=matrix):
        window = first[top : top + WINDOW_PX, left : left + WINDOW_PX]
        area = moved[top - SEARCH_PX : top + WINDOW_PX + SEARCH_PX, left - SEARCH_PX : left + WINDOW_PX + SEARCH_PX]
        peak = _locate_peak(cv2.matchTemplate(area, window, cv2.TM_CCOEFF_NORMED).astype(np.float64))
        if peak is not None:
            found.append((left + (WINDOW_PX - 1) / 2, top + (WINDOW_PX - 1) / 2, *peak))
    columns = np.array(found, np.float64).reshape(-1, 7)
    return Matches(columns[:, :2], columns[:, 2:4], columns[:, [4, 5, 5, 6]].reshape(-1, 2, 2))


def _choose_windows(first: FloatArray, moved: FloatArray, *, matrix: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return top and left of the windows with the most corners in both images that lie inside both; shape (n, 2)."""
    cv2 = load_opencv()
    height, width = first.shape
    margin = WINDOW_PX + SEARCH_PX
    step = _STEP_PX if height * width > _SMALL_PX else _STEP_PX // 2
    tops, lefts = (np.arange(SEARCH_PX, side - margin + 1, step) for side in (height, width))
    places = np.stack(np.meshgrid(tops, lefts, indexing="ij"), axis=-1).reshape(-1, 2)
    is_inside = np.ones(len(places), bool)
    for down, right in ((-SEARCH_PX, -SEARCH_PX), (-SEARCH_PX, margin), (margin, -SEARCH_PX), (margin, margin)):
        corner = apply_matrix(matrix, (places + np.array([down, right]))[:, ::-1].astype(np.float64))
        is_inside &= ((corner >= 0) & (corner <= (width - 1, height - 1))).all(axis=1)
    places = places[is_inside]
    middle = places + WINDOW_PX // 2
    texture = np.full(len(places), np.inf)
    contrast = np.full(len(places), np.inf)
    for image in (first, moved):
        # large only where texture runs in two directions: along a line nothing tells how far it moved
        corners = cv2.cornerMinEigenVal(image, WINDOW_PX)
        energy = cv2.boxFilter(image * image, -1, (WINDOW_PX, WINDOW_PX))
        texture = np.minimum(texture, corners[middle[:, 0], middle[:, 1]])
        contrast = np.minimum(contrast, np.sqrt(np.maximum(energy[middle[:, 0], middle[:, 1]], 0)))
    is_textured = contrast >= _SMALLEST_CONTRAST
    places, texture = places[is_textured], texture[is_textured]
    return places[np.argsort(-texture, kind="stable")[:_LARGEST_N_WINDOWS]]


def _locate_peak(correlation: NDArray[np.float64]) -> tuple[float, float, float, float, float] | None:
    """Return the place of the peak between pixels, x and y, and its information (xx, xy, yy); None where there is no clear one.

    A parabola through the nine values around the largest; windows whose largest value lies on the rim of the search are not found.
    """
    row, column = (int(index) for index in np.unravel_index(int(correlation.argmax()), correlation.shape))
    last = 2 * SEARCH_PX
    if not (0 < row < last and 0 < column < last) or correlation[row, column] < _SMALLEST_CORRELATION:
        return None
    around = correlation[row - 1 : row + 2, column - 1 : column + 2]
    across, along = (-(line[0] - 2 * line[1] + line[2]) for line in (around[1], around[:, 1]))
    mixed = -(around[2, 2] + around[0, 0] - around[0, 2] - around[2, 0]) / 4
    determinant = across * along - mixed**2
    # no peak but a ridge or a saddle
    if determinant <= 0 or across <= 0:
        return None
    slope_x, slope_y = (around[1, 2] - around[1, 0]) / 2, (around[2, 1] - around[0, 1]) / 2
    right = (along * slope_x - mixed * slope_y) / determinant
    down = (across * slope_y - mixed * slope_x) / determinant
    # the parabola's top lies outside the values it was fitted to
    if max(abs(right), abs(down)) > 1:
        return None
    gap = 1 - correlation[row, column] + _PERFECT_GAP
    return column - SEARCH_PX + right, row - SEARCH_PX + down, across / gap, mixed / gap, along / gap
