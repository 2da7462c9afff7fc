"""Writers of images and maps: completely or not at all, and never over a file that nobody offered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.errors import InvalidImageError
from qmcif_engine.io.output.map_files import check_maps_target, map_path
from qmcif_engine.io.output.output_formats import check_content, choose_format
from qmcif_engine.io.output.placement import check_place
from qmcif_engine.io.output.stack_files import check_stack_target, place_series
from qmcif_engine.io.output.streamed_output import place_contents, stream_outputs
from qmcif_engine.io.output.windowed_image import ArrayImage, assemble_content
from qmcif_engine.io.remote.remote_path import RemotePath
from qmcif_engine.stack.image_metadata import ImageMetadata

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from numpy.typing import DTypeLike, NDArray

    from qmcif_engine.io.output.windowed_image import ImageContent

__all__ = ["check_maps_target", "check_target", "map_path", "stream_outputs", "write_image", "write_images"]


def write_image(
    path: str | os.PathLike[str],
    samples: NDArray[Any],
    *,
    alpha: NDArray[Any] | None = None,
    pixel_size: tuple[float, float] | None = None,
    unit: str | None = None,
    metadata: ImageMetadata | None = None,
    provenance: Mapping[str, object] | None = None,
    has_time: bool = False,
    overwrite: bool = False,
) -> None:
    """Write one image in the format its suffix names; the file appears complete or not at all.

    The same samples always give the same bytes: neither time nor place is stored.

    Parameters
    ----------
    path : path-like
        Ends in ``.png``, ``.jpg``, ``.jpeg``, ``.tif``, ``.tiff``, ``.ome.tif``, ``.ome.tiff``, ``.ome.zarr`` or ``.zarr``.
    samples : ndarray of uint8, uint16, float32 or float64, shape (H, W) or (H, W, 3)
        PNG holds integers, JPEG only uint8, the others everything.
    alpha : ndarray of the same dtype, shape (H, W), optional
        Unassociated opacity; JPEG cannot hold it.
    pixel_size : tuple of float, optional
        Height and width of a pixel, kept as far as the format has a place for it.
    unit : str, optional
        Its unit as OME-NGFF writes it, for example ``micrometer``.
    metadata : ImageMetadata, optional
        What else the image says about itself, such as channel names or the EXIF block of a camera; channels that were recorded one by one
        may be of any number.
    provenance : mapping of str to JSON values, optional
        How the image came about, kept as far as the format has a place for it.
    has_time : bool, optional
        Whether the first axis of samples and alpha is time, for which TIFF, OME-TIFF and OME-Zarr have a place.
    overwrite : bool, optional
        Whether an existing file may be replaced.

    Raises
    ------
    InvalidImageError
        When the arrays are not an image.
    OutputError
        When the format cannot hold them or the place cannot be written.
    """
    found = ImageMetadata() if metadata is None else metadata
    found = replace(found, pixel_size=pixel_size or found.pixel_size, unit=unit or found.unit)
    points = zip(samples, samples if alpha is None else alpha, strict=True) if has_time else [(samples, alpha)]
    held = [_hold(image, None if alpha is None else opacity, has_any=found.has_separate_channels) for image, opacity in points]
    contents = [replace(content, metadata=found, provenance=provenance or {}) for content in held]
    if has_time:
        image = contents[0].image
        shape, target = image.shape, Path(path)
        check_stack_target(target, len(contents), dtype=image.dtype, has_alpha=alpha is not None, shape=shape, overwrite=overwrite)
        place_series({Path(path): contents}, overwrite=overwrite)
    else:
        place_contents({Path(path): contents[0]}, overwrite=overwrite)


def write_images(images: Mapping[Path, NDArray[Any]], *, overwrite: bool = False) -> None:
    """Write each image as `write_image` does, but all of them appear or none.

    Parameters
    ----------
    images : mapping of Path to ndarray
        The samples for each file; its folder must exist.
    overwrite : bool, optional
        Whether existing files may be replaced.
    """
    place_contents({target: _hold(samples) for target, samples in images.items()}, overwrite=overwrite)


def _hold(samples: NDArray[Any], alpha: NDArray[Any] | None = None, *, has_any: bool = False) -> ImageContent:
    """Return arrays in memory as the content of a file, once they are known to be gray or RGB, or to have any number of channels."""
    is_image = samples.ndim == 2 or (samples.ndim == 3 and (has_any or samples.shape[2] == 3))
    if not is_image or samples.size == 0:
        msg = f"an array of shape {samples.shape} was to be written; (H, W) or (H, W, 3) without empty sides is needed; reshape it"
        raise InvalidImageError(msg)
    opacity = None if alpha is None else ArrayImage(alpha)
    return assemble_content(ArrayImage(samples), opacity, metadata=ImageMetadata(), provenance={})


def check_target(
    path: str | os.PathLike[str] | RemotePath,
    *,
    overwrite: bool,
    samples_dtype: DTypeLike | None = None,
    has_alpha: bool = False,
    shape: tuple[int, ...] = (1, 1),
) -> None:
    """Refuse a target that ``write_image`` or ``stream_outputs`` would refuse, before any work is spent on what goes there.

    Parameters
    ----------
    path : path-like
        The file to be written.
    overwrite : bool
        Whether an existing file may be replaced.
    samples_dtype : dtype, optional
        What will be written, where already known.
    has_alpha : bool, optional
        Whether alpha will be written with it.
    shape : tuple of int, optional
        Height, width and, where there is more than one, channels without alpha, where already known.
    """
    target = path if isinstance(path, RemotePath) else Path(path)
    check_content(target, dtype=None if samples_dtype is None else np.dtype(samples_dtype), has_alpha=has_alpha, shape=shape)
    check_place(target, overwrite=overwrite, is_store=choose_format(target).is_store)
