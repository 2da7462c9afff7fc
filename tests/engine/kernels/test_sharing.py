"""Shares along the edges of a map and the tables made of them, against the same in plain NumPy."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.kernels.sharing import Entries, Filters, Zones, fill_rows, find_leading, gather_shares, mark_used, mix_samples

NOWHERE = np.empty((0, 0), bool)
LEAST = 1e-4


def guided_plainly(plane, guide, radius, power):
    """He, Sun and Tang 2013, Eqs. 5 to 8."""
    side = 2 * radius + 1

    def mean(values):
        return ndimage.uniform_filter(values, side)

    slope = (mean(plane * guide) - mean(plane) * mean(guide)) / (mean(guide * guide) - mean(guide) ** 2 + power)
    intercept = mean(plane) - slope * mean(guide)
    return mean(slope) * guide + mean(intercept)


def scene(n_images, shape=(70, 90), seed=0):
    generator = np.random.default_rng(seed)
    index = np.kron(generator.integers(0, n_images, (7, 9)), np.ones((10, 10), int)).astype(np.uint16)
    return index[: shape[0], : shape[1]], generator.random(shape)


def as_planes(entries, band, values, n_images):
    planes = np.zeros((n_images, *band.shape))
    pixels = np.repeat(np.arange(len(entries.starts)), np.diff(entries.starts)[:, 0])
    order = np.concatenate([np.arange(*span) for span in entries.starts])
    rows, columns = np.nonzero(band)
    planes[entries.sources[order], rows[pixels], columns[pixels]] = values[order]
    return planes


@pytest.mark.parametrize("n_images", [2, 4])
@pytest.mark.parametrize(("radius", "wide", "at_end", "on_slope"), [(1, 0, 0, 0), (2, 0, 0, 0), (1, 8, 0, 0), (1, 16, 4, 3)])
def test_shares_are_those_of_the_filters_over_the_whole_picture(n_images, radius, wide, at_end, on_slope):
    index, guide = scene(n_images)
    generator = np.random.default_rng(1)
    band = generator.random(index.shape) < 0.5
    spread = (generator.random(index.shape) * (np.arange(90) > 40)).astype(np.float32) if wide else np.zeros(index.shape, np.float32)
    is_end = (generator.random(index.shape) < 0.3) if at_end else NOWHERE
    slope = (generator.random(index.shape) * (np.arange(90) < 70) if on_slope else np.empty((0, 0))).astype(np.float32)

    zones, filters = Zones(spread, is_end, slope), Filters(radius, 0.01, wide, at_end, on_slope)
    entries = Entries(*gather_shares(index, guide, band, zones, filters, LEAST))

    share, broad = [], []
    for source in range(n_images):
        member = (index == source).astype(np.float64)
        narrow = guided_plainly(member, guide, radius, 0.01)
        if at_end:
            narrow = np.where(is_end, ndimage.uniform_filter(ndimage.uniform_filter(member, at_end + 1), at_end + 1), narrow)
        both = narrow
        if wide:
            both = narrow + spread * (ndimage.uniform_filter(ndimage.uniform_filter(member, wide + 1), wide + 1) - narrow)
        if on_slope:
            both = both + slope * (ndimage.uniform_filter(member, 2 * on_slope + 1) - both)
        share.append(narrow)
        broad.append(both)
    for found, wanted in ((entries.shares, share), (entries.broad, broad)):
        clipped = np.clip(wanted, 0, 1)
        expected = np.where(band, clipped / clipped.sum(axis=0), 0)
        np.testing.assert_allclose(as_planes(entries, band, found, n_images), expected, rtol=0, atol=n_images * LEAST)


def entries_of(shares):
    """Entries of a dense table, shape (n_images, n_pixels), whose zeros are left out."""
    starts, sources, values = [], [], []
    for column in shares.T:
        used = np.flatnonzero(column)
        starts.append([len(sources), len(sources) + len(used)])
        sources.extend(used)
        values.extend(column[used])
    return Entries(np.array(starts), np.array(sources, np.uint16), np.array(values), np.array(values))


def some_shares(n_images=5, n_pixels=40):
    generator = np.random.default_rng(3)
    shares = np.where(generator.random((n_images, n_pixels)) < 0.5, generator.integers(1, 4, (n_images, n_pixels)), 0).astype(np.float64)
    shares[:, ~shares.any(axis=0)] = 1
    shares[3] = 0
    shares[0, ~shares.any(axis=0)] = 1
    return shares


def test_tables_have_a_row_an_image_and_a_column_a_pixel_that_is_kept():
    shares = some_shares()
    entries, kept, is_used = entries_of(shares), np.arange(0, 40, 3), np.zeros(5, bool)

    mark_used(entries, kept, is_used)
    numbers, starts = np.cumsum(is_used) - 1, np.empty(np.count_nonzero(is_used) + 1, np.int32)
    data, pixels = fill_rows(entries, kept, numbers, entries.shares, starts)

    np.testing.assert_array_equal(is_used, shares[:, kept].any(axis=1))
    table = np.zeros((len(starts) - 1, len(kept)))
    for row, (start, end) in enumerate(pairwise(starts)):
        assert (np.diff(pixels[start:end]) > 0).all()
        table[row, pixels[start:end]] = data[start:end]
    np.testing.assert_array_equal(table, shares[is_used][:, kept])


def test_the_first_of_the_largest_shares_leads():
    shares = some_shares()
    kept = np.arange(1, 40, 2)

    np.testing.assert_array_equal(find_leading(entries_of(shares), kept), shares[:, kept].argmax(axis=0))


def test_samples_are_mixed_by_their_shares():
    shares, generator = some_shares(), np.random.default_rng(5)
    blocks = generator.uniform(0, 255, (5, 3, 10, 12)).astype(np.float32)
    places, chosen = np.sort(generator.permutation(120)[:40]), generator.integers(0, 5, 40).astype(np.uint16)
    own, mixed = np.zeros((40, 3)), np.zeros((40, 3))

    for source in range(5):
        shared = np.flatnonzero(shares[source]).astype(np.int32)
        mix_samples(blocks[source], places, np.flatnonzero(chosen == source), shared, shares[source, shared], own, mixed)

    samples = blocks.reshape(5, 3, -1)[..., places].astype(np.float64)
    np.testing.assert_allclose(mixed, np.einsum("np,ncp->pc", shares, samples), rtol=1e-12)
    np.testing.assert_array_equal(own, samples[chosen, :, np.arange(40)])
