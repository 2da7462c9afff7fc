"""Open chosen layers for the engine, aligned where that is wanted; everything here runs in a worker thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

import numpy as np
from napari.layers import Layer
from numpy.typing import NDArray

from napari_qmcif.chosen_stack import ChosenStack
from napari_qmcif.preview_area import Area
from napari_qmcif.worker import BackgroundJob
from qmcif_engine import (
    Cancelled,
    ExposureCorrection,
    QmcifError,
    Stack,
    Transforms,
    Window,
    open_stack,
    prepare_stack,
    suggest_alignment,
    suggest_even_exposure,
)

ALIGNMENTS = ("none", "translation", "similarity", "affine", "homography")

N_COLORS = 3
"""What comes behind them is opacity, which follows the decisions without taking part in them."""


def open_images(images: Sequence[Any], *, n_channels: int) -> Stack:
    """Return images as a stack that is read by window; of four channels three decide."""
    if n_channels > N_COLORS:
        return open_stack(images, axes="YXS", channels=list(range(1, N_COLORS + 1)))
    return open_stack(images)


def align_images(images: Sequence[Any], stack: ChosenStack, *, job: BackgroundJob) -> Stack:
    """Return images of a chosen stack, aligned and evened out as it says; what moved, and how bright they are, is estimated once.

    Parameters
    ----------
    images : sequence of ndarray or dask array
        Those of the stack, or what was read of them.
    stack : ChosenStack
    job : BackgroundJob
        Hears what is being done and says whether to go on.
    """
    opened = open_images(images, n_channels=stack.n_channels)
    if not stack.is_prepared:
        return opened

    def check_cancelled() -> None:
        if job.is_cancelled():
            msg = "the fusion was cancelled while its images were aligned; nothing was returned: start it again"
            raise Cancelled(msg)

    def estimate() -> Transforms | None:
        job.note(f"aligning {stack.n_images} images …")
        prepared = prepare_stack(opened, align=stack.align, check_cancelled=check_cancelled)
        job.note("")
        return prepared.transforms

    transforms = None if stack.align == "none" else _once(stack, stack.align, estimate)
    if not stack.even_exposure:
        return prepare_stack(opened, transforms=transforms)

    def compare() -> ExposureCorrection | None:
        job.note(f"comparing the brightness of {stack.n_images} images …")
        prepared = prepare_stack(opened, transforms=transforms, even_exposure=True)
        job.note("")
        return prepared.correction

    return prepare_stack(opened, transforms=transforms, correction=_once(stack, f"exposure, {stack.align}", compare))


def hint_at_preparation(stack: ChosenStack) -> str:
    """Return advice for a stack whose images visibly moved or differ in brightness, as far as nothing is done about it."""
    hints = ["" if stack.align != "none" else _hint_at_alignment(stack), "" if stack.even_exposure else _hint_at_exposure(stack)]
    return "; ".join(hint for hint in hints if hint)


def _hint_at_exposure(stack: ChosenStack) -> str:
    def judge() -> str:
        try:
            suggestion = suggest_even_exposure(open_images(stack.cut_images(), n_channels=stack.n_channels))
        except QmcifError:  # the fusion itself will say what is wrong
            return ""
        if suggestion is None:
            return ""
        return f"the images differ in brightness or color by about {100 * suggestion.difference:.0f} %: set Even exposure"

    text: str = _once(stack, "exposure hint", judge)
    return text


def _hint_at_alignment(stack: ChosenStack) -> str:
    def judge() -> str:
        try:
            suggestion = suggest_alignment(open_images(stack.cut_images(), n_channels=stack.n_channels))
        except QmcifError:  # OpenCV is missing, or the fusion itself will say what is wrong
            return ""
        if suggestion is None:
            return ""
        return f"neighboring images look misaligned by about {suggestion.movement_px:.0f} px: set Align to {suggestion.model.value}"

    text: str = _once(stack, "hint", judge)
    return text


class CutStack(Stack):
    """One rectangle of a stack as a stack of its own."""

    def __init__(self, stack: Stack, area: Area) -> None:
        self._stack, self._area = stack, area
        self.companions = None if stack.companions is None else CutStack(stack.companions, area)
        self.has_validity = stack.has_validity

    @property
    def n_images(self) -> int:
        """Number of images."""
        return self._stack.n_images

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Shape of the rectangle."""
        return (*self._area.shape, *self._stack.image_shape[2:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Sample type."""
        return self._stack.dtype

    @property
    def names(self) -> tuple[str, ...]:
        """What messages call the images."""
        return self._stack.names

    def read(self, number: int, window: Window) -> NDArray[Any]:
        """Return one window of one image."""
        return self._stack.read(number, self._shifted(window))

    def valid(self, number: int, window: Window) -> NDArray[np.bool_]:
        """Return which pixels of a window the image really has."""
        return self._stack.valid(number, self._shifted(window))

    def _shifted(self, window: Window) -> Window:
        top, left = self._area.top, self._area.left
        return Window(window.top + top, window.left + left, window.bottom + top, window.right + left)


class _Found(NamedTuple):
    """Something found out about a stack, and what it was found from."""

    arrays: tuple[ref[Any], ...]
    cut: tuple[Any, ...]
    value: Any


_found: WeakKeyDictionary[Layer, dict[str, _Found]] = WeakKeyDictionary()
"""What was found out stays known while the layers hold the same arrays, so that previews and runs share it."""


def _once(stack: ChosenStack, kind: str, find: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever is looked for
    """Return what was found before for the same images, else find it."""
    known = _found.setdefault(stack.layers[0], {})
    cut = (stack.axis, stack.index)
    last = known.get(kind)
    if last is not None and last.cut == cut and [id(array()) for array in last.arrays] == [id(array) for array in stack.arrays]:
        return last.value
    value = find()
    known[kind] = _Found(tuple(ref(array) for array in stack.arrays), cut, value)
    return value
