"""The patch grid: images cut into patches and back, and sums and votes over dense windows.

Base patches do not overlap and cover the image, so that every pixel lies in exactly one of them: cutting is a permutation, its
inverse is exact, and the constant 2 of the base update is too. Detail patches lie on the dense grid, one centered on each pixel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from qmcif_engine.config.stage import Reach, Stage, bytes_per_pixel
from qmcif_engine.kernels.cutting import cut_plane, find_boxes, values_of
from qmcif_engine.kernels.regions import take_nearest
from qmcif_engine.kernels.windows import box_mean, majority, mark_edges
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray
    from qmcif_engine.config.fusion_config import FocusConfig

_Sample = TypeVar("_Sample", bound=np.generic)

PIXEL_SHARE = 5e-5
"""Published side of a detail patch, as a share of the number of pixels (section IV-A)."""

CELL_PX = 128
"""Side of the squares in which expensive stages look for the pixels that want them: an edge leaves many empty, a margin weighs little."""

FARTHEST_PX = 32_000
"""How far a nearest pixel may be looked for: rows are counted in 16 bits."""


def padding_to_grid(shape: tuple[int, int], *, patch_px: int) -> tuple[int, int]:
    """Return how many rows and columns must be added so that whole patches cover the image."""
    return -shape[0] % patch_px, -shape[1] % patch_px


def pad_to_grid(planes: FloatArray, *, patch_px: int) -> FloatArray:
    """Extend ``(..., h, w)`` at its lower and right side by reflection until whole patches cover it.

    Reflection repeats the border pixel, as the solver's boundary condition does; it works for images smaller than a patch.
    """
    rows, columns = padding_to_grid(planes.shape[-2:], patch_px=patch_px)
    widths = [(0, 0)] * (planes.ndim - 2) + [(0, rows), (0, columns)]
    return np.pad(planes, widths, mode="symmetric")


def cut_patches(planes: FloatArray, *, patch_px: int) -> FloatArray:
    """Stack the patches of an image as the columns of a matrix.

    Parameters
    ----------
    planes : ndarray of float, shape (c, h, w)
        Both sides multiples of `patch_px`.
    patch_px : int

    Returns
    -------
    ndarray of float, shape (c * d, P)
        ``d = patch_px**2`` rows per component, ``P`` patches in row-major order.

    Notes
    -----
    The operator ``R`` of [QMCIF, Eq. (3)].
    """
    c, h, w = planes.shape
    grid = planes.reshape(c, h // patch_px, patch_px, w // patch_px, patch_px)
    # (component, row in patch, column in patch, row of patches, column of patches)
    return grid.transpose(0, 2, 4, 1, 3).reshape(c * patch_px**2, -1)


def join_patches(columns: FloatArray, *, shape: tuple[int, int], patch_px: int) -> FloatArray:
    """Put the columns of `cut_patches` back: shape (c * d, P) to (c, h, w); ``R^-1`` of [QMCIF, Eq. (9)]."""
    rows_of_patches, columns_of_patches = shape[0] // patch_px, shape[1] // patch_px
    grid = columns.reshape(-1, patch_px, patch_px, rows_of_patches, columns_of_patches)
    return grid.transpose(0, 3, 1, 4, 2).reshape(-1, *shape)


def sum_patches(plane: FloatArray, *, patch_px: int) -> FloatArray:
    """Sum ``(h, w)`` over each base patch, in float64, giving (h / patch_px, w / patch_px)."""
    h, w = plane.shape
    grid = plane.reshape(h // patch_px, patch_px, w // patch_px, patch_px)
    total: FloatArray = grid.sum(axis=(1, 3), dtype=np.float64)
    return total


def spread_patches(values: NDArray[_Sample], *, patch_px: int) -> NDArray[_Sample]:
    """Give every pixel of a base patch the value of its patch."""
    return np.repeat(np.repeat(values, patch_px, axis=0), patch_px, axis=1)


def window_mean(planes: FloatArray, *, side_px: int, scale: float = 1.0) -> FloatArray:
    """Average ``(..., h, w)`` over the window centered on each pixel, times `scale`; the image continues by reflection."""
    # compiled code is specialized for contiguous rows
    contiguous = np.ascontiguousarray(planes)
    averaged = np.empty_like(contiguous)
    for plane, result in zip(_as_planes(contiguous), _as_planes(averaged), strict=True):
        box_mean(plane, side_px, float(scale), result)
    return averaged


def _as_planes(stack: FloatArray) -> FloatArray:
    return stack.reshape(-1, *stack.shape[-2:])


def detail_patch_side(shape: tuple[int, int], config: FocusConfig) -> int:
    """Return the odd side, in pixels, of a detail patch for an image of this shape.

    Notes
    -----
    ``5e-5 M N`` [QMCIF, section IV-A].

    Departs: kept within two limits, because the rule gives 3 px for a small image and 1200 px for 24 megapixels; made odd, so that a
    patch has a central pixel; and no larger than the image.
    """
    wanted = config.detail_patch_px or min(
        max(round(PIXEL_SHARE * shape[0] * shape[1]), config.smallest_detail_patch_px), config.largest_detail_patch_px
    )
    fitting = min(wanted, *shape)
    # one less where even
    return fitting - (fitting + 1) % 2


def vote(choices: IndexArray, *, n_choices: int, side_px: int) -> IndexArray:
    """Count the votes of all dense patches that contain a pixel; the largest count wins, the later choice where counts are equal.

    Parameters
    ----------
    choices : ndarray of uint16, shape (h, w)
        What the patch centered on each pixel chose.
    n_choices : int
    side_px : int

    Returns
    -------
    ndarray of uint16, shape (h, w)

    Notes
    -----
    Aggregates patch decisions to global maps [QMCIF, Eqs. (17) and (22)].

    Departs: the paper does not say whether patches overlap; dense patches with a majority vote are clearly better.
    """
    winner = np.empty_like(choices)
    majority(np.ascontiguousarray(choices), side_px, n_choices, winner)
    return winner


class Ranking(NamedTuple):
    """How the levels of N images compare at each pixel.

    Attributes
    ----------
    winner : ndarray of uint16, shape (h, w)
        Which level is the largest; the last of them where several are equal.
    best, second, least : ndarray of float, shape (h, w)
        The largest, the second largest and the smallest level.
    """

    winner: IndexArray
    best: FloatArray
    second: FloatArray
    least: FloatArray


def rank(levels: Iterable[FloatArray]) -> Ranking:
    """Compare the levels of two or more images pixel by pixel, by a fold that holds no more than one of them at a time.

    Notes
    -----
    The comparisons of [QMCIF, Eq. (16)] and [QMCIF, Eq. (17)]. Ties go to the later image, the paper's rule ("<=") carried over to N
    images.
    """
    iterator = iter(levels)
    best = np.array(next(iterator), copy=True)
    # of a single image nothing is second
    second, least = np.full_like(best, -np.inf), best.copy()
    winner = np.zeros(best.shape, np.uint16)
    for number, level in enumerate(iterator, start=1):
        # "<=" of the paper: the later of two equal levels wins
        is_better = level >= best
        winner[is_better] = number
        # the loser of this comparison: either the former best or the newcomer
        np.maximum(second, np.where(is_better, best, level), out=second)
        np.maximum(best, level, out=best)
        np.minimum(least, level, out=least)
    return Ranking(winner, best, second, least)


def edge_band(index: IndexArray, *, reach_px: int) -> BoolArray:
    """Return which pixels have another index within a square of this reach around them."""
    band = np.empty(index.shape, bool)
    mark_edges(np.ascontiguousarray(index), reach_px, band)
    return band


def cells_of(is_wanted: BoolArray, *, cell_px: int = CELL_PX) -> Iterator[Window]:
    """Yield disjoint rectangles, none larger than a cell, that hold all wanted pixels: their boxes in the cells of a fixed grid.

    For what is expensive and wanted along edges only.
    """
    for top, left, bottom, right in find_boxes(np.ascontiguousarray(is_wanted), cell_px).tolist():
        yield Window(top, left, bottom, right)


def cut_reflected(planes: NDArray[_Sample], window: Window, *, margin_px: int) -> NDArray[_Sample]:
    """Cut a window with a margin out of ``(..., h, w)`` planes, contiguous; outside the image it continues by reflection."""
    height, width = planes.shape[-2:]
    grown = window.grown(margin_px, (height, width))
    cut = planes[..., *grown.slices]
    before = (grown.top - window.top + margin_px, grown.left - window.left + margin_px)
    after = (window.bottom + margin_px - grown.bottom, window.right + margin_px - grown.right)
    # inside the image, the common case: no padding, one copy at most
    if not any(before + after):
        return np.ascontiguousarray(cut)
    widths = [(0, 0)] * (planes.ndim - 2) + list(zip(before, after, strict=True))
    return np.ascontiguousarray(np.pad(cut, widths, mode="symmetric"))


def cut_map(index: IndexArray, window: Window, *, margin_px: int) -> tuple[IndexArray, list[int]]:
    """Cut a window with a margin out of a contiguous map, as `cut_reflected` does, and return its values too, in ascending order."""
    cut = np.empty((window.shape[0] + 2 * margin_px, window.shape[1] + 2 * margin_px), np.uint16)
    cut_plane(index, window.top - margin_px, window.left - margin_px, cut)
    return cut, values_of(cut).tolist()


def nearest_values(index: IndexArray, is_marked: BoolArray, is_asking: BoolArray, *, reach_px: int) -> IndexArray:
    """Return a map in which the asking pixels have the value of the nearest marked pixel; without one in reach they keep their own.

    Of several that are equally near, the one in the nearest column counts, then the left one, then the upper one: which it is depends on
    nothing farther away.
    """
    # no two pixels of a map are farther apart
    reach = min(reach_px, sum(index.shape), FARTHEST_PX)
    result = np.array(index, copy=True, order="C")
    take_nearest(np.ascontiguousarray(index), is_marked, is_asking, reach, result)
    return result


RANKING = Stage(
    name="method.patches.rank",
    kept_bytes=bytes_per_pixel(44),  # two rankings, of levels and of evidence, and the maps made of them
    working_bytes=bytes_per_pixel(32),
)
VOTES = Stage(
    name="method.patches.vote",
    reaches=(Reach(lambda _config, side: side // 2, "(s − 1) / 2", adds_up=True),),
    overlap_px=lambda _config, side: side // 2,
)
