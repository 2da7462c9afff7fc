"""What was read from an image file, and why a file was refused: every failure of a library becomes one error of ours, in one wording."""

from __future__ import annotations

import logging
import stat
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.arrays import SampleArray
from qmcif_engine.errors import ImageFileError, MissingExtraError, QmcifError
from qmcif_engine.io.input.frame_source import SourceDescription
from qmcif_engine.io.limits import MAX_EXPANSION, MAX_PIXELS
from qmcif_engine.io.metadata.exif import fit_exif, parse_exif_orientation, upright_size
from qmcif_engine.io.remote_path import Location
from qmcif_engine.stack.image_metadata import ImageMetadata

for _library in ("imagecodecs", "tifffile"):
    # their complaints reach whoever configured logging, but are not printed beside our one line that says the same
    logging.getLogger(_library).addHandler(logging.NullHandler())

_Result = TypeVar("_Result")
_Location = TypeVar("_Location", bound="Location")


@dataclass(frozen=True, slots=True, eq=False)
class ImageFile:
    """The samples of one file, upright, with alpha set apart.

    Parameters
    ----------
    samples : ndarray of uint8, uint16, float32 or float64, shape (H, W) or (H, W, 3)
        Gray or RGB, in native byte order and C-contiguous.
    alpha : ndarray of the same dtype, shape (H, W), or None
        Unassociated opacity (the color samples are not multiplied by it).
    significant_bits : int or None
        How many low bits of each integer sample are used where the file says so (12 for a 12-bit camera in uint16); None where the
        file says nothing, or says what its own samples contradict.
    """

    samples: SampleArray
    alpha: SampleArray | None
    significant_bits: int | None


def describe_single_image(
    path: Path,
    *,
    size: tuple[int, int],
    n_samples: int,
    dtype: np.dtype[Any],
    exif: bytes = b"",
    icc_profile: bytes | None = None,
    dpi: tuple[float, float] | None = None,
) -> SourceDescription:
    """Return what is known of the one image of a file before anything of it is decoded.

    Parameters
    ----------
    path : Path
    size : tuple of int
        Height and width as stored.
    n_samples : int
        1 (gray), 2 (gray, alpha), 3 (RGB) or 4 (RGB, alpha).
    dtype : dtype
    exif : bytes, optional
        The camera's block, which says how the image is turned.
    icc_profile : bytes, optional
    dpi : tuple of float, optional
    """
    orientation = parse_exif_orientation(exif)
    height, width = upright_size(*size, orientation)
    # an even number of samples ends with alpha
    n_channels = 1 if n_samples < 3 else 3
    return SourceDescription(
        names=(repr(str(path)),),
        height=height,
        width=width,
        n_channels=n_channels,
        dtype=dtype,
        has_alpha=n_samples > n_channels,
        orientation=orientation,
        metadata=ImageMetadata(icc_profile=icc_profile, exif=fit_exif(exif, height=height, width=width), dpi=dpi),
        paths=(path,),
    )


def assemble_image(upright: NDArray[Any], significant_bits: int | None) -> ImageFile:
    """Split alpha off the channels of an image, shape (H, W, 1 to 4), and make them contiguous.

    The file's claim of significant bits is dropped where a sample is larger than it allows, since clipping to it would destroy samples.
    """
    n_colors = 1 if upright.shape[2] < 3 else 3
    color = upright[:, :, 0] if n_colors == 1 else upright[:, :, :3]
    if significant_bits is not None and color.size and int(color.max()) >= 2**significant_bits:
        significant_bits = None
    return ImageFile(
        samples=np.ascontiguousarray(color),
        alpha=np.ascontiguousarray(upright[:, :, n_colors]) if upright.shape[2] > n_colors else None,
        significant_bits=significant_bits,
    )


def refuse_damaged(path: Location, reason: str) -> ImageFileError:
    """Return the error for a truncated or corrupt file, so that every decoder words it alike."""
    # texts of libraries may be long and of many lines
    first_line = " ".join(reason.split())[:160] or "no reason known"
    return ImageFileError(f"{str(path)!r} is truncated or corrupt ({first_line}); a complete file is needed; copy or export it again")


def refuse_content(path: Location, *, given: str, needed: str, remedy: str) -> ImageFileError:
    """Return the error for a sound file of a kind that cannot be used without loss or guesswork."""
    return ImageFileError(f"{str(path)!r} holds {given}; {needed} is needed; {remedy}")


def check_claimed_size(
    path: Location,
    *,
    height: int,
    width: int,
    decoded_bytes: int,
    stored_bytes: int | None,
    max_pixels: int = MAX_PIXELS,
    max_expansion: int = MAX_EXPANSION,
) -> None:
    """Refuse a header whose claimed size is absurd, before memory is taken on its word.

    Parameters
    ----------
    path : Path
        For the message.
    height, width : int
        Claimed size in pixels.
    decoded_bytes : int
        What the decoded image would take.
    stored_bytes : int or None
        What the file has for it; None for codecs whose expansion has no useful bound.
    max_pixels : int, optional
        How many pixels a header may claim.
    max_expansion : int, optional
        Decoded bytes that one stored byte can become.
    """
    if height < 1 or width < 1:
        raise refuse_damaged(path, f"its header claims {width} x {height} pixels")
    if height * width > max_pixels:
        raise refuse_content(
            path,
            given=f"{width} x {height} pixels according to its header",
            needed=f"an image of at most {max_pixels} pixels (MAX_PIXELS)",
            remedy="crop or reduce it first",
        )
    if stored_bytes is not None and decoded_bytes > max_expansion * stored_bytes:
        raise refuse_damaged(path, f"its header claims {width} x {height} pixels, which cannot come from {stored_bytes} bytes")


def translate_failures(read: Callable[[_Location], _Result], path: _Location) -> _Result:
    """Return what reading a file returns; every failure becomes an error of ours that names the file."""
    try:
        return read(path)
    except QmcifError:
        raise
    except MemoryError as error:
        msg = f"{str(path)!r} does not fit into memory; more memory or a smaller image is needed; crop or reduce it first"
        raise ImageFileError(msg) from error
    except OSError as error:
        msg = f"{str(path)!r} cannot be read ({error.strerror or error}); a readable image file is needed; check its name and permissions"
        raise ImageFileError(msg) from error
    except Exception as error:  # codecs fail on hostile bytes with any class there is; all of them mean the same to the reader
        raise refuse_damaged(path, f"{type(error).__name__}: {error}") from error


def check_regular_file(path: Path) -> None:
    """Refuse folders, and pipes and devices too: those may never end; so may files that the system makes up, which claim to be empty."""
    try:
        status = path.stat()
    except ValueError as error:
        msg = f"{str(path)!r} is not a possible file name ({error}); the name of an image file is needed; correct it"
        raise ImageFileError(msg) from error
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe, socket or device"
        msg = f"{str(path)!r} is {kind}; an image file is needed; pass a PNG, JPEG or TIFF file"
        raise ImageFileError(msg)
    if status.st_size == 0:
        msg = f"{str(path)!r} is empty; a PNG, JPEG or TIFF file is needed; convert the image to one of these"
        raise ImageFileError(msg)


def load_extra(library: str, path: Path, *, kind: str, extra: str, otherwise: str) -> Any:  # noqa: ANN401 - a module
    """Return a library that reads a kind of file and comes with an extra.

    Raises
    ------
    MissingExtraError
        Where it is not installed.
    """
    try:
        return import_module(library)
    except ImportError as error:
        name = library.partition(".")[0].replace("_", "-")
        msg = f"{str(path)!r} is {kind}; {name} is needed to read it; install it with: pip install 'napari-qmcif[{extra}]', or {otherwise}"
        raise MissingExtraError(msg) from error
