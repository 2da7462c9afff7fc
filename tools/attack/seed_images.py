"""The images that all sound inputs hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIDE = (24, 32)


def make_images(kind: type = np.uint8, channels: tuple[int, ...] = ()) -> NDArray[np.generic]:
    """Return two images of noise with few values, so that compressors have something to do."""
    samples = np.random.default_rng(7).integers(0, 250, (2, *SIDE, *channels))
    return (samples // 16 * 16).astype(kind)
