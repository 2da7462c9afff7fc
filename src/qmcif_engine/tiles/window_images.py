"""Windows of all images of a stack, each read from its source once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qmcif_engine.stack.samples import check_finite
from qmcif_engine.stack.spilling import SpilledArrays

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qmcif_engine.arrays import SampleArray
    from qmcif_engine.stack.stack import Stack
    from qmcif_engine.stack.window import Window

SAMPLES_IN_MEMORY_BYTES = 48 * 2**20
"""Windows of more images than this holds wait in a temporary file, unless a run can spare more: rules read each several times."""


class WindowImages:
    """One window of every image of a stack, each read from its source only once."""

    def __init__(self, stack: Stack, window: Window, *, memory_bytes: int = SAMPLES_IN_MEMORY_BYTES) -> None:
        self._stack, self._window = stack, window
        self._known = SpilledArrays(memory_bytes=memory_bytes)

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the window."""
        return self._window.shape

    def __len__(self) -> int:
        """Return the number of images."""
        return self._stack.n_images

    def __iter__(self) -> Iterator[SampleArray]:
        """Yield the window of each image."""
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: int) -> SampleArray:
        """Return the window of one image."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        return self._image(number)

    def _image(self, number: int) -> SampleArray:
        return self.read_rows(number, 0, self.shape[0])

    def read_rows(self, number: int, top: int, bottom: int) -> SampleArray:
        """Return some rows of one image, counted from the top of the window."""
        if self._stack.is_in_memory:  # a view costs nothing
            return self._stack.read(number, self._window)[top:bottom]
        # in order, since that is how they are stored; decisions go through the stack from its beginning anyway
        while len(self._known) <= number:
            self._known.append(self._checked(len(self._known)))
        return self._known.read_rows(number, top, bottom)

    def read(self, number: int, window: Window) -> SampleArray:
        """Return a window of one image, counted from the corner of this one."""
        rows, columns = window.slices
        return self.read_rows(number, rows.start, rows.stop)[:, columns]

    def cropped(self, window: Window) -> CroppedImages:
        """Return the images cut to a window that is counted from the corner of this one."""
        return CroppedImages(self, window)

    def _checked(self, number: int) -> NDArray[Any]:
        samples = self._stack.read(number, self._window)
        # here, where every sample passes once
        check_finite(samples, self._stack.names[number])
        return samples


class ChannelImages(WindowImages):
    """One channel of a window of every image, shape (h, w); the images are read once for all channels."""

    def __init__(self, images: WindowImages, channel: int) -> None:
        super().__init__(images._stack, images._window)
        self._images, self._channel = images, channel

    def read_rows(self, number: int, top: int, bottom: int) -> SampleArray:
        """Return some rows of the channel of one image."""
        return self._images.read_rows(number, top, bottom)[..., self._channel]


class CroppedImages:
    """A part of the window of every image, read only when it is asked for."""

    def __init__(self, images: WindowImages, window: Window) -> None:
        self._images, self._window = images, window

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self._images)

    def __getitem__(self, number: int) -> SampleArray:
        """Return the part of one image."""
        return self._images.read(number, self._window)

    def read(self, number: int, window: Window) -> SampleArray:
        """Return a window of one image, counted from the corner of the part."""
        return self._images.read(number, window.moved(self._window.top, self._window.left))
