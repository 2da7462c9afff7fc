"""What a picture says about itself beyond its samples: pixel size, axes, channel names, and what cameras write."""

from __future__ import annotations

from dataclasses import dataclass

COLOR_NAMES = (("r", "g", "b"), ("red", "green", "blue"))
"""What the channels of a color picture are called, in lower case; other names are those of dyes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureMetadata:
    """Describe a stack or a picture; everything is optional, and nothing of it touches a sample.

    Attributes
    ----------
    pixel_size : tuple of float, or None
        Height and width of a pixel, in `unit`.
    z_step : float or None
        Distance between neighboring images of a stack, in `unit`.
    unit : str or None
        Unit of length as OME-NGFF writes it, for example ``micrometer``.
    channel_names : tuple of str
        One a channel where they are known, else empty.
    channel_colors : tuple of str
        One a channel as ``#rrggbb``, where all of them are known, else empty.
    significant_bits : int or None
        How many low bits of each integer sample are used, where the source says so.
    icc_profile, exif : bytes or None
        Color profile, and the camera's description as a TIFF-structured EXIF block, without the six-byte JPEG prefix.
    dpi : tuple of float, or None
        Horizontal and vertical resolution for printing.
    """

    pixel_size: tuple[float, float] | None = None
    z_step: float | None = None
    unit: str | None = None
    channel_names: tuple[str, ...] = ()
    channel_colors: tuple[str, ...] = ()
    significant_bits: int | None = None
    icc_profile: bytes | None = None
    exif: bytes | None = None
    dpi: tuple[float, float] | None = None


def name_planes(names: tuple[str, ...], n_planes: int) -> tuple[str, ...]:
    """Return a name for each of several planes that are no colors: those given, else numbers."""
    is_usable = len(names) == n_planes and tuple(name.lower() for name in names) not in COLOR_NAMES
    return names if is_usable else tuple(f"Channel {number}" for number in range(1, n_planes + 1))
