"""Offer N images of one scene to be read window by window, wherever they are kept.

Whatever can be fused is a `Stack`: arrays in memory, dask arrays, files. Nothing is loaded before a window of it is asked for.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from qmcif_engine.window import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qmcif_engine.array_types import SampleArray

_HASHED_ROWS = 256
"""Rows hashed at a time, so that a fingerprint never needs a copy of a whole image."""


@runtime_checkable
class Stack(Protocol):
    """Describe what fusion needs to know of a source; implementations can be sent to another process."""

    @property
    def n_images(self) -> int:
        """Number of images, N."""

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Shape of each image: (H, W), or (H, W, C)."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Sample type of every image."""

    @property
    def names(self) -> tuple[str, ...]:
        """What messages call the images."""

    def read(self, number: int, window: Window) -> SampleArray:
        """Return the samples of one window of one image, shape (h, w) or (h, w, C), in native byte order."""

    def fingerprint(self) -> str:
        """Return a short text that changes when the samples do: what a resumed run compares."""


class ArrayStack:
    """Hold images that are in memory."""

    def __init__(self, images: Sequence[SampleArray], *, names: Sequence[str] | None = None) -> None:
        self._images = list(images)
        self._names = tuple(names) if names is not None else number_images(len(self._images))

    @property
    def n_images(self) -> int:
        """Number of images."""
        return len(self._images)

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Shape of each image."""
        return self._images[0].shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Sample type."""
        return self._images[0].dtype

    @property
    def names(self) -> tuple[str, ...]:
        """What messages call the images."""
        return self._names

    def read(self, number: int, window: Window) -> SampleArray:
        """Return a view of one window."""
        view: SampleArray = self._images[number][window.slices]
        return view

    def fingerprint(self) -> str:
        """Return a digest of all samples."""
        return digest_samples(self)


def number_images(n_images: int) -> tuple[str, ...]:
    """Return names for images that have none."""
    return tuple(f"image {number}" for number in range(1, n_images + 1))


def digest_samples(stack: Stack) -> str:
    """Return a digest of every sample of a stack, read in bands of rows."""
    digest = hashlib.sha256(repr((stack.n_images, stack.image_shape, stack.dtype.name)).encode())
    height, width = stack.image_shape[:2]
    for number in range(stack.n_images):
        for top in range(0, height, _HASHED_ROWS):
            band = stack.read(number, Window(top, 0, min(top + _HASHED_ROWS, height), width))
            digest.update(np.ascontiguousarray(band).data)
    return digest.hexdigest()
