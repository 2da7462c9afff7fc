"""Stacks as a worker looks at them: given up as soon as that is asked for, and part of them as a stack of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_qmcif.preview_area import Area
from qmcif_engine import Stack, StackView, Window


class WatchedStack(StackView):
    """A stack that asks before each window whether to go on, so that whatever reads it can be cancelled.

    Parameters
    ----------
    stack : Stack
    check : callable
        Raises to end the work. It stays here: sent to another process, the stack is the plain one.
    """

    def __init__(self, stack: Stack, check: Callable[[], None]) -> None:
        super().__init__(stack, follow=lambda plane: WatchedStack(plane, check))
        self._check = check

    def __reduce__(self) -> tuple[Callable[[Stack], Stack], tuple[Stack]]:
        """Leave the question behind: the thread that can answer is in this process."""
        return _plain, (self._stack,)

    def read(self, number: int, window: Window) -> NDArray[Any]:
        """Return one window of one image, unless the work shall end."""
        self._check()
        return self._stack.read(number, window)


def _plain(stack: Stack) -> Stack:
    return stack


class CutStack(StackView):
    """One rectangle of a stack as a stack of its own."""

    def __init__(self, stack: Stack, area: Area) -> None:
        super().__init__(stack, follow=lambda plane: CutStack(plane, area))
        self._area = area

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Shape of the rectangle."""
        return (*self._area.shape, *self._stack.image_shape[2:])

    def read(self, number: int, window: Window) -> NDArray[Any]:
        """Return one window of one image."""
        return self._stack.read(number, self._shifted(window))

    def valid(self, number: int, window: Window) -> NDArray[np.bool_]:
        """Return which pixels of a window the image really has."""
        return self._stack.valid(number, self._shifted(window))

    def _shifted(self, window: Window) -> Window:
        top, left = self._area.top, self._area.left
        return Window(window.top + top, window.left + left, window.bottom + top, window.right + left)
