"""Show a part of a stack, or the results of its parts, as a stack."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.stack.picture_metadata import PictureMetadata
from qmcif_engine.stack.stack import StackView, count_separate_channels, decides_each

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from qmcif_engine.kernels.array_types import BoolArray, SampleArray
    from qmcif_engine.stack.stack import Stack
    from qmcif_engine.stack.window import Window


class StackPart(StackView):
    """Show some neighboring images of a stack, and what goes with them, as a stack of their own."""

    def __init__(self, stack: Stack, numbers: range) -> None:
        super().__init__(stack)
        self._numbers = numbers
        alpha, companions = getattr(stack, "alpha", None), getattr(stack, "companions", None)
        self.alpha = None if alpha is None else StackPart(alpha, numbers)
        self.companions = None if companions is None else StackPart(companions, numbers)
        self.metadata: PictureMetadata = getattr(stack, "metadata", PictureMetadata())
        self.n_separate_channels, self.decides_each = count_separate_channels(stack), decides_each(stack)
        self.sources: tuple[Path, ...] = getattr(stack, "sources", ())
        if hasattr(stack, "valid"):  # a stack that has it is asked for every window
            self.valid: Callable[[int, Window], BoolArray] = partial(_valid_in_part, stack.valid, numbers)

    @property
    def n_images(self) -> int:
        """Number of images."""
        return len(self._numbers)

    @property
    def names(self) -> tuple[str, ...]:
        """What messages call the images."""
        return tuple(self._stack.names[number] for number in self._numbers)

    def read(self, number: int, window: Window) -> SampleArray:
        """Return one window of one image."""
        return self._stack.read(self._numbers[number], window)


class FusedSlabs:
    """Show the results of the slabs as a stack, with what the original says of itself.

    A pixel that no image of a slab has, because all of them were moved, the slab does not have either.
    """

    def __init__(self, results: Any, original: Stack, spans: Sequence[range]) -> None:  # noqa: ANN401 - what `open_stack` returns
        self._results: Stack = results
        self.alpha, self.companions = results.alpha, results.companions
        self.metadata: PictureMetadata = getattr(original, "metadata", PictureMetadata())
        self.n_separate_channels, self.decides_each = count_separate_channels(original), decides_each(results)
        self.sources: tuple[Path, ...] = (*getattr(original, "sources", ()), *results.sources)
        self.n_images, self.image_shape = results.n_images, results.image_shape
        self.dtype, self.names = results.dtype, results.names
        if hasattr(original, "valid"):
            self.valid: Callable[[int, Window], BoolArray] = partial(_valid_in_any, original.valid, tuple(spans))

    def read(self, number: int, window: Window) -> SampleArray:
        """Return one window of one slab."""
        return self._results.read(number, window)


def _valid_in_part(valid: Callable[[int, Window], BoolArray], numbers: range, number: int, window: Window) -> BoolArray:
    return valid(numbers[number], window)


def _valid_in_any(valid: Callable[[int, Window], BoolArray], spans: Sequence[range], number: int, window: Window) -> BoolArray:
    is_valid = np.zeros(window.shape, bool)
    for image in spans[number]:
        is_valid |= valid(image, window)
    return is_valid
