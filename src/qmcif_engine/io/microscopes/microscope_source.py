"""Images of the files of microscopes as frames, each kind of file through the library made for it.

The libraries are an extra: ``pip install "napari-qmcif[microscopes]"``. None is loaded before its kind of file occurs. The modules beside
this one have the same three functions, each of which opens the file for a moment, in any thread and process: `list_images` returns a name
for each image, scene or position, empty where it has none; `describe` a `MicroscopeImage`; `read` a window of several planes, shape (h,
w) or (h, w, S) each, whose places are the index along every axis but rows, columns and samples. Its `rows` is the axis that rows go
along: that of the plane, or of a volume cut another way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.errors import InvalidImageError
from qmcif_engine.io.input.array_source import describe_frames
from qmcif_engine.io.input.file_order import choose_image
from qmcif_engine.io.input.frame_source import Copying, FramePosition, FrameSource
from qmcif_engine.io.input.image_file import check_claimed_size, load_extra, refuse_content, refuse_damaged, translate_failures
from qmcif_engine.io.limits import MAX_PIXELS, MAX_PLANES, MAX_WINDOWED_PIXELS
from qmcif_engine.io.metadata.axes import AxisPlan, describe_axes, name_axes, plan_axes
from qmcif_engine.io.metadata.units import LONGEST_NAME, parse_length, to_one_unit
from qmcif_engine.stack.image_metadata import ImageMetadata
from qmcif_engine.stack.window import Window

_LIF_MARK = slice(8, 9)


class FileKind(NamedTuple):
    """One kind of file: its name, the library that reads it, and our module that asks that library."""

    name: str
    library: str
    module: str


_CZI = FileKind("a Zeiss CZI file", "pylibCZIrw", "czi")
_ND2 = FileKind("a Nikon ND2 file", "nd2", "nd2_file")
_LIF = FileKind("a Leica LIF file", "liffile", "lif")

_UNREAD = {".oib": "Olympus", ".oif": "Olympus", ".oir": "Olympus", ".vsi": "Olympus", ".zvi": "Zeiss", ".lof": "Leica", ".xlef": "Leica"}
_UNREAD |= {".ims": "Imaris", ".dv": "DeltaVision", ".mrxs": "3DHISTECH", ".dm3": "Gatan", ".dm4": "Gatan"}
"""Suffixes of what no library is used for, with the program that writes it."""

_IMAGE_SIGNATURES = (b"\x89PNG", b"\xff\xd8", b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def recognize_microscope(head: bytes, path: Path) -> FileKind | None:
    """Return which kind of microscope file this is by its first bytes, None for another kind.

    Raises
    ------
    ImageFileError
        For the files of microscopes that no library is used for.
    """
    suffix = path.suffix.lower()
    if head.startswith(b"ZISRAWFILE"):
        return _CZI
    # ND2 of today, and the older kind, which is a JPEG 2000 file inside
    if head.startswith((b"\xda\xce\xbe\x0a", b"\x00\x00\x00\x0cjP  ")) and suffix not in (".jp2", ".jpx"):
        return _ND2
    # both marks that every block of a LIF file begins with
    if head.startswith(b"\x70\0\0\0") and head[_LIF_MARK] == b"\x2a":
        return _LIF
    if suffix in _UNREAD and not head.startswith(_IMAGE_SIGNATURES):
        raise refuse_content(
            path,
            given=f"what a program of {_UNREAD[suffix]} wrote",
            needed="CZI, ND2, LIF, OME-TIFF or OME-Zarr",
            remedy="export it as OME-TIFF, or convert it with bioformats2raw",
        )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroscopeImage:
    """One image of a file as its header describes it; nothing of it is trusted yet.

    Attributes
    ----------
    sizes : dict
        Length of every axis, named by a letter: T, C, Z, Y, X, S (samples of a pixel), or another one.
    dtype : dtype
    steps : mapping
        Micrometers from one sample to the next along X, Y and Z.
    names, colors : sequence of str
        Of the channels, empty where one has none; colors as ``#rrggbb``.
    n_bits : int
        How many bits of each sample are used; 0 where the file does not say it.
    plane_axes : str
        Rows and columns of what the library reads at once.
    needed_bytes : int
        What the file has to hold for it at least; 0 where its samples are compressed.
    stored_bytes : int
        What the file has for it; its size where 0.
    copying : Copying
        Whether planes can be read by window.
    """

    sizes: dict[str, int]
    dtype: np.dtype[Any]
    steps: Mapping[str, float | None]
    names: Sequence[str]
    colors: Sequence[str]
    n_bits: int
    needed_bytes: int = 0
    stored_bytes: int = 0
    plane_axes: str = "YX"
    copying: Copying = Copying.NEEDED

    @property
    def axes(self) -> str:
        """One letter an axis."""
        return "".join(self.sizes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of every axis."""
        return tuple(self.sizes.values())

    @property
    def metadata(self) -> ImageMetadata:
        """What is known of the image beside its samples; what is incomplete is left out."""
        is_depth = self.dtype.kind == "u" and 0 < self.n_bits < 8 * self.dtype.itemsize
        return replace(
            to_one_unit({axis: parse_length(step) for axis, step in self.steps.items()}, dict.fromkeys("XYZ", "µm")),
            channel_names=tuple(name[:LONGEST_NAME] for name in self.names) if all(self.names) else (),
            channel_colors=tuple(self.colors) if all(self.colors) else (),
            significant_bits=self.n_bits if is_depth else None,
        )


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
        load_extra(kind.library, path, kind=kind.name, extra="microscopes", otherwise="export the stack as OME-TIFF")
        self._module = f"qmcif_engine.io.microscopes.{kind.module}"
        self._stamp = _take_stamp(path)
        names = self._reader.list_images(self._location)
        if not names:
            raise refuse_content(path, given="no image", needed="at least one", remedy="check what was saved in it")
        self._number = choose_image(names, image, path=path)
        found: MicroscopeImage = self._reader.describe(self._location, self._number)
        label = repr(str(path)) if len(names) == 1 else f"{str(path)!r} ({names[self._number] or self._number + 1})"
        self._plan, self._file_axes = _match_axes(found, label, axes)
        self._rows = self._file_axes[self._plan.axes.index("Y")]
        # a cut across the planes reads a row of each of them: once is enough
        self.copying = found.copying if self._rows == found.plane_axes[0] else Copying.NEEDED
        _check_size(found, self._plan, path, is_whole=self.copying is Copying.NEEDED)
        # a step along an axis that the user calls another name is no step of the stack any more
        has_step = "Z" in self._plan.axes and self._file_axes[self._plan.axes.index("Z")] == "Z"
        metadata = found.metadata if has_step else replace(found.metadata, z_step=None)
        self.description = describe_frames(self._plan, label, dtype=found.dtype, metadata=metadata, paths=(path,))

    @property
    def _reader(self) -> ModuleType:
        # modules cannot be sent to another process
        return import_module(self._module)

    def read(self, position: FramePosition, window: Window, channels: Sequence[int]) -> NDArray[Any]:
        """Return one window of some channels of a frame."""
        n_samples = self._plan.length("S")
        places = sorted({channel // n_samples for channel in channels})
        read = translate_failures(lambda _: self._read(position, places, window), self._path)
        planes = dict(zip(places, read, strict=True))
        return np.stack([planes[channel // n_samples][:, :, channel % n_samples] for channel in channels], axis=-1)

    def _read(self, position: FramePosition, places: Sequence[int], window: Window) -> list[NDArray[Any]]:
        # the header was read once; another file would be read by its numbers
        if _take_stamp(self._location) != self._stamp:
            raise refuse_damaged(self._path, "it was changed after it was opened")
        letters = dict(zip(self._plan.axes, self._file_axes, strict=True))
        indices = [{letters[axis]: step for axis, step in self._plan.locate(position, place).items()} for place in places]
        planes = self._reader.read(self._location, self._number, places=indices, rows=self._rows, window=window)
        shape = (*window.shape, self._plan.length("S"))
        for plane in planes:
            # the library is not trusted to return what it described
            if plane.size != math.prod(shape) or plane.dtype.newbyteorder("=") != self.description.dtype:
                raise refuse_damaged(self._path, f"a plane is {plane.shape} {plane.dtype} where its header promised {shape}")
        return [plane.reshape(shape).astype(self.description.dtype, copy=False) for plane in planes]


def _match_axes(found: MicroscopeImage, label: str, wanted: str | None) -> tuple[AxisPlan, str]:
    """Return the meaning of every axis, and what the file calls the axes of the plan, in its order."""
    if wanted is None and "Y" not in found.axes:
        raise _refuse_section(found, label, f"a section along {' and '.join(found.plane_axes)}")
    named, lengths = name_axes(label, shape=found.shape, found=found.axes, wanted=wanted)
    plan = plan_axes(label, named, lengths)
    is_whole = len(named) == len(found.axes)
    kept = [axis for axis, length in zip(found.axes, found.shape, strict=True) if is_whole or length > 1 or axis in "YX"]
    if kept[named.index("X")] != found.plane_axes[1] or ("S" in found.axes and kept[named.index("S")] != "S"):
        raise _refuse_section(found, label, f"of which {wanted!r} makes columns or samples others")
    return plan, "".join(kept)


def _refuse_section(found: MicroscopeImage, label: str, reason: str) -> InvalidImageError:
    """Return the error for planes that are no images of one focus each."""
    remedy = "choose another image with --image (image=), or name the axes with --axes (axes=)"
    return InvalidImageError(
        f"{label} has the axes {describe_axes(found.axes, found.shape)}, {reason}; images along Y and X are needed: {remedy}"
    )


def _check_size(found: MicroscopeImage, plan: AxisPlan, path: Path, *, is_whole: bool) -> None:
    """Refuse what the header claims and the file cannot hold, before memory is taken for it."""
    height, width = plan.length("Y"), plan.length("X")
    frame_bytes = height * width * plan.n_channels * found.dtype.itemsize
    max_pixels = MAX_PIXELS if is_whole else MAX_WINDOWED_PIXELS
    check_claimed_size(path, height=height, width=width, decoded_bytes=frame_bytes, stored_bytes=None, max_pixels=max_pixels)
    if plan.n_planes > MAX_PLANES:
        raise refuse_content(path, given=f"{plan.n_planes} planes", needed=f"at most {MAX_PLANES}", remedy="export a part of it")
    stored_bytes = found.stored_bytes or path.stat().st_size
    if found.needed_bytes > stored_bytes:
        raise refuse_damaged(path, f"its header promises {found.needed_bytes} bytes of samples, of which {stored_bytes} are there")


def _take_stamp(location: Path) -> tuple[int, int]:
    status = location.stat()
    return status.st_size, status.st_mtime_ns
