"""The rule ``paper``: QMCIF as it is printed, from the images of a tile to its samples.

Images are measured one at a time, and what is kept of each, its detail-scale levels, waits in a temporary file where there are many: memory
does not grow with the number of images. Of the settings of decisions `order`, `measure` and all that concern blends have no meaning here.
"""

from __future__ import annotations

import tempfile
from functools import partial
from typing import IO, TYPE_CHECKING, NamedTuple, cast

import numpy as np

from qmcif_engine.config.fusion_config import Precision, Preference, ResultScale
from qmcif_engine.method.focus import NEGLIGIBLE_LEVEL, SOLVE_MARGIN_PX, measure_focus
from qmcif_engine.method.fusion import LargestLevel, blend_shares, compose_samples, select, share_patches
from qmcif_engine.method.patches import detail_patch_side, pad_to_grid, spread_patches, sum_patches
from qmcif_engine.method.refinement import refine, source_weights
from qmcif_engine.rules import Decision, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray, SampleArray
    from qmcif_engine.config.fusion_config import DecisionConfig, FusionConfig
    from qmcif_engine.rules import Planes, StackStatistics, Steps
    from qmcif_engine.stack.window import Window

LEVELS_IN_MEMORY_BYTES = 48 * 2**20
"""Focus levels beyond this wait in a temporary file."""

FARTHEST_SHIFT = 0.5
"""A peak farther from the chosen image than this would belong to its neighbor."""

SOLVED_PIXEL_BYTES, LOW_RANK_PIXEL_BYTES, WINDOW_PIXEL_BYTES = 160, 460, 150
"""What a solve holds for each of its pixels, what the low-rank term adds to that, and what the other stages hold for each pixel."""


class StoredLevels:
    """Levels of the images in the order they were appended: in memory up to a size, the others in a temporary file."""

    def __init__(self) -> None:
        self._held: list[FloatArray] = []
        self._file: IO[bytes] | None = None
        self._n_stored = 0

    def append(self, level: FloatArray) -> None:
        """Add the levels of one more image, of the same shape and type as all others."""
        if self._file is None and (len(self._held) + 1) * level.nbytes <= LEVELS_IN_MEMORY_BYTES:
            self._held.append(level)
            return
        self._file = self._file or tempfile.TemporaryFile(prefix="qmcif-")
        self._file.seek(self._n_stored * level.nbytes)
        self._file.write(np.ascontiguousarray(level).data)
        self._n_stored += 1

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self._held) + self._n_stored
