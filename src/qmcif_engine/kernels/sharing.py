"""Shares of images in the pixels along the edges of a decision map (`qmcif_engine.cleanup.blending`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qmcif_engine.kernels.boxes import sum_boxes
from qmcif_engine.kernels.compilation import compiled
from qmcif_engine.kernels.cutting import cut_plane, find_boxes, values_of
from qmcif_engine.kernels.flat import copy, fill

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray

CELL_PX = 48
"""Side of the squares that are filtered at once: an edge leaves most of them empty."""


class Filters(NamedTuple):
    """How far the filters look, in pixels, 0 where one is not used, and the square of the contrast that the narrow one keeps."""

    radius: int
    power: float
    wide: int
    at_end: int
    on_slope: int


class Zones(NamedTuple):
    """Where the filters count, shape (h, w), or of no size where one is not used."""

    spread: FloatArray
    is_end: BoolArray
    slope: FloatArray


class Entries(NamedTuple):
    """Shares of images in the pixels of a band, those of one pixel side by side.

    Attributes
    ----------
    starts : ndarray of int, shape (n_pixels, 2)
        Where those of each pixel of the band begin and end.
    sources : ndarray of uint16, shape (n,)
        In ascending order for each pixel.
    shares, broad : ndarray of float, shape (n,)
        In the image, and in its brightness.
    """

    starts: NDArray[np.int64]
    sources: IndexArray
    shares: FloatArray
    broad: FloatArray


@compiled
def _multiply(first: FloatArray, second: FloatArray, out: FloatArray) -> None:
    for y in range(out.shape[0]):
        left, right, row = first[y], second[y], out[y]
        for x in range(row.size):
            row[x] = left[x] * right[x]


@compiled
def _mark(near: IndexArray, source: int, margin: int, out: FloatArray) -> None:
    """Put 1 where a map has a value and 0 elsewhere into `out`, which is `margin` smaller on every side."""
    for y in range(out.shape[0]):
        values, row = near[y + margin, margin:], out[y]
        for x in range(row.size):
            row[x] = values[x] == source


@compiled
def _fit_lines(means: FloatArray, mean: FloatArray, products: FloatArray, spreads: FloatArray, scale: float, lines: FloatArray) -> None:
    """Put slope and intercept of the line from guide to membership into `lines`; all others are sums over windows, `spreads` is inverse."""
    for y in range(mean.shape[0]):
        guide, own, product, spread, slopes, intercepts = means[y], mean[y], products[y], spreads[y], lines[0, y], lines[1, y]
        for x in range(guide.size):
            # covariance over variance: the line of least squares, its slope damped by `power`
            slope = (product[x] * scale - own[x] * scale * guide[x]) * spread[x]
            slopes[x] = slope
            intercepts[x] = own[x] * scale - slope * guide[x]


@compiled
def _follow_guide(near: IndexArray, guide: FloatArray, sources: IndexArray, radius: int, power: float, shares: FloatArray) -> None:
    """Put the guided filter of each image's membership into `shares`; of the last image, what the others leave.

    `near` and `guide` have ``2 radius`` more on every side.
    """
    side = 2 * radius + 1
    # windows are summed and divided last, so that sums of memberships stay exact
    scale = 1.0 / (side * side)
    height, width = near.shape
    fitted = (height - 2 * radius, width - 2 * radius)
    product, member = np.empty(near.shape), np.empty(near.shape)
    means, spreads, mean, products = np.empty(fitted), np.empty(fitted), np.empty(fitted), np.empty(fitted)
    lines, averaged = np.empty((2, *fitted)), np.empty((2, height - 4 * radius, width - 4 * radius))
    _multiply(guide, guide, product)
    sum_boxes(guide, side, means)
    sum_boxes(product, side, spreads)
    for y in range(fitted[0]):
        for x in range(fitted[1]):
            means[y, x] *= scale
            # inverted once, for all images
            spreads[y, x] = 1.0 / (max(spreads[y, x] * scale - means[y, x] * means[y, x], 0.0) + power)
    # shares of all images add up to one, so the last filter is spared
    last = shares[len(sources) - 1]
    for y in range(last.shape[0]):
        fill(last[y], 1.0)
    for number in range(len(sources) - 1):
        _mark(near, sources[number], 0, member)
        _multiply(member, guide, product)
        sum_boxes(member, side, mean)
        sum_boxes(product, side, products)
        _fit_lines(means, mean, products, spreads, scale, lines)
        sum_boxes(lines[0], side, averaged[0])
        sum_boxes(lines[1], side, averaged[1])
        for y in range(last.shape[0]):
            for x in range(last.shape[1]):
                share = (averaged[0, y, x] * guide[y + 2 * radius, x + 2 * radius] + averaged[1, y, x]) * scale
                shares[number, y, x] = share
                last[y, x] -= share


@compiled
def _sum_twice(near: IndexArray, source: int, reach: int, margin: int) -> FloatArray:
    """Return sums of where an image is chosen by two windows in a row that together reach so far; exact up to a reach of 63."""
    height, width = near.shape[0] - 2 * margin, near.shape[1] - 2 * margin
    member = np.empty((height + 2 * reach, width + 2 * reach), np.float32)
    _mark(near, source, margin - reach, member)
    once, twice = np.empty((height + reach, width + reach), np.float32), np.empty((height, width), np.float32)
    sum_boxes(member, reach + 1, once)
    sum_boxes(once, reach + 1, twice)
    return twice


@compiled
def _sum_once(near: IndexArray, source: int, reach: int, margin: int) -> FloatArray:
    """Return the sums over one window of this reach of where an image is chosen."""
    height, width = near.shape[0] - 2 * margin, near.shape[1] - 2 * margin
    member = np.empty((height + 2 * reach, width + 2 * reach), np.float32)
    _mark(near, source, margin - reach, member)
    sums = np.empty((height, width), np.float32)
    sum_boxes(member, 2 * reach + 1, sums)
    return sums


@compiled
def _take_where(is_wanted: BoolArray, corner: NDArray[np.int64], sums: FloatArray, n_pixels: float, out: FloatArray) -> None:
    """Replace what is in `out` by the mean over windows of so many pixels, where a map, from a corner on, wants it."""
    for y in range(out.shape[0]):
        marks, values, row = is_wanted[corner[0] + y, corner[1] :], sums[y], out[y]
        for x in range(row.size):
            row[x] = values[x] / n_pixels if marks[x] else row[x]


@compiled
def _move_toward(zone: FloatArray, corner: NDArray[np.int64], sums: FloatArray, n_pixels: float, out: FloatArray) -> None:
    """Take what is in `out` so far toward the mean over windows of so many pixels as a map, from a corner on, says."""
    for y in range(out.shape[0]):
        amounts, values, row = zone[corner[0] + y, corner[1] :], sums[y], out[y]
        for x in range(row.size):
            row[x] += amounts[x] * (values[x] / n_pixels - row[x])


@compiled
def _widen(
    near: IndexArray,
    source: int,
    margin: int,
    zones: Zones,
    corner: NDArray[np.int64],
    filters: Filters,
    share: FloatArray,
    broad: FloatArray,
) -> None:
    """Put the share in the brightness into `broad`, and change the one in the image at the end of a frame."""
    # first, since the wide shares start from these
    if filters.at_end:
        sums = _sum_twice(near, source, filters.at_end, margin)
        _take_where(zones.is_end, corner, sums, np.float64(filters.at_end + 1) ** 4, share)
    for y in range(share.shape[0]):
        copy(share[y], broad[y])
    if filters.wide:
        sums = _sum_twice(near, source, filters.wide, margin)
        _move_toward(zones.spread, corner, sums, np.float64(filters.wide + 1) ** 4, broad)
    if filters.on_slope:
        sums = _sum_once(near, source, filters.on_slope, margin)
        # on a slope in place of what the others gave
        _move_toward(zones.slope, corner, sums, np.float64(2 * filters.on_slope + 1) ** 2, broad)


@compiled
def _is_any(values: NDArray[Any], box: NDArray[np.int64]) -> bool:
    """Return whether anything in a box is not zero."""
    for y in range(box[0], box[2]):
        row = values[y]
        for x in range(box[1], box[3]):
            if row[x] != 0:
                return True
    return False


@compiled
def _filters_of(zones: Zones, box: NDArray[np.int64], filters: Filters) -> Filters:
    """Return the filters that count in a box."""
    wide = filters.wide if filters.wide and _is_any(zones.spread, box) else 0
    at_end = filters.at_end if filters.at_end and _is_any(zones.is_end, box) else 0
    on_slope = filters.on_slope if filters.on_slope and _is_any(zones.slope, box) else 0
    return Filters(filters.radius, filters.power, wide, at_end, on_slope)


@compiled
def _share_box(
    index: IndexArray, guide: FloatArray, box: NDArray[np.int64], zones: Zones, filters: Filters
) -> tuple[IndexArray, FloatArray, FloatArray]:
    """Return the images near a box, and their shares in the image and in its brightness."""
    top, left, bottom, right = box[0], box[1], box[2], box[3]
    height, width = bottom - top, right - left
    # a box without such zones needs the narrow filter only, and a smaller margin
    filters = _filters_of(zones, box, filters)
    narrow = 2 * filters.radius
    margin = max(narrow, filters.wide, filters.at_end, filters.on_slope)
    near = np.empty((height + 2 * margin, width + 2 * margin), np.uint16)
    cut_plane(index, top - margin, left - margin, near)
    sources = values_of(near)
    near_guide, narrow_map = (
        np.empty((height + 2 * narrow, width + 2 * narrow)),
        np.empty((height + 2 * narrow, width + 2 * narrow), np.uint16),
    )
    cut_plane(guide, top - narrow, left - narrow, near_guide)
    cut_plane(index, top - narrow, left - narrow, narrow_map)
    shares = np.empty((len(sources), height, width))
    _follow_guide(narrow_map, near_guide, sources, filters.radius, filters.power, shares)
    # nothing wide: one array stands for both
    if margin == narrow:
        return sources, shares, shares
    broad = np.empty(shares.shape)
    for number in range(len(sources)):
        _widen(near, sources[number], margin, zones, box[:2], filters, shares[number], broad[number])
    return sources, shares, broad


@compiled
def _count(marks: BoolArray) -> int:
    n_marked = 0
    for x in range(marks.size):
        n_marked += marks[x]
    return n_marked


@compiled
def _kept(share: float, least: float) -> float:
    share = min(max(share, 0.0), 1.0)
    return share if share >= least else 0.0


@compiled
def gather_shares(
    index: IndexArray, guide: FloatArray, band: BoolArray, zones: Zones, filters: Filters, least: float
) -> tuple[NDArray[np.int64], IndexArray, FloatArray, FloatArray]:
    """Return the shares of all images in the pixels of a band: the fields of `Entries`.

    Shares below `least` are none, and those that are left add up to one.
    """
    height = band.shape[0]
    before = np.zeros(height + 1, np.int64)  # pixels of the band in the rows before
    for y in range(height):
        before[y + 1] = before[y] + _count(band[y])
    starts = np.empty((before[height], 2), np.int64)
    # two images per pixel to begin with; more room is made where it runs out
    n_entries, size = 0, 2 * before[height] + 2
    owners, found = np.empty(size, np.uint16), np.empty((2, size))
    for box in find_boxes(band, CELL_PX):
        top, left, bottom, right = box[0], box[1], box[2], box[3]
        sources, shares, broad = _share_box(index, guide, box, zones, filters)
        # at most: every image near has a share in every pixel of the box
        needed = n_entries + len(sources) * (bottom - top) * (right - left)
        if needed > owners.size:
            more = 2 * needed
            longer, wider = np.empty(more, np.uint16), np.empty((2, more))
            copy(owners, longer[:n_entries])
            for kind in range(2):
                copy(found[kind], wider[kind, :n_entries])
            owners, found = longer, wider
        for y in range(top, bottom):
            # entries come box by box, but `starts` numbers pixels row by row
            pixel = before[y] + _count(band[y, :left])
            for x in range(left, right):
                if not band[y, x]:
                    continue
                first, total, broad_total = n_entries, 0.0, 0.0
                for number in range(len(sources)):
                    share, wide = _kept(shares[number, y - top, x - left], least), _kept(broad[number, y - top, x - left], least)
                    if share or wide:
                        owners[n_entries], found[0, n_entries], found[1, n_entries] = sources[number], share, wide
                        total, broad_total, n_entries = total + share, broad_total + wide, n_entries + 1
                for entry in range(first, n_entries):
                    found[0, entry] /= total
                    found[1, entry] /= broad_total
                starts[pixel, 0], starts[pixel, 1] = first, n_entries
                pixel += 1
    return starts, owners[:n_entries].copy(), found[0, :n_entries].copy(), found[1, :n_entries].copy()


@compiled
def mix_samples(
    block: FloatArray,
    places: NDArray[np.int64],
    whole: NDArray[np.int64],
    shared: NDArray[np.int32],
    shares: FloatArray,
    own: FloatArray,
    mixed: FloatArray,
) -> None:
    """Add one image's samples to those of the pixels of a band: to `mixed` by its shares, to `own` where it is chosen.

    `places` are the positions of the pixels in a plane; `whole` and `shared` name the pixels that the image is chosen for and has a share
    in. `own` and `mixed` have shape (n_pixels, 3).
    """
    planes = block.reshape(3, -1)
    for pixel in whole:
        for c in range(3):
            own[pixel, c] = planes[c, places[pixel]]
    for entry in range(shared.size):
        for c in range(3):
            mixed[shared[entry], c] += shares[entry] * planes[c, places[shared[entry]]]


@compiled
def find_leading(entries: Entries, kept: NDArray[np.intp]) -> IndexArray:
    """Return the image with the largest share of each pixel that is kept, the first of them where shares are equal."""
    leading = np.empty(kept.size, np.uint16)
    for column in range(kept.size):
        first, end = entries.starts[kept[column]]
        best = first
        for entry in range(first + 1, end):
            if entries.shares[entry] > entries.shares[best]:
                best = entry
        leading[column] = entries.sources[best]
    return leading


@compiled
def mark_used(entries: Entries, kept: NDArray[np.intp], is_used: BoolArray) -> None:
    """Mark the images that have a share in a pixel that is kept."""
    for pixel in kept:
        for entry in range(entries.starts[pixel, 0], entries.starts[pixel, 1]):
            is_used[entries.sources[entry]] = True


@compiled
def fill_rows(
    entries: Entries, kept: NDArray[np.int64], numbers: NDArray[np.int64], values: FloatArray, starts: NDArray[np.int32]
) -> tuple[FloatArray, NDArray[np.int32]]:
    """Return the values and pixels of a table of compressed sparse rows, one row per image; zeros are left out.

    Parameters
    ----------
    entries : Entries
    kept : ndarray of int
        The pixels that become its columns.
    numbers : ndarray of int
        The row of each image.
    values : ndarray of float
        What to enter for each of the entries.
    starts : ndarray of int, shape (number of rows + 1,)
        Where the rows begin: to be filled in.
    """
    starts[:] = 0
    for pixel in kept:
        for entry in range(entries.starts[pixel, 0], entries.starts[pixel, 1]):
            if values[entry] != 0:
                starts[numbers[entries.sources[entry]] + 1] += 1
    for row in range(starts.size - 1):
        starts[row + 1] += starts[row]
    # where the next entry of each row goes
    ends = starts.copy()
    data, pixels = np.empty(starts[-1], values.dtype), np.empty(starts[-1], np.int32)
    for column in range(kept.size):
        for entry in range(entries.starts[kept[column], 0], entries.starts[kept[column], 1]):
            if values[entry] != 0:
                row = numbers[entries.sources[entry]]
                data[ends[row]], pixels[ends[row]] = values[entry], column
                ends[row] += 1
    return data, pixels
