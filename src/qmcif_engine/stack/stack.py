"""N images of one scene, read window by window, wherever they are kept.

Whatever can be fused is a `Stack`: arrays in memory, dask arrays, files. Nothing is loaded before a window of it is asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.errors import InvalidImageError
from qmcif_engine.stack.image_metadata import ImageMetadata
from qmcif_engine.stack.samples import FocusRange, check_finite, check_focus_ranges, settle_focus_range
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dask.array import Array

    from qmcif_engine.arrays import BoolArray, SampleArray
    from qmcif_engine.stack.alignment.transforms import Transforms
    from qmcif_engine.stack.exposure import ExposureCorrection
    from qmcif_engine.stack.samples import FocusRanges, GivenRanges

LARGEST_SAMPLED_WHOLE_PX = 2**22
"""Pixels of a stack, all images together, up to which all of them are looked at to settle the focus range."""

N_SAMPLED_WINDOWS = 256
SAMPLED_SIDE_PX = 64
"""Of a larger stack so many windows of this side, a million pixels, are looked at."""


class Stack(ABC):
    """Base class of everything that can be fused: N images of one kind, and what is known about them.

    A subclass gives the images; whatever else it has, it sets, and the rest keeps the defaults below. Implementations can be sent to
    another process and read from several threads.

    Attributes
    ----------
    metadata : ImageMetadata
        Of the images, or of the first of them.
    alpha : Stack or None
        Opacity of every image, (h, w) a window.
    companions : Stack or None
        All channels in their original order, (h, w, C) a window, where the stack itself shows a choice of them: each of them is composed
        by the decision made on the stack.
    deciding_channels : tuple of int
        Which channels of `companions` the stack shows, 0-based, or -1 for a plane of zeros; empty where nothing was chosen.
    n_separate_channels : int
        How many of the channels that decide were recorded one by one, as dyes are; 0 for gray, and for the colors of an image.
    decides_each : bool
        Whether every channel is decided on by itself, rather than all of them together.
    has_validity : bool
        Whether `valid` has to be asked; where it is false, every image has all of its pixels.
    transforms : Transforms or None
        How the images were moved to coincide.
    correction : ExposureCorrection or None
        How the images were brought to one brightness.
    sources : tuple of paths, or of addresses on servers
        Files and folders that are read, so that no output replaces them.
    frame_numbers : tuple of int
        Which images of the input the stack has, counted from 0; empty where that is not known.
    whole_bytes : int
        What must be in memory at once while an image is decoded that can only be decoded as a whole, else 0.
    scratch_bytes : int
        What decoded copies will take on disk; known before anything is decoded.
    """

    metadata: ImageMetadata = ImageMetadata()
    alpha: Stack | None = None
    companions: Stack | None = None
    deciding_channels: tuple[int, ...] = ()
    n_separate_channels: int = 0
    decides_each: bool = False
    has_validity: bool = False
    transforms: Transforms | None = None
    correction: ExposureCorrection | None = None
    sources: tuple[Any, ...] = ()
    frame_numbers: tuple[int, ...] = ()
    scratch_bytes: int = 0
    whole_bytes: int = 0

    @property
    @abstractmethod
    def n_images(self) -> int:
        """Number of images, N."""

    @property
    @abstractmethod
    def image_shape(self) -> tuple[int, ...]:
        """Shape of each image: (H, W), or (H, W, C)."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Sample type of every image."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """What messages call the images."""

    @abstractmethod
    def read(self, number: int, window: Window) -> SampleArray:
        """Return the samples of one window of one image, shape (h, w) or (h, w, C), in native byte order."""

    def valid(self, number: int, window: Window) -> BoolArray:
        """Return which pixels of a window, (h, w), an image really has: no others may be chosen.

        It is asked only where `has_validity` is true, which a subclass with missing pixels has to set.
        """
        del number
        return np.ones(window.shape, bool)

    def expect_all(self) -> None:  # noqa: B027 - most stacks have nothing to keep
        """Report that all samples will be read, most of them more than once: what is decoded may be kept where it is small enough."""

    def cut(self, window: Window) -> Stack:
        """Return one rectangle of the stack as a stack of its own."""
        return CutStack(self, window)

    def watched(self, check: Callable[[], None]) -> Stack:
        """Return the stack such that every window asks first whether to go on, so that whatever reads it can be cancelled.

        `check` raises to end the work. It stays in this process: sent to another one, the stack is the plain one.
        """
        return WatchedStack(self, check)

    def to_dask(self) -> Array:
        """Return the images as one lazy array, shape (N, H, W) or (N, H, W, C), whose chunks are read when they are asked for."""
        # who fuses arrays in memory does not load dask
        from qmcif_engine.stack.lazy_stack import stack_to_dask

        return stack_to_dask(self)

    def each_channel(self) -> Stack | None:
        """Return the stack with all channels side by side, to be decided on one by one; None where it was not opened from a source."""
        return None


class ArrayStack(Stack):
    """Images that are in memory."""

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


class StackView(Stack):
    """Base class of stacks that show another one: with all it has, as far as a subclass does not show it in another way.

    Parameters
    ----------
    stack : Stack
        What is shown.
    follow : callable, optional
        Shows alpha and further channels in the same way as the stack; they are handed on as they are where it is left out.
    """

    def __init__(self, stack: Stack, *, follow: Callable[[Stack], Stack] | None = None) -> None:
        self._stack = stack
        self.metadata, self.sources, self.frame_numbers = stack.metadata, stack.sources, stack.frame_numbers
        self.alpha, self.companions = (
            plane if plane is None or follow is None else follow(plane) for plane in (stack.alpha, stack.companions)
        )
        self.deciding_channels, self.n_separate_channels = stack.deciding_channels, stack.n_separate_channels
        self.decides_each, self.has_validity = stack.decides_each, stack.has_validity
        self.transforms, self.correction = stack.transforms, stack.correction
        self.scratch_bytes = stack.scratch_bytes
        self.whole_bytes = stack.whole_bytes

    @property
    def n_images(self) -> int:
        """Number of images."""
        return self._stack.n_images

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Shape of each image."""
        return self._stack.image_shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Sample type."""
        return self._stack.dtype

    @property
    def names(self) -> tuple[str, ...]:
        """What messages call the images."""
        return self._stack.names

    def read(self, number: int, window: Window) -> SampleArray:
        """Return one window of one image."""
        return self._stack.read(number, window)

    def valid(self, number: int, window: Window) -> BoolArray:
        """Return which pixels of a window, (h, w), an image really has."""
        return self._stack.valid(number, window)

    def expect_all(self) -> None:
        """Report that all samples will be read."""
        self._stack.expect_all()


class CutStack(StackView):
    """One rectangle of a stack as a stack of its own."""

    def __init__(self, stack: Stack, area: Window) -> None:
        super().__init__(stack, follow=lambda plane: plane.cut(area))
        self._area = area

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Shape of the rectangle."""
        return (*self._area.shape, *self._stack.image_shape[2:])

    def read(self, number: int, window: Window) -> SampleArray:
        """Return one window of one image."""
        return self._stack.read(number, window.moved(self._area.top, self._area.left))

    def valid(self, number: int, window: Window) -> BoolArray:
        """Return which pixels of a window the image really has."""
        return self._stack.valid(number, window.moved(self._area.top, self._area.left))


class WatchedStack(StackView):
    """A stack that asks before each window whether to go on."""

    def __init__(self, stack: Stack, check: Callable[[], None]) -> None:
        super().__init__(stack, follow=lambda plane: plane.watched(check))
        self._check = check

    def __reduce__(self) -> tuple[Callable[[Stack], Stack], tuple[Stack]]:
        """Leave the question behind: the thread that can answer is in this process."""
        return _plain, (self._stack,)

    def read(self, number: int, window: Window) -> SampleArray:
        """Return one window of one image, unless the work shall end."""
        self._check()
        return self._stack.read(number, window)


def _plain(stack: Stack) -> Stack:
    return stack


def number_images(n_images: int) -> tuple[str, ...]:
    """Return names for images that have none."""
    return tuple(f"image {number}" for number in range(1, n_images + 1))


def sample_stack(stack: Stack) -> list[SampleArray]:
    """Return what the focus range is settled from: every image of a small stack, windows spread over a large one.

    Which windows depends on the number and shape of the images alone, never on how they are stored.

    Raises
    ------
    InvalidImageError
        When a sample is NaN or infinite.
    """
    places = place_samples(stack)
    # image by image and from top to bottom, so that no strip of a file is decoded twice
    samples: dict[tuple[int, Window], SampleArray] = {}
    # a set: windows of a small image may fall together
    for number, window in sorted(set(places)):
        samples[number, window] = stack.read(number, window)
        check_finite(samples[number, window], stack.names[number])
    return [samples[place] for place in places]


def place_samples(stack: Stack) -> list[tuple[int, Window]]:
    """Return the images and windows that `sample_stack` looks at, in its order."""
    height, width = stack.image_shape[:2]
    if stack.n_images * height * width <= LARGEST_SAMPLED_WHOLE_PX:
        return [(number, Window(0, 0, height, width)) for number in range(stack.n_images)]
    return [_place_window(position, stack) for position in range(N_SAMPLED_WINDOWS)]


def _place_window(position: int, stack: Stack) -> tuple[int, Window]:
    """Return the image and the place of one sampled window: images in turn, places by an additive sequence that leaves no gaps."""
    height, width = stack.image_shape[:2]
    rows, columns = min(SAMPLED_SIDE_PX, height), min(SAMPLED_SIDE_PX, width)
    plastic = 1.32471795724474602596  # its powers give the evenest additive sequence in two dimensions
    top = int((0.5 + position / plastic) % 1 * (height - rows + 1))
    left = int((0.5 + position / plastic**2) % 1 * (width - columns + 1))
    return position * stack.n_images // N_SAMPLED_WINDOWS, Window(top, left, top + rows, left + columns)


def check_number(stack: Stack) -> None:
    """Refuse a stack of one image: there is nothing to choose from.

    Raises
    ------
    InvalidImageError
    """
    if stack.n_images < 2:
        given = "1 image was" if stack.n_images else "0 images were"
        msg = f"{given} given; at least 2 of one scene are needed: add the other focus positions"
        raise InvalidImageError(msg)


def companions_of(stack: Stack) -> Stack | None:
    """Return the planes that follow the decisions on a stack: all of its channels where only some decide, or else its alpha."""
    return stack.companions if stack.companions is not None else stack.alpha


def settle_range(stack: Stack, given: GivenRanges | None, *, samples: Sequence[SampleArray] | None = None) -> FocusRanges:
    """Return the samples that count as black and white: those given, else what the source says of its bits, else the samples' own.

    Channels that were recorded one by one have a range each, so that a dim one counts as much as a bright one. The colors of an image
    share one: their relation is the white balance. Channels that are decided on one by one have a range each, whatever they are.
    `samples` are those of `sample_stack`, where they were read before.
    """
    n_separate = stack.image_shape[2] if stack.decides_each else stack.n_separate_channels
    if given is not None:
        n_channels = n_separate or (stack.image_shape[2] if len(stack.image_shape) == 3 else 1)
        return check_focus_ranges(given, n_channels=n_channels)
    samples = sample_stack(stack) if samples is None else samples
    if n_separate:
        return tuple(settle_focus_range([block[..., channel] for block in samples]) for channel in range(n_separate))
    bits = stack.metadata.significant_bits
    # a claim that the samples contradict is none
    if bits is not None and all(int(block.max()) < 2**bits for block in samples):
        return FocusRange(0.0, float(2**bits - 1))
    return settle_focus_range(samples)
