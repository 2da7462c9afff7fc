"""Textures of the generated scenes: natural enough to have detail at every scale, and parts without any."""

from __future__ import annotations

import numpy as np
from scipy import fft
from scipy.spatial import cKDTree

DARKEST, BRIGHTEST = 10, 240
SMOOTH_SHARE = 0.12
"""Part of every texture that is nearly flat."""


def make_texture(generator: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Return a periodic texture (3, H, W), 0-255: tones at every scale, cells with dark walls, fine grain, and parts that are flat."""
    pink = make_noise(generator, shape, steepness=1.0, n_planes=4)
    grain = make_noise(generator, shape, steepness=0.0, n_planes=1)[0]
    tones, walls = make_cells(generator, shape)
    planes = 130 + 16 * pink[:1] + 8 * pink[1:] + 22 * tones + 9 * grain - 55 * walls
    landscape = make_noise(generator, shape, steepness=2.5, n_planes=1)[0]
    flatness = np.clip((np.quantile(landscape, SMOOTH_SHARE) - landscape) * 12 + 0.5, 0, 1)
    tone = (120 + generator.uniform(-40, 40, 3))[:, None, None] + 3 * landscape
    return np.clip(planes * (1 - flatness) + tone * flatness, DARKEST, BRIGHTEST).astype(np.float32)


def make_noise(generator: np.random.Generator, shape: tuple[int, int], *, steepness: float, n_planes: int) -> np.ndarray:
    """Return periodic planes of mean 0 and standard deviation 1, the amplitude falling with this power of the frequency."""
    frequency = measure_frequencies(shape)
    frequency[0, 0] = np.inf
    spectrum = frequency**-steepness * np.exp(-((frequency / 0.42) ** 4))
    spectrum[0, 0] = 0
    planes = fft.irfft2(fft.rfft2(generator.standard_normal((n_planes, *shape))) * spectrum, s=shape)
    return planes / planes.std(axis=(1, 2), keepdims=True)


def make_cells(generator: np.random.Generator, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the tone of each cell, (3, H, W), and the share of wall in each pixel, (H, W)."""
    n_cells = max(8, shape[0] * shape[1] // 220)
    tree = cKDTree(generator.random((n_cells, 2)) * shape, boxsize=shape)
    distances, cells = tree.query(np.moveaxis(np.mgrid[: shape[0], : shape[1]], 0, -1), k=2)
    walls = np.clip(1.6 - (distances[..., 1] - distances[..., 0]), 0, 1)
    tones = generator.normal(0, 1, (n_cells, 1)) * 0.8 + generator.normal(0, 0.5, (n_cells, 3))
    return np.moveaxis(tones[cells[..., 0]], -1, 0), walls


def measure_frequencies(shape: tuple[int, int]) -> np.ndarray:
    """Return the frequency of each coefficient of a real Fourier transform, in cycles per pixel."""
    return np.hypot(fft.fftfreq(shape[0])[:, None], fft.rfftfreq(shape[1])[None])
