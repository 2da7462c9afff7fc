"""What every library of microscope files is asked for: the images of a file, their axes, and windows of their planes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from qmcif_engine.io.input.frame_source import Copying

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from qmcif_engine.stack.image_metadata import ImageMetadata
    from qmcif_engine.stack.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroscopeImage:
    """One image of a file as its header describes it; nothing of it is trusted yet.

    Attributes
    ----------
    axes : str
        One letter an axis: T, C, Z, Y, X, S (samples of a pixel), or another one.
    shape : tuple of int
    plane_axes : str
        Rows and columns of what the library reads at once.
    dtype : dtype
    metadata : ImageMetadata
    needed_bytes : int
        What the file has to hold for it at least; 0 where its samples are compressed.
    stored_bytes : int
        What the file has for it.
    copying : Copying
        Whether planes can be read by window.
    """

    axes: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    metadata: ImageMetadata
    needed_bytes: int
    stored_bytes: int
    plane_axes: str = "YX"
    copying: Copying = Copying.NEEDED


class MicroscopeReader(Protocol):
    """A library behind three questions; it keeps no file open, so that it can be asked in any thread and process."""

    def list_images(self, location: Path) -> list[str]:
        """Return a name for each image, scene or position of a file; empty where it has none."""

    def describe(self, location: Path, number: int) -> MicroscopeImage:
        """Return what the file says of one of its images."""

    def read(self, location: Path, number: int, *, places: Sequence[Mapping[str, int]], rows: str, window: Window) -> list[NDArray[Any]]:
        """Return a window of several planes, shape (h, w) or (h, w, S) each.

        Parameters
        ----------
        location : Path
        number : int
            Which image.
        places : sequence of mapping
            The index along every axis of the image but rows, columns and samples.
        rows : str
            The axis that rows go along: that of the plane, or of a volume cut another way.
        window : Window
        """


def parse_hex_color(text: object) -> str:
    """Return a color as ``#rrggbb`` from a text with or without opacity in front; empty for anything else."""
    digits = text.removeprefix("#").lower() if isinstance(text, str) else ""
    is_color = len(digits) in (6, 8) and all(digit in "0123456789abcdef" for digit in digits)
    return f"#{digits[-6:]}" if is_color else ""


def keep_complete(values: Sequence[str]) -> tuple[str, ...]:
    """Return one value a channel where every channel has one, else none."""
    return tuple(value[:256] for value in values) if values and all(values) else ()
