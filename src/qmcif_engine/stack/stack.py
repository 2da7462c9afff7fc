"""N images of one scene, read window by window, wherever they are kept.

Whatever can be fused is a `Stack`: arrays in memory, dask arrays, files, and views of these. Nothing is loaded before a window is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from qmcif_engine.arrays import BoolArray, FloatArray, SampleArray
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.stack.image_metadata import ImageMetadata
from qmcif_engine.stack.samples import check_finite, check_images
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from dask.array import Array

    from qmcif_engine.stack.alignment.transforms import Transforms
    from qmcif_engine.stack.exposure import ExposureCorrection

ReadWindow: TypeAlias = Callable[[int, Window], SampleArray]
"""Returns the samples of one window of one image, shape (h, w) or (h, w, C), in native byte order."""

FindValid: TypeAlias = Callable[[int, Window], BoolArray]
"""Returns which pixels of one window of one image, shape (h, w), the image has."""

LARGEST_SAMPLED_WHOLE_PX = 2**22
"""Pixels of a stack, all images together, up to which the focus range is measured on all of them."""

N_SAMPLED_PLACES = 160
SAMPLED_SIDE_PX = 64
"""Of a larger stack windows of this side are sampled at so many places, each in two neighboring images: a million pixels."""

CHUNK_SIDE_PX = 1024
"""Of a stack as a dask array."""


def _keep_nothing() -> None:
    """Do nothing: samples in memory need no cache."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Stack:
    """N images of one kind, and what is known about them.

    A view of a stack (aligned, cut, one of its parts) is a stack with another `read`, made by `replaced`. Stacks are used from several
    threads and sent to other processes, so `read` and `find_valid` are functions of a module or their `functools.partial`.

    Attributes
    ----------
    names : tuple of str
        One for each image, for messages.
    image_shape : tuple of int
        Shape of each image: (H, W), or (H, W, C).
    dtype : dtype
        Sample type of every image.
    read : callable
        Takes the number of an image and a window, and returns its samples, shape (h, w) or (h, w, C), in native byte order.
    find_valid : callable or None
        Takes the same and returns which pixels, shape (h, w), the image has; None where every image has all of them.
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
    expect_all : callable
        Called without arguments before all samples are read, most of them more than once: decoded images are then cached.
    previews : mapping
        Reduced images that `qmcif_engine.stack.previews.read_previews` read; views of the stack and other processes do not get them.
    """

    names: tuple[str, ...]
    image_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: ReadWindow
    find_valid: FindValid | None = None
    metadata: ImageMetadata = field(default_factory=ImageMetadata)
    alpha: Stack | None = None
    companions: Stack | None = None
    deciding_channels: tuple[int, ...] = ()
    n_separate_channels: int = 0
    decides_each: bool = False
    transforms: Transforms | None = None
    correction: ExposureCorrection | None = None
    sources: tuple[Any, ...] = ()
    frame_numbers: tuple[int, ...] = ()
    scratch_bytes: int = 0
    whole_bytes: int = 0
    expect_all: Callable[[], None] = _keep_nothing
    previews: Mapping[Any, FloatArray] = field(default_factory=dict)

    @property
    def n_images(self) -> int:
        """Number of images, N."""
        return len(self.names)

    @property
    def n_decisions(self) -> int:
        """How many decisions are made for every pixel: one, or one per channel."""
        return self.image_shape[2] if self.decides_each else 1

    @property
    def decision_channels(self) -> tuple[int, ...]:
        """Shape, behind height and width, of what a decision gives: a plane for each channel, or nothing for a joint decision."""
        return self.image_shape[2:] if self.decides_each else ()

    @property
    def further_planes(self) -> Stack | None:
        """Planes that follow the decisions on the stack: all of its channels where only some decide, or else its alpha."""
        return self.alpha if self.companions is None else self.companions

    @property
    def has_validity(self) -> bool:
        """Whether `valid` has to be asked; where it is false, every image has all of its pixels."""
        return self.find_valid is not None

    @property
    def is_in_memory(self) -> bool:
        """Whether windows are views of arrays, which cost nothing to read again."""
        return isinstance(self.read, partial) and self.read.func is _read_array

    def valid(self, number: int, window: Window) -> BoolArray:
        """Return which pixels of a window, (h, w), an image has: no others may be chosen."""
        return np.ones(window.shape, bool) if self.find_valid is None else self.find_valid(number, window)

    def __getstate__(self) -> dict[str, Any]:
        """Leave previews behind: tiles read other windows."""
        return {**vars(self), "previews": {}}

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.names)

    def __getitem__(self, number: int) -> SampleArray:
        """Return all samples of one image."""
        if not 0 <= number < len(self.names):
            raise IndexError(number)
        return self.read(number, Window.whole(self.image_shape))

    def __iter__(self) -> Iterator[SampleArray]:
        """Yield all samples of each image."""
        return (self[number] for number in range(len(self)))

    def replaced(self, *, follow: Callable[[Stack], Stack] | None = None, **changes: Any) -> Stack:  # noqa: ANN401 - any attribute
        """Return a view of the stack: a stack with other attributes, which has no input of its own to open again or to close.

        Parameters
        ----------
        follow : callable, optional
            Shows alpha and further channels in the same way as the stack; they are kept as they are where it is left out.
        **changes
            Attributes of the view that differ from those of the stack.
        """
        kept = {known.name: getattr(self, known.name) for known in fields(Stack) if known.name != "previews"}
        if follow is not None:
            kept |= {name: follow(kept[name]) for name in ("alpha", "companions") if kept[name] is not None}
        return Stack(**kept | changes)

    def cut(self, window: Window) -> Stack:
        """Return one rectangle of the stack as a stack of its own."""
        corner = (window.top, window.left)
        return self.replaced(
            follow=lambda plane: plane.cut(window),
            image_shape=(*window.shape, *self.image_shape[2:]),
            read=partial(_call_moved, self.read, corner),
            find_valid=None if self.find_valid is None else partial(_call_moved, self.find_valid, corner),
        )

    def choose(self, numbers: Sequence[int]) -> Stack:
        """Return some images of the stack, by number, and what goes with them, as a stack of their own."""
        chosen = tuple(numbers)
        return self.replaced(
            follow=lambda plane: plane.choose(chosen),
            names=tuple(self.names[number] for number in chosen),
            frame_numbers=tuple(self.frame_numbers[number] for number in chosen) if self.frame_numbers else (),
            read=partial(_call_numbered, self.read, chosen),
            find_valid=None if self.find_valid is None else partial(_call_numbered, self.find_valid, chosen),
        )

    def channel(self, number: int) -> Stack:
        """Return one channel of the stack, by number, as a stack of gray images."""
        return self.replaced(image_shape=self.image_shape[:2], read=partial(_read_channel, self.read, number), decides_each=False)

    def watched(self, check: Callable[[], None]) -> Stack:
        """Return the stack such that `check` is called before each window is read, and may raise to end the work.

        It stays in this process: sent to another one, the stack is the plain one.
        """
        return self.replaced(follow=lambda plane: plane.watched(check), read=LocalRead(partial(_read_checked, check, self.read), self.read))

    def each_channel(self) -> Stack | None:
        """Return the stack with all channels side by side, to be decided on one by one; None where it was not opened from a source."""
        return None

    def to_dask(self) -> Array:
        """Return the images as one lazy array, shape (N, H, W) or (N, H, W, C), whose chunks are read when they are computed."""
        # programs that fuse arrays in memory do not load dask
        import dask.array as da

        chunks = (1, CHUNK_SIDE_PX, CHUNK_SIDE_PX, *self.image_shape[2:])
        meta = np.empty((0,) * len(chunks), self.dtype)
        # a random name: for one by content dask would pickle the stack, with all images in memory
        lazy: Array = da.from_array(_StackArray(self), chunks=chunks, name=False, getitem=_read_chunk, meta=meta)
        return lazy


@dataclass(frozen=True, slots=True)
class LocalRead:
    """A way of reading that belongs to this process; in another one it is the plain one."""

    read: ReadWindow
    plain: ReadWindow

    def __call__(self, number: int, window: Window) -> SampleArray:
        """Return one window of one image."""
        return self.read(number, window)

    def __reduce__(self) -> tuple[Callable[[ReadWindow], ReadWindow], tuple[ReadWindow]]:
        """Leave behind what only this process has, such as locks and previews."""
        return _same, (self.plain,)


def _same(read: ReadWindow) -> ReadWindow:
    return read


def _call_moved(read: Callable[[int, Window], Any], corner: tuple[int, int], number: int, window: Window) -> Any:  # noqa: ANN401 - samples or masks
    return read(number, window.moved(*corner))


def _call_numbered(read: Callable[[int, Window], Any], numbers: Sequence[int], number: int, window: Window) -> Any:  # noqa: ANN401 - as above
    return read(numbers[number], window)


def _read_channel(read: ReadWindow, channel: int, number: int, window: Window) -> SampleArray:
    return read(number, window)[..., channel]


def _read_checked(check: Callable[[], None], read: ReadWindow, number: int, window: Window) -> SampleArray:
    check()
    return read(number, window)


class _StackArray:
    """A stack with the attributes that dask expects of an array."""

    def __init__(self, stack: Stack) -> None:
        self.stack, self.dtype = stack, stack.dtype
        self.shape = (stack.n_images, *stack.image_shape)
        self.ndim = len(self.shape)


def _read_chunk(array: _StackArray, chunk: tuple[slice, ...]) -> SampleArray:
    number, rows, columns = chunk[:3]
    # chunks hold one image each
    return array.stack.read(number.start, Window(rows.start, columns.start, rows.stop, columns.stop))[np.newaxis]


def as_stack(images: Sequence[SampleArray] | SampleArray | Stack) -> Stack:
    """Return images as a stack: arrays once they are known to fit each other, and a stack as it is."""
    return images if isinstance(images, Stack) else stack_arrays(check_images(images))


def stack_arrays(images: Sequence[SampleArray], *, names: Sequence[str] | None = None) -> Stack:
    """Return arrays in memory, of one shape and type, as a stack; windows are views of them."""
    return Stack(
        names=tuple(names) if names is not None else number_images(len(images)),
        image_shape=images[0].shape if len(images) else (),
        dtype=images[0].dtype if len(images) else np.dtype(np.uint8),
        read=partial(_read_array, tuple(images)),
    )


def _read_array(images: Sequence[SampleArray], number: int, window: Window) -> SampleArray:
    view: SampleArray = images[number][window.slices]
    return view


def number_images(n_images: int) -> tuple[str, ...]:
    """Return names for images that have none."""
    return tuple(f"image {number}" for number in range(1, n_images + 1))


def choose_reference(stack: Stack, reference: int | None) -> int:
    """Return the image that stays as it is, 0-based: the given one, or the middle one where it is left out.

    Raises
    ------
    InvalidConfigError
        If it is none of the images.
    """
    center = stack.n_images // 2 if reference is None else reference
    if not 0 <= center < stack.n_images:
        msg = f"image {center} was given as the reference, counted from 0; the stack has {stack.n_images}: choose one of them"
        raise InvalidConfigError(msg)
    return center


def sample_stack(stack: Stack) -> list[SampleArray]:
    """Return the samples that the focus range is measured on: every image of a small stack, windows spread over a large one.

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
    """Return the images and windows that `sample_stack` reads, in its order."""
    height, width = stack.image_shape[:2]
    if stack.n_images * height * width <= LARGEST_SAMPLED_WHOLE_PX:
        return [(number, Window(0, 0, height, width)) for number in range(stack.n_images)]
    n_pairs = stack.n_images - 1
    n_places = max(N_SAMPLED_PLACES, n_pairs)
    windows = [_place_window(position, stack.image_shape) for position in range(n_places)]
    return [
        (first, window) for position, window in enumerate(windows) for first in range(stack.n_images)[position * n_pairs // n_places :][:2]
    ]


def _place_window(position: int, shape: tuple[int, ...]) -> Window:
    """Return one sampled window: places follow an additive sequence that leaves no gaps."""
    height, width = shape[:2]
    rows, columns = min(SAMPLED_SIDE_PX, height), min(SAMPLED_SIDE_PX, width)
    plastic = 1.32471795724474602596  # its powers give the evenest additive sequence in two dimensions
    top = int((0.5 + position / plastic) % 1 * (height - rows + 1))
    left = int((0.5 + position / plastic**2) % 1 * (width - columns + 1))
    return Window(top, left, top + rows, left + columns)
