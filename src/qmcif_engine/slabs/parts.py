"""Parts of a stack, and the results of its parts, as stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.stack.stack import StackView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qmcif_engine.arrays import BoolArray, SampleArray
    from qmcif_engine.stack.stack import Stack
    from qmcif_engine.stack.window import Window


class StackPart(StackView):
    """Some neighboring images of a stack, and what goes with them, as a stack of their own."""

    def __init__(self, stack: Stack, numbers: range) -> None:
        super().__init__(stack, follow=lambda plane: StackPart(plane, numbers))
        self._numbers = numbers
        self.frame_numbers = tuple(stack.frame_numbers[number] for number in numbers) if stack.frame_numbers else ()

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

    def valid(self, number: int, window: Window) -> BoolArray:
        """Return which pixels of a window, (h, w), an image really has."""
        return self._stack.valid(self._numbers[number], window)


class FusedSlabs(StackView):
    """The results of the slabs as a stack, with what the original says of itself.

    A pixel that no image of a slab has, because all of them were moved, the slab does not have either.
    """

    def __init__(self, results: Stack, original: Stack, spans: Sequence[range]) -> None:
        # pixels, alpha and channels come from the files of the slabs, all else from the original
        super().__init__(results)
        self._original, self._spans = original, tuple(spans)
        self.metadata, self.n_separate_channels = original.metadata, original.n_separate_channels
        # neither the images nor the slabs may be replaced by an output
        self.sources = (*original.sources, *results.sources)
        self.has_validity = original.has_validity

    def valid(self, number: int, window: Window) -> BoolArray:
        """Return which pixels of a window, (h, w), any image of a slab has."""
        is_valid = np.zeros(window.shape, bool)
        for image in self._spans[number]:
            is_valid |= self._original.valid(image, window)
        return is_valid
