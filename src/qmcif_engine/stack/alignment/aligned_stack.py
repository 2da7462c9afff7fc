"""Stacks whose images coincide, resampled window by window when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.stack.alignment.transforms import IDENTITY, Transforms
from qmcif_engine.stack.alignment.warping import find_valid, warp_window
from qmcif_engine.stack.stack import StackView

if TYPE_CHECKING:
    from qmcif_engine.arrays import BoolArray, SampleArray
    from qmcif_engine.stack.stack import Stack
    from qmcif_engine.stack.window import Window


class AlignedStack(StackView):
    """The images of a stack as the reference image sees them; shape and type stay, nothing is cropped.

    Alpha and further channels move with them.

    Images that do not move are handed on sample by sample, and shifts by whole pixels copy samples; everything else is resampled.

    Parameters
    ----------
    stack : Stack
    transforms : Transforms
        Of this stack, or of another one with as many images of the same height and width.

    Raises
    ------
    InvalidConfigError
        If the transforms belong to another number or size of images.
    """

    def __init__(self, stack: Stack, transforms: Transforms) -> None:
        shape = stack.image_shape[:2]
        if (transforms.n_images, transforms.image_shape) != (stack.n_images, shape):
            msg = (
                f"the transforms are for {transforms.n_images} images of {_describe(transforms.image_shape)} and the stack has "
                f"{stack.n_images} of {_describe(shape)}; both must be equal: estimate transforms for this stack"
            )
            raise InvalidConfigError(msg)
        super().__init__(stack, follow=lambda plane: AlignedStack(plane, transforms))
        self._transforms = self.transforms = transforms
        # moved images leave rows and columns of the frame empty
        self.has_validity = True

    def read(self, number: int, window: Window) -> SampleArray:
        """Return one window of one image; where the image does not reach, the nearest sample on its edge."""
        if self._transforms.matrices[number] == IDENTITY:
            return self._stack.read(number, window)
        return warp_window(
            lambda part: self._stack.read(number, part),
            window,
            matrix=self._transforms.matrix(number),
            shape=self._stack.image_shape,
            dtype=self._stack.dtype,
        )

    def valid(self, number: int, window: Window) -> BoolArray:
        """Return which pixels of a window, (h, w), come from samples inside the image alone: no others may be chosen."""
        if self._transforms.matrices[number] == IDENTITY:
            return self._stack.valid(number, window)
        return find_valid(
            window,
            matrix=self._transforms.matrix(number),
            shape=self._stack.image_shape,
            read_valid=(lambda part: self._stack.valid(number, part)) if self._stack.has_validity else None,
        )


def _describe(shape: tuple[int, ...]) -> str:
    return f"{shape[1]} x {shape[0]} px"
