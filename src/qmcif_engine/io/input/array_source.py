"""Images of an N-dimensional array, wherever its samples are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.errors import InvalidImageError
from qmcif_engine.io.input.frame_source import FramePosition, FrameSource, SourceDescription
from qmcif_engine.io.metadata.axes import AxisPlan, name_axes, plan_axes
from qmcif_engine.io.metadata.exif import UPRIGHT, upright_size
from qmcif_engine.io.remote_path import Location
from qmcif_engine.stack.image_metadata import ImageMetadata
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from dask.array import Array


class ArraySource(FrameSource):
    """The frames of an array, read by window.

    Parameters
    ----------
    read_block : callable
        Returns the samples of one block, all axes kept, in any thread; it can be sent to another process.
    plan : AxisPlan
        What the axes mean.
    dtype : dtype
    name : str
        What messages call the array.
    metadata : ImageMetadata, optional
    paths : tuple of Path or RemotePath
    """

    def __init__(
        self,
        read_block: Callable[[tuple[slice, ...]], NDArray[Any]],
        plan: AxisPlan,
        *,
        dtype: np.dtype[Any],
        name: str,
        metadata: ImageMetadata | None = None,
        paths: tuple[Location, ...] = (),
    ) -> None:
        self._read_block, self._plan = read_block, plan
        self.description = describe_frames(plan, name, dtype=dtype.newbyteorder("="), metadata=metadata or ImageMetadata(), paths=paths)

    def read(self, position: FramePosition, window: Window, channels: Sequence[int]) -> NDArray[Any]:
        """Return one window of some channels of a frame."""
        plan, n_samples = self._plan, self._plan.length("S")
        places = [channel // n_samples for channel in channels]
        index = plan.locate(position)
        known = {axis: slice(number, number + 1) for axis, number in index.items()}
        # one block from the first wanted channel to the last: a chunk often holds several
        known |= {"Y": window.slices[0], "X": window.slices[1], "C": slice(min(places), max(places) + 1), "S": slice(0, n_samples)}
        stored = self._read_block(tuple(known[axis] for axis in plan.axes))
        order = [plan.axes.index(axis) for axis in "YXCS" if axis in plan.axes]
        others = [axis for axis in range(stored.ndim) if axis not in order]
        n_places = max(places) + 1 - min(places)
        # all other axes have length 1 here
        samples = stored.transpose(*order, *others).reshape(*window.shape, n_places * n_samples)
        picked = samples[:, :, [channel - min(places) * n_samples for channel in channels]]
        return picked.astype(self.description.dtype, copy=False)


def describe_frames(
    plan: AxisPlan,
    name: str,
    *,
    dtype: np.dtype[Any],
    metadata: ImageMetadata,
    paths: tuple[Location, ...],
    has_alpha: bool = False,
    orientation: int = UPRIGHT,
) -> SourceDescription:
    """Return what the frames of an input have in common, once its axes are known; alpha is the last sample of a pixel."""
    height, width = upright_size(plan.length("Y"), plan.length("X"), orientation)
    n_channels = plan.n_channels - has_alpha
    looks: dict[str, Any] = {
        name: getattr(metadata, name) if len(getattr(metadata, name)) == n_channels else ()
        for name in ("channel_names", "channel_colors", "channel_limits", "channel_emissions_nm")
    }
    has_separate_channels = plan.has_separate_channels(metadata.channel_names)
    return SourceDescription(
        names=plan.name_frames(name),
        height=height,
        width=width,
        orientation=orientation,
        n_channels=n_channels,
        dtype=dtype,
        has_alpha=has_alpha,
        has_separate_channels=has_separate_channels,
        n_times=plan.n_times,
        metadata=replace(metadata, **looks, has_separate_channels=has_separate_channels),
        paths=paths,
        axes=str(plan),
    )


def guess_axes(name: str, shape: tuple[int, ...], *, is_image: bool = False) -> str:
    """Return the axes of an array that does not name them: (N, Y, X) or (N, Y, X, 3), or of one image (Y, X) or (Y, X, 3).

    Parameters
    ----------
    name : str
        What messages call the array.
    shape : tuple of int
    is_image : bool
        Whether the array is one of several images.
    """
    # images of three columns are taken for colors; axes= says otherwise
    is_color = len(shape) > 2 and shape[-1] == 3
    guessed = {(2, False): "YX", (3, True): "YXS", (3, False): "QYX", (4, True): "QYXS"}.get((len(shape), is_color))
    is_stack = guessed is not None and "Q" in guessed
    if guessed is None or is_stack == is_image:
        needed = "one image (Y, X) or (Y, X, 3)" if is_image else "a stack (N, Y, X) or (N, Y, X, 3)"
        msg = f"{name} has shape {shape}; {needed} is needed: name the axes with axes=, for example axes='TCZYX'"
        raise InvalidImageError(msg)
    return guessed


def open_array(array: object, *, name: str, axes: str | None, is_image: bool = False) -> ArraySource:
    """Open an array of NumPy or dask.

    Parameters
    ----------
    array : ndarray or dask array
    name : str
        What messages call it.
    axes : str, optional
        One letter an axis.
    is_image : bool
        Whether it is one of several images.
    """
    if isinstance(array, np.ndarray):
        read_block: Callable[[tuple[slice, ...]], NDArray[Any]] = partial(np.ndarray.__getitem__, array)
    elif is_dask_array(array):
        read_block = partial(_compute_block, array)
    else:
        msg = f"{name} is a {type(array).__name__}; a path, a NumPy array or a dask array is needed: convert it"
        raise InvalidImageError(msg)
    # dask has NaN for lengths that only computing would tell
    if any(np.isnan(length) for length in array.shape):
        msg = f"a dask array of unknown shape {array.shape} was given; known lengths are needed: call compute_chunk_sizes() first"
        raise InvalidImageError(msg)
    shape = tuple(int(length) for length in array.shape)
    found = guess_axes(name, shape, is_image=is_image) if axes is None else "?" * len(shape)
    plan = plan_axes(name, *name_axes(name, shape=shape, found=found, wanted=axes))
    return ArraySource(read_block, plan, dtype=np.dtype(array.dtype), name=name)


def is_dask_array(candidate: object) -> TypeGuard[Array]:
    """Return whether something is a dask array, without loading dask where nobody else did."""
    module = sys.modules.get("dask.array")
    return module is not None and isinstance(candidate, module.Array)


def _compute_block(array: Array, block: tuple[slice, ...]) -> NDArray[Any]:
    """Compute one block of a dask array by the synchronous scheduler in the calling thread, without callbacks.

    Parallelism is decided on elsewhere, once, and a progress bar that the user has set up for other computations is left alone.
    """
    return np.asarray(array[block].compute(scheduler="synchronous", callbacks=()))
