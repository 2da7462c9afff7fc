"""The frames of one image of a microscope's file, as every other input offers them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.errors import InvalidImageError
from qmcif_engine.io.input.array_source import describe_frames
from qmcif_engine.io.input.frame_source import Copying, FrameSource
from qmcif_engine.io.input.image_choice import choose_image
from qmcif_engine.io.input.image_file import check_claimed_size, refuse_content, refuse_damaged, translate_failures
from qmcif_engine.io.limits import MAX_PIXELS, MAX_PLANES, MAX_WINDOWED_PIXELS
from qmcif_engine.io.metadata.acquisition import describe_axes, name_axes, plan_axes
from qmcif_engine.io.microscopes.guarded_reader import GuardedReader
from qmcif_engine.io.microscopes.recognition import check_library
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from qmcif_engine.io.input.frame_source import FramePosition
    from qmcif_engine.io.metadata.acquisition import AxisPlan
    from qmcif_engine.io.microscopes.microscope_image import MicroscopeImage
    from qmcif_engine.io.microscopes.recognition import FileKind


class MicroscopeSource(FrameSource):
    """The frames of one image, scene or position.

    The file is not kept open: its header is read once, and each read opens it for a moment.

    Parameters
    ----------
    path : Path
    kind : FileKind
    image : int or str, optional
        Which image, by number counted from 1 or by name; may be left out where there is one.
    axes : str, optional
        Names of the axes where the file says them wrongly.
    """

    def __init__(self, path: Path, kind: FileKind, *, image: int | str | None = None, axes: str | None = None) -> None:
        self._path, self._location = path, path.absolute()
        check_library(kind, path)
        self._reader = GuardedReader(kind.module, kind.reader)
        self._stamp = _take_stamp(path)
        names = translate_failures(lambda _: self._reader.list_images(self._location), path)
        if not names:
            raise refuse_content(path, given="no image", needed="at least one", remedy="check what was saved in it")
        self._number = choose_image(names, image, path=path)
        found = translate_failures(lambda _: self._reader.describe(self._location, self._number), path)
        label = repr(str(path)) if len(names) == 1 else f"{str(path)!r} ({names[self._number] or self._number + 1})"
        self._plan, self._file_axes = _settle_axes(found, label, axes)
        self._rows = self._file_axes[self._plan.axes.index("Y")]
        # a cut across the planes reads a row of each of them: once is enough
        self.copying = found.copying if self._rows == found.plane_axes[0] else Copying.NEEDED
        _check_size(found, self._plan, path, is_whole=self.copying is Copying.NEEDED)
        # a step along an axis that the user calls another name is no step of the stack any more
        has_step = "Z" in self._plan.axes and self._file_axes[self._plan.axes.index("Z")] == "Z"
        metadata = found.metadata if has_step else replace(found.metadata, z_step=None)
        self.description = describe_frames(self._plan, label, dtype=found.dtype, metadata=metadata, paths=(path,))

    def read(self, position: FramePosition, window: Window, channels: Sequence[int]) -> NDArray[Any]:
        """Return one window of some channels of a frame."""
        n_samples = self._plan.length("S")
        places = sorted({channel // n_samples for channel in channels})
        planes = dict(zip(places, self._read(position, places, window), strict=True))
        return np.stack([planes[channel // n_samples][:, :, channel % n_samples] for channel in channels], axis=-1)

    def decode(self, position: FramePosition) -> NDArray[Any]:
        """Return a frame with all its channels."""
        found = self.description
        return self.read(position, Window(0, 0, found.height, found.width), range(found.n_channels))

    def _read(self, position: FramePosition, places: Sequence[int], window: Window) -> list[NDArray[Any]]:
        # the header was read once; another file would be read by its numbers
        if _take_stamp(self._path, self._location) != self._stamp:
            raise refuse_damaged(self._path, "it was changed after it was opened")
        letters = dict(zip(self._plan.axes, self._file_axes, strict=True))
        indices = [{letters[axis]: step for axis, step in self._plan.locate(position, place).items()} for place in places]
        planes = translate_failures(
            lambda _: self._reader.read(self._location, self._number, places=indices, rows=self._rows, window=window), self._path
        )
        shape = (*window.shape, self._plan.length("S"))
        for plane in planes:
            # the library is not trusted to return what it described
            if plane.size != math.prod(shape) or plane.dtype.newbyteorder("=") != self.description.dtype:
                raise refuse_damaged(self._path, f"a plane is {plane.shape} {plane.dtype} where its header promised {shape}")
        return [plane.reshape(shape).astype(self.description.dtype, copy=False) for plane in planes]


def _settle_axes(found: MicroscopeImage, label: str, wanted: str | None) -> tuple[AxisPlan, str]:
    """Return the meaning of every axis, and what the file calls the axes of the plan, in its order."""
    if wanted is None and "Y" not in found.axes:
        message = f"{label} has the axes {describe_axes(found.axes, found.shape)}, a section along {' and '.join(found.plane_axes)}"
        raise _refuse_section(message)
    named, lengths = name_axes(label, shape=found.shape, found=found.axes, wanted=wanted)
    plan = plan_axes(label, named, lengths)
    is_whole = len(named) == len(found.axes)
    kept = [axis for axis, length in zip(found.axes, found.shape, strict=True) if is_whole or length > 1 or axis in "YX"]
    file_axes = "".join(kept)
    if file_axes[named.index("X")] != found.plane_axes[1] or ("S" in found.axes and file_axes[named.index("S")] != "S"):
        message = f"{label} has the axes {describe_axes(found.axes, found.shape)}, of which {wanted!r} makes columns or samples others"
        raise _refuse_section(message)
    return plan, file_axes


def _refuse_section(message: str) -> InvalidImageError:
    """Return the error for planes that are no images of one focus each."""
    return InvalidImageError(
        f"{message}; images along Y and X are needed: choose another image with --image (image=), or name the axes with --axes (axes=)"
    )


def _check_size(found: MicroscopeImage, plan: AxisPlan, path: Path, *, is_whole: bool) -> None:
    """Refuse what the header claims and the file cannot hold, before memory is taken on its word."""
    height, width = plan.length("Y"), plan.length("X")
    frame_bytes = height * width * plan.n_channels * found.dtype.itemsize
    check_claimed_size(
        path,
        height=height,
        width=width,
        decoded_bytes=frame_bytes,
        stored_bytes=None if found.needed_bytes == 0 else found.stored_bytes,
        max_pixels=MAX_PIXELS if is_whole else MAX_WINDOWED_PIXELS,
    )
    if plan.n_planes > MAX_PLANES or plan.n_channels > MAX_PLANES:
        raise refuse_content(path, given=f"{plan.n_planes} planes", needed=f"at most {MAX_PLANES}", remedy="export a part of it")
    if found.needed_bytes > found.stored_bytes:
        raise refuse_damaged(path, f"its header promises {found.needed_bytes} bytes of samples, of which {found.stored_bytes} are there")


def _take_stamp(path: Path, location: Path | None = None) -> tuple[int, int]:
    status = translate_failures(lambda _: (location or path).stat(), path)
    return status.st_size, status.st_mtime_ns
