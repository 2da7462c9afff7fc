"""Generated focus stacks of any size, block by block: to try what is larger than memory without storing it first.

The scene is two periodic textures of different periods, so that it repeats only after hundreds of thousands of pixels and costs no more
than adding them up. Which image is in focus changes in soft waves across the image.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from dask.array import Array
from scipy import fft

from qmcif_engine.arrays import FloatArray
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.stack.synthetic import check_frame, is_whole_between

BLOCK_SIDE_PX = 1024
_LARGEST_LAZY_PX, _LARGEST_N_LAZY = 2**20, 1024
_PERIODS_PX = (512, 405)
"""Of the textures of a lazy stack: without a common divisor, and both quick to transform."""

_N_CHANNELS = 3
_BLUR_PX = 2.5
"""Standard deviation of the blur far from focus."""

_WAVES_PX = ((880.0, 3100.0), (-2300.0, 1270.0), (1630.0, -940.0))
"""Wavelengths down and across of the waves of depth; a negative one runs the other way."""

_MEAN_COLOR, _SPOT_COLOR, _TINT_COLOR = (186, 138, 172), (-18, -26, -10), (14, -6, -12)
_SPOT_SIZES_PX = (14, 60)
_STEEPNESS = 3.0
"""How quickly an image passes from sharp to blurred."""


class _Texture(NamedTuple):
    """One periodic texture, out of focus and what focus adds to it; both (P, P, 3), in levels."""

    blurred: FloatArray
    detail: FloatArray


def make_lazy_focus_stack(*, shape: tuple[int, int] = (8192, 8192), n_images: int = 2, seed: int = 0, step: int = 1) -> Array:
    """Make a focus stack of which each block is generated when, and only if, it is asked for.

    Parameters
    ----------
    shape : tuple of int, optional
        Height and width, 8 to 1048576 px each.
    n_images : int, optional
        2 to 1024.
    seed : int, optional
        The same seed gives the same samples, in whatever blocks they are asked for.
    step : int, optional
        Only every so many-th pixel, down and across: what slicing with this step gives, without generating what lies between.

    Returns
    -------
    dask array of uint8, shape (N, H, W, 3), both sides divided by the step and rounded up
        In blocks of one image and at most 1024 x 1024 px. Its graph holds no samples, so it can be sent to a cluster.

    Raises
    ------
    InvalidConfigError
        When an argument is out of bounds.
    """
    check_frame(n_images=n_images, largest_n=_LARGEST_N_LAZY, shape=shape, largest_px=_LARGEST_LAZY_PX, seed=seed)
    if not is_whole_between(step, 1, _LARGEST_LAZY_PX):
        msg = f"step={step!r} was given; a whole number from 1 to {_LARGEST_LAZY_PX} is needed; choose another one"
        raise InvalidConfigError(msg)
    height, width = (-(-int(side) // int(step)) for side in shape)
    # given as lists of lengths, since blocks at the end are smaller
    chunks = ((1,) * int(n_images), _cut(height), _cut(width), (_N_CHANNELS,))
    stack: Array = da.map_blocks(
        _make_block,
        n_images=int(n_images),
        seed=int(seed),
        step=int(step),
        chunks=chunks,
        dtype=np.uint8,
        meta=np.empty((0, 0, 0, 0), np.uint8),
    )
    return stack


def _cut(side_px: int) -> tuple[int, ...]:
    return tuple(min(BLOCK_SIDE_PX, side_px - start) for start in range(0, side_px, BLOCK_SIDE_PX))


def _make_block(*, n_images: int, seed: int, step: int, block_info: dict[Any, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return one block, shape (1, h, w, 3)."""
    (image, _), (top, bottom), (left, right), _ = block_info[None]["array-location"]
    rows, columns = step * np.arange(top, bottom), step * np.arange(left, right)
    samples = np.zeros((len(rows), len(columns), _N_CHANNELS), np.float32)
    blurred = np.zeros_like(samples)
    # textures of several periods are added: the pattern repeats only after their common multiple
    for texture in _make_textures(seed):
        samples += texture.detail.take(columns, 1, mode="wrap").take(rows, 0, mode="wrap")
        blurred += texture.blurred.take(columns, 1, mode="wrap").take(rows, 0, mode="wrap")
    depth = _find_waves(rows, columns) * np.float32(n_images - 1)
    # float32 throughout: a Python float would make the whole block float64, in twice the memory
    sharpness = np.clip(np.float32(0.5) + np.float32(_STEEPNESS) * (np.float32(0.5) - np.abs(depth - np.float32(image))), 0, 1)
    samples *= sharpness[..., np.newaxis]
    samples += blurred
    np.clip(samples, 0, 255, out=samples)
    return np.rint(samples, out=samples).astype(np.uint8)[np.newaxis]


def _find_waves(rows: np.ndarray[Any, np.dtype[np.int64]], columns: np.ndarray[Any, np.dtype[np.int64]]) -> FloatArray:
    """Return which depth is seen where, from 0 to 1, shape (len(rows), len(columns)).

    The sine of a sum is taken apart, so that sines are computed for rows and columns only.
    """
    total = np.zeros((len(rows), len(columns)), np.float32)
    for down_px, across_px in _WAVES_PX:
        down, across = 2 * np.pi * rows / down_px, 2 * np.pi * columns / across_px
        wave = np.stack([np.sin(down), np.cos(down)], 1) @ np.stack([np.cos(across), np.sin(across)])
        total += wave.astype(np.float32)
    return np.clip(total / len(_WAVES_PX) * np.float32(0.8) + np.float32(0.5), 0, 1)


@lru_cache(maxsize=2)
def _make_textures(seed: int) -> tuple[_Texture, ...]:
    """Return the two textures of a seed; each process makes them once."""
    generator = np.random.default_rng(seed)
    return tuple(_make_texture(generator, period) for period in _PERIODS_PX)


def _make_texture(generator: np.random.Generator, period_px: int) -> _Texture:
    """Return spots with clear outlines in two tints, and fine grain over them; it fits to itself at its borders."""
    shape = (period_px, period_px)
    frequency = np.hypot(fft.fftfreq(period_px)[:, np.newaxis], fft.rfftfreq(period_px)[np.newaxis])
    spots, tints = (
        np.tanh(4 * _make_periodic_noise(generator, frequency * size_px * np.exp(-((frequency * size_px) ** 2))))
        for size_px in _SPOT_SIZES_PX
    )
    grain = _make_periodic_noise(generator, np.sqrt(frequency))
    levels = spots[..., np.newaxis] * _SPOT_COLOR + tints[..., np.newaxis] * _TINT_COLOR + 9 * grain[..., np.newaxis]
    # the transfer function of a Gaussian of that standard deviation
    lens = np.exp(-2 * (np.pi * _BLUR_PX * frequency) ** 2)[..., np.newaxis]
    blurred = fft.irfft2(fft.rfft2(levels, axes=(0, 1)) * lens, s=shape, axes=(0, 1))
    mean = np.asarray(_MEAN_COLOR) / len(_PERIODS_PX)
    return _Texture(*(np.ascontiguousarray(plane, np.float32) for plane in (mean + blurred, levels - blurred)))


def _make_periodic_noise(generator: np.random.Generator, amplitude: FloatArray) -> FloatArray:
    """Return periodic noise of unit variance, given the amplitude of each frequency."""
    side = amplitude.shape[0]
    # white noise, weighted by frequency: the transform makes it periodic
    noise = fft.irfft2(fft.rfft2(generator.standard_normal((side, side))) * amplitude, s=(side, side))
    return np.asarray(noise / noise.std())
