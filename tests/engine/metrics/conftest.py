"""Pictures for the metrics: small, textured, different from each other in known ways."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.metrics import blocks


class Scene(NamedTuple):
    sources: list[np.ndarray]
    fused: np.ndarray

    @property
    def images(self):
        return [*self.sources, self.fused]


@pytest.fixture(scope="session")
def paint_scene():
    """Call with a shape and a number of sources: each is sharp in its own vertical band, the fused image nearly everywhere."""

    def paint(shape, *, n_sources=2, seed=1):
        generator = np.random.default_rng(seed)
        sharp = generator.integers(0, 256, shape).astype(float)
        blurred = ndimage.gaussian_filter(sharp, (1.5, 1.5, 0.0)[: len(shape)])
        column = np.arange(shape[1])[:, np.newaxis] if len(shape) == 3 else np.arange(shape[1])
        band = np.minimum(column * n_sources // shape[1], n_sources - 1)
        sources = [np.where(band == number, sharp, blurred) for number in range(n_sources)]
        fused = 0.9 * sharp + 0.1 * blurred + generator.normal(0, 2, shape)
        return Scene([np.rint(source).astype(np.uint8) for source in sources], np.clip(np.rint(fused), 0, 255).astype(np.uint8))

    return paint


@pytest.fixture
def in_blocks(monkeypatch):
    """Call to make every image a large one, of blocks of 160 px."""

    def cut():
        monkeypatch.setattr(blocks, "LARGEST_WHOLE_PX", 0)
        monkeypatch.setattr(blocks, "LARGEST_WHOLE_SIDE_PX", 160)
        monkeypatch.setattr(blocks, "BLOCK_PX", 160)
        monkeypatch.setattr(blocks.Passes.add_up, "__kwdefaults__", {"sides": (97, 80), "window_px": 1})

    return cut
