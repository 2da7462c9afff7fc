"""Pictures for the metrics: small, textured, different from each other in known ways."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from scipy import ndimage


class Scene(NamedTuple):
    sources: list[np.ndarray]
    fused: np.ndarray


@pytest.fixture
def paint_scene():
    """Call with a shape and a number of sources: each is sharp in its own vertical band, the fused image nearly everywhere."""

    def paint(shape, *, n_sources=2, seed=1):
        generator = np.random.default_rng(seed)
        sharp = generator.integers(0, 256, shape).astype(float)
        sigma = (1.5, 1.5, 0.0)[: len(shape)]
        blurred = ndimage.gaussian_filter(sharp, sigma)
        column = np.arange(shape[1])[:, np.newaxis] if len(shape) == 3 else np.arange(shape[1])
        band = np.minimum(column * n_sources // shape[1], n_sources - 1)
        sources = [np.where(band == number, sharp, blurred) for number in range(n_sources)]
        fused = 0.9 * sharp + 0.1 * blurred + generator.normal(0, 2, shape)
        return Scene([np.rint(source).astype(np.uint8) for source in sources], np.clip(np.rint(fused), 0, 255).astype(np.uint8))

    return paint
