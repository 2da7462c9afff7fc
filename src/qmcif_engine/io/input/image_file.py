"""What was read from an image file, and why a file was refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.errors import ImageFileError
from qmcif_engine.io.metadata.orientation import UPRIGHT, turn_upright, upright_size
from qmcif_engine.stack.picture_metadata import PictureMetadata

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from qmcif_engine.kernels.array_types import SampleArray

MAX_PIXELS = 2**30
"""More pixels than this are refused before any memory is taken for them."""

MAX_EXPANSION = 4096
"""Decoded bytes per stored byte beyond which a size claim is a lie: Deflate ends at 1032, LZW below 2600, ordinary JPEG at 1024."""


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


@dataclass(frozen=True, slots=True, eq=False)
class StoredPicture:
    """A picture as its decoder returns it, before it is turned and split.

    Parameters
    ----------
    channels : ndarray, shape (H, W, C)
        C is 1 (gray), 2 (gray, alpha), 3 (RGB) or 4 (RGB, alpha).
    orientation : int
        EXIF orientation, 1 to 8.
    significant_bits : int, optional
        The file's claim.
    """

    channels: NDArray[Any]
    orientation: int
    significant_bits: int | None = None

    @property
    def upright(self) -> NDArray[Any]:
        """The channels as the photographer saw them: a view."""
        return turn_upright(self.channels, self.orientation)


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureHeader:
    """What a file says about its picture before anything of it is decoded.

    Attributes
    ----------
    height, width : int
        As stored.
    n_samples : int
        Channels as `StoredPicture` has them, alpha included.
    dtype : dtype
    orientation : int
        EXIF orientation, 1 to 8.
    metadata : PictureMetadata
    """

    height: int
    width: int
    n_samples: int
    dtype: np.dtype[Any]
    orientation: int = UPRIGHT
    metadata: PictureMetadata = field(default_factory=PictureMetadata)

    @property
    def upright_size(self) -> tuple[int, int]:
        """Height and width of the picture as the photographer saw it."""
        return upright_size(self.height, self.width, self.orientation)


def assemble_image(picture: StoredPicture) -> ImageFile:
    """Split alpha off, turn the picture upright and make it contiguous.

    The claim of significant bits is dropped where a sample is larger than it allows, since clipping to it would destroy samples.
    """
    upright, significant_bits = picture.upright, picture.significant_bits
    n_colors = 1 if upright.shape[2] < 3 else 3
    color = upright[:, :, 0] if n_colors == 1 else upright[:, :, :3]
    if significant_bits is not None and color.size and int(color.max()) >= 2**significant_bits:
        significant_bits = None
    return ImageFile(
        samples=np.ascontiguousarray(color),
        alpha=np.ascontiguousarray(upright[:, :, n_colors]) if upright.shape[2] > n_colors else None,
        significant_bits=significant_bits,
    )


def refuse_damaged(path: Path, reason: str) -> ImageFileError:
    """Return the error for a truncated or corrupt file, so that every decoder words it alike."""
    first_line = " ".join(reason.split())[:160] or "no reason known"
    return ImageFileError(f"{str(path)!r} is truncated or corrupt ({first_line}); a complete file is needed; copy or export it again")


def refuse_content(path: Path, *, given: str, needed: str, remedy: str) -> ImageFileError:
    """Return the error for a sound file of a kind that cannot be used without loss or guesswork."""
    return ImageFileError(f"{str(path)!r} holds {given}; {needed} is needed; {remedy}")


def check_claimed_size(
    path: Path, *, height: int, width: int, decoded_bytes: int, stored_bytes: int | None, max_pixels: int = MAX_PIXELS
) -> None:
    """Refuse a header whose claimed size is absurd, before memory is taken on its word.

    Parameters
    ----------
    path : Path
        For the message.
    height, width : int
        Claimed size in pixels.
    decoded_bytes : int
        What the decoded picture would take.
    stored_bytes : int or None
        What the file has for it; None for codecs whose expansion has no useful bound.
    max_pixels : int, optional
        How many pixels a header may claim.
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
    if stored_bytes is not None and decoded_bytes > MAX_EXPANSION * stored_bytes:
        raise refuse_damaged(path, f"its header claims {width} x {height} pixels, which cannot come from {stored_bytes} bytes")


def check_decoded_shape(path: Path, decoded: NDArray[Any], header: PictureHeader) -> NDArray[Any]:
    """Return the decoded samples, of shape (H, W) or (H, W, C), as (H, W, C) once they are known to be what the header claimed."""
    channels = decoded[:, :, np.newaxis] if decoded.ndim == 2 else decoded
    shape = (header.height, header.width, header.n_samples)
    if channels.shape != shape or channels.dtype != header.dtype:
        raise refuse_damaged(path, f"header claims {shape} {header.dtype}, samples are {channels.shape} {channels.dtype}")
    return channels
