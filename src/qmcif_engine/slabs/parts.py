"""The results of the slabs of a stack as a stack."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from qmcif_engine.arrays import BoolArray
from qmcif_engine.stack.stack import FindValid, Stack
from qmcif_engine.stack.window import Window


def stack_slabs(results: Stack, original: Stack, spans: Sequence[range]) -> Stack:
    """Return the results of the slabs as a stack, with the metadata of the original.

    A pixel that no image of a slab has, because all of them were moved, the slab does not have either.
    """
    # pixels, alpha and channels come from the files of the slabs, all else from the original
    return results.replaced(
        metadata=original.metadata,
        n_separate_channels=original.n_separate_channels,
        # neither the images nor the slabs may be replaced by an output
        sources=(*original.sources, *results.sources),
        find_valid=None if original.find_valid is None else partial(_find_any, original.find_valid, tuple(spans)),
    )


def _find_any(find_valid: FindValid, spans: Sequence[range], number: int, window: Window) -> BoolArray:
    """Return which pixels of a window, (h, w), any image of a slab has."""
    is_valid: BoolArray = np.any([find_valid(image, window) for image in spans[number]], axis=0)
    return is_valid
