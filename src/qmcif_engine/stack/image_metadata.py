"""What an image says about itself beyond its samples: pixel size, axes, channel names, and what cameras write."""

from __future__ import annotations

from dataclasses import dataclass

COLOR_NAMES = (("r", "g", "b"), ("red", "green", "blue"))
"""What the channels of a color image are called, in lower case; other names are those of dyes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageMetadata:
    """What is known about a stack or an image beside its samples; everything is optional.

    Attributes
    ----------
    image_name : str or None
        What the acquisition calls the image.
    description : str or None
        What it says of it in words.
    pixel_size : tuple of float, or None
        Height and width of a pixel, in `unit`.
    z_step : float or None
        Distance between neighboring images of a stack, in `unit`.
    unit : str or None
        Unit of length as OME-NGFF writes it, for example ``micrometer``.
    time_step : float or None
        Seconds between neighboring time points.
    channel_names : tuple of str
        One a channel where they are known, else empty.
    channel_colors : tuple of str
        One a channel as ``#rrggbb``, where they are known, else empty.
    channel_limits : tuple of (float, float)
        The samples that are shown black and in full color, one pair a channel, where all of them are known, else empty.
    channel_emissions_nm : tuple of float or None
        Wavelength of the light of every channel, where that of at least one is known, else empty.
    has_separate_channels : bool
        Whether the channels were recorded one by one, as dyes are, rather than being the colors of one image.
    significant_bits : int or None
        How many low bits of each integer sample are used, where the source says so.
    icc_profile, exif : bytes or None
        Color profile, and the camera's description as a TIFF-structured EXIF block, without the six-byte JPEG prefix.
    dpi : tuple of float, or None
        Horizontal and vertical resolution for printing.
    """

    image_name: str | None = None
    description: str | None = None
    pixel_size: tuple[float, float] | None = None
    z_step: float | None = None
    unit: str | None = None
    time_step: float | None = None
    channel_names: tuple[str, ...] = ()
    channel_colors: tuple[str, ...] = ()
    channel_limits: tuple[tuple[float, float], ...] = ()
    channel_emissions_nm: tuple[float | None, ...] = ()
    has_separate_channels: bool = False
    significant_bits: int | None = None
    icc_profile: bytes | None = None
    exif: bytes | None = None
    dpi: tuple[float, float] | None = None


def name_planes(names: tuple[str, ...], n_planes: int) -> tuple[str, ...]:
    """Return a name for each of several planes that are no colors: those given, else numbers."""
    is_usable = len(names) == n_planes and tuple(name.lower() for name in names) not in COLOR_NAMES
    return names if is_usable else tuple(f"Channel {number}" for number in range(1, n_planes + 1))
