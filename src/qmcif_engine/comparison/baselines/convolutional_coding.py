"""CSR: the detail layer as a sum of filters convolved with sparse maps, whose activity decides; channel by channel.

Yu Liu, Xun Chen, Rabab K. Ward and Z. Jane Wang, *Image fusion with convolutional sparse representation*, IEEE Signal Processing Letters
23 (2016) 1882–1886. The sparse maps are found by the alternating direction method of Brendt Wohlberg, *Efficient algorithms for
convolutional sparse representations*, IEEE Transactions on Image Processing 25 (2016) 301–315.

The paper's 32 filters were learned from images that are not given; here they are the cosines of lowest frequency. The library that
its authors used, SPORCO, has its own filters; it asks for a compiled Fourier library and a plotting library, for one loop of this module.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import scipy.fft
from scipy import ndimage

from qmcif_engine.arrays import ComplexArray, FloatArray
from qmcif_engine.comparison.baselines import Baseline

FILTER_PX = 8
N_FILTERS = 32
SPARSITY = 0.01
"""Weight of the sum of moduli, for samples from 0 to 1."""

BASE_SMOOTHNESS = 5.0
"""Weight of the squared gradients of the base layer."""

ACTIVITY_RADIUS_PX = 9
MARGIN_PX = 16
"""The transform takes images for periodic; this much reflection keeps opposite borders apart."""

PENALTY = 4.0
"""Of the constraint: the one that leaves least after so few iterations. The program of the paper's authors has 1.5 and runs on."""

RELAXATION = 1.8  # over-relaxation of ADMM, between 1 (none) and 2
MOST_ITERATIONS = 15
TOLERANCE = 1e-2
"""Relative residual at which the maps are good enough to decide and to draw."""


@cache
def cosine_filters() -> FloatArray:
    """Return the filters, shape (32, 8, 8), of unit norm: products of cosines, ordered by their frequency, without the constant."""
    waves = scipy.fft.idct(np.eye(FILTER_PX), axis=0, norm="ortho")
    rows, columns = np.divmod(np.arange(FILTER_PX**2), FILTER_PX)
    # by frequency, then by row, so that the order is the same on every machine; 0, the constant, is left to the base layer
    order = np.lexsort((rows, rows**2 + columns**2))[1 : N_FILTERS + 1]
    filters: FloatArray = np.stack([np.outer(waves[:, rows[number]], waves[:, columns[number]]) for number in order]).astype(np.float32)
    filters.flags.writeable = False
    return filters


def split_layers(plane: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the base layer of least squared gradients near the image, and the rest, each of shape (h, w)."""
    # eigenvalues of the squared gradients under the cosine transform, which reflects the image at its border
    rows, columns = (2 - 2 * np.cos(np.pi * np.arange(length) / length) for length in plane.shape)
    spectrum = scipy.fft.dctn(plane, norm="ortho") / (1 + BASE_SMOOTHNESS * (rows[:, None] + columns[None, :]))
    base: FloatArray = scipy.fft.idctn(spectrum, norm="ortho")
    return base, plane - base


def code(detail: FloatArray, check_cancelled: Callable[[], None]) -> FloatArray:
    """Return the sparse maps of a detail layer, shape (M, h, w): ``min 1/2 |sum d_m * x_m - s|^2 + lambda sum |x_m|_1``."""
    shape = detail.shape
    filters = _transform_filters(shape)
    energy = (np.abs(filters) ** 2).sum(axis=0)
    target = scipy.fft.rfft2(detail.astype(np.float32))
    # 32 maps of the size of the image: in single precision half the memory
    maps = np.zeros((N_FILTERS, *shape), np.float32)
    multiplier, sought = np.zeros_like(maps), np.zeros_like(maps)
    for _ in range(MOST_ITERATIONS):
        check_cancelled()
        # `sought` comes out of the last shrinkage as maps minus multiplier: the right side of the linear step
        spectrum = scipy.fft.rfft2(sought, overwrite_x=True)
        # per frequency a matrix of rank one plus a multiple of the identity, solved in closed form (Sherman and Morrison)
        share = (target - np.einsum("mhw,mhw->hw", filters, spectrum)) / (energy + np.float32(PENALTY))
        spectrum += filters.conj() * share
        described = scipy.fft.irfft2(spectrum, s=shape, overwrite_x=True)
        before = maps
        relaxed = np.float32(RELAXATION) * described + np.float32(1 - RELAXATION) * before + multiplier
        maps = np.sign(relaxed) * np.maximum(np.abs(relaxed) - np.float32(SPARSITY / PENALTY), 0)
        multiplier = relaxed - maps
        sought = maps - multiplier
        apart, change, *sizes = (float(np.vdot(part, part)) for part in (described - maps, maps - before, described, maps))
        # squared sums on both sides; 1e-12 for an empty layer
        if max(apart, change) < TOLERANCE**2 * max(*sizes, 1e-12):
            break
    return maps


def draw(maps: FloatArray) -> FloatArray:
    """Return the layer that sparse maps describe, shape (h, w)."""
    shape = maps.shape[1:]
    spectrum = (_transform_filters(shape) * scipy.fft.rfft2(maps)).sum(axis=0)
    layer: FloatArray = scipy.fft.irfft2(spectrum, s=shape)
    return layer


def _transform_filters(shape: tuple[int, ...]) -> ComplexArray:
    """Return the filters in the Fourier domain, shape (M, h, w')."""
    filters: ComplexArray = scipy.fft.rfft2(cosine_filters(), s=shape)
    return filters


def fuse_gray(stack: FloatArray, check_cancelled: Callable[[], None]) -> FloatArray:
    """Fuse gray images, shape (N, h, w)."""
    height, width = stack.shape[1:]
    # the lower and right margin is as much longer as the transform likes
    margins = [(MARGIN_PX, scipy.fft.next_fast_len(length + 2 * MARGIN_PX, real=True) - length - MARGIN_PX) for length in (height, width)]
    padded = np.pad(stack, ((0, 0), *margins), mode="symmetric")
    layers = [split_layers(plane) for plane in padded]
    maps = [code(detail, check_cancelled) for _, detail in layers]
    side = 2 * ACTIVITY_RADIUS_PX + 1
    # the whole code of a pixel counts, all filters together
    activity = np.stack([ndimage.uniform_filter(np.abs(each).sum(axis=0), side) for each in maps])
    winner = activity.argmax(axis=0)
    chosen = np.zeros_like(maps[0])
    for number, each in enumerate(maps):
        np.copyto(chosen, each, where=winner == number)
    base = np.take_along_axis(np.stack([base for base, _ in layers]), winner[None], axis=0)[0]
    fused: FloatArray = base + draw(chosen)
    return fused[MARGIN_PX : MARGIN_PX + height, MARGIN_PX : MARGIN_PX + width]


def fuse_planes(stack: FloatArray, check_cancelled: Callable[[], None]) -> FloatArray:
    """Fuse images, shape (N, C, h, w), channel by channel."""
    return np.stack([fuse_gray(stack[:, channel], check_cancelled) for channel in range(stack.shape[1])])


CONVOLUTIONAL_CODING = Baseline(
    name="csr",
    label="CSR",
    paper="Liu, Chen, Ward and Wang, Image fusion with convolutional sparse representation, IEEE SPL 2016",
    fuse_planes=fuse_planes,
)
