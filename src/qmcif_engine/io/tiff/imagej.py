"""What ImageJ notes in a TIFF file: read with care, and written so that ImageJ shows channels, time and depth as the source did.

ImageJ takes the samples of all planes to follow each other without gaps, so they are written uncompressed and without tiles. What it has no
place for stands in its text *Info*, one line each, and how the image came about in the line ``qmcif=`` of the description.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from qmcif_engine.io.metadata.embedding import encode_provenance, is_storable_density
from qmcif_engine.io.metadata.length_units import (
    LONGEST_DESCRIPTION,
    LONGEST_NAME,
    UNIT_SYMBOLS,
    complete_emissions,
    complete_limits,
    complete_names,
    parse_length,
    parse_limits,
    settle_seconds,
    settle_unit,
)
from qmcif_engine.io.metadata.ome_xml import name_channels
from qmcif_engine.io.output.windowed_image import ImageContent
from qmcif_engine.stack.image_metadata import ImageMetadata

_COLOR_TABLE_SHAPE = (3, 256)
_NOTE = re.compile(r"^(Name|Description|Emission [1-9][0-9]{0,3}) = (.*)$", re.MULTILINE)
_SAMPLE_KINDS = "BHhf"
"""Types of samples that ImageJ shows: uint8, uint16, int16 and float32."""


def can_be_imagej(content: ImageContent) -> bool:
    """Return whether ImageJ could show what a content holds: no opacity, and samples of a type that it knows."""
    # ImageJ knows RGB at 8 bits only
    is_plain = content.image.dtype.char == "B" or not content.is_rgb
    return content.image.dtype.char in _SAMPLE_KINDS and not content.has_alpha and is_plain


def has_looks(metadata: ImageMetadata) -> bool:
    """Return whether a source says how channels are named or shown."""
    return bool(metadata.channel_names or metadata.channel_colors or metadata.channel_limits or metadata.channel_emissions_nm)


def describe_for_imagej(content: ImageContent, *, axes: str, n_images: int) -> dict[str, Any]:
    """Return the metadata that tifffile turns into the notes of ImageJ.

    Parameters
    ----------
    content : ImageContent
        The image, or the first of several.
    axes : str
        In the order of the samples, such as ``TCYX``.
    n_images : int
        Images along Z or T.
    """
    metadata, n_colors = content.metadata, content.n_colors
    has_colors = len(metadata.channel_colors) == n_colors and not content.is_rgb
    described: dict[str, Any] = {"axes": axes, "mode": "composite" if has_colors and n_colors > 1 else "grayscale"}
    if metadata.unit is not None and metadata.pixel_size is not None:
        described["unit"] = "um" if metadata.unit == "micrometer" else UNIT_SYMBOLS.get(metadata.unit, metadata.unit)
        if metadata.z_step is not None and "Z" in axes:
            described["spacing"] = metadata.z_step
    if metadata.time_step is not None and "T" in axes:
        described["finterval"] = metadata.time_step
    if has_colors:
        described["LUTs"] = [_ramp(color) for color in metadata.channel_colors]
    if len(metadata.channel_limits) == n_colors:
        described["Ranges"] = tuple(limit for pair in metadata.channel_limits for limit in pair)
    if metadata.channel_names and not content.is_rgb:
        # one for every plane, channels running fastest
        described["Labels"] = name_channels(content) * n_images
    notes = _list_notes(metadata, n_colors)
    if notes:
        described["Info"] = "\n".join(notes) + "\n"
    if content.provenance:
        described["qmcif"] = encode_provenance(content.provenance)
    return described


def _list_notes(metadata: ImageMetadata, n_colors: int) -> list[str]:
    said = {"Name": metadata.image_name, "Description": metadata.description}
    # a note is one line: line breaks become spaces
    notes = [f"{name} = {' '.join(text.split())}" for name, text in said.items() if text]
    if len(metadata.channel_emissions_nm) == n_colors:
        known = enumerate(metadata.channel_emissions_nm, 1)
        notes += [f"Emission {number} = {wavelength:g} nm" for number, wavelength in known if wavelength is not None]
    return notes


def _ramp(color: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the table that leads from black to a color, shape (3, 256)."""
    full = np.array([int(color[start : start + 2], 16) for start in (1, 3, 5)])
    return np.rint(full[:, None] * np.arange(256) / 255).astype(np.uint8)


def describe_resolution(metadata: ImageMetadata) -> dict[str, Any]:
    """Return the size of a pixel as options of tifffile: pixels a unit, the unit being that of the description."""
    if metadata.unit is None or metadata.pixel_size is None:
        return {}
    height, width = metadata.pixel_size
    if not all(is_storable_density(side) for side in metadata.pixel_size):
        return {}
    # the unit of ImageJ stands in its description; tags that named inches would contradict it
    return {"resolution": (1 / width, 1 / height), "resolutionunit": "NONE"}


def read_imagej(notes: dict[str, Any], *, densities: Sequence[float | None]) -> ImageMetadata:
    """Return what the notes of a file say; whatever makes no sense is left out.

    Parameters
    ----------
    notes : dict
        As tifffile returns them.
    densities : sequence of float or None
        Pixels a unit, across and down.
    """
    n_channels = _count(notes.get("channels"))
    said = dict(_NOTE.findall(notes["Info"][:LONGEST_DESCRIPTION])) if isinstance(notes.get("Info"), str) else {}
    emissions = [parse_length(said.get(f"Emission {number}", "").removesuffix(" nm")) for number in range(1, n_channels + 1)]
    described = ImageMetadata(
        image_name=said.get("Name", "")[:LONGEST_NAME] or None,
        description=said.get("Description") or None,
        time_step=settle_seconds(notes.get("finterval"), "s"),
        channel_names=_list_names(notes.get("Labels"), n_channels),
        channel_colors=_list_colors(notes.get("LUTs")),
        channel_limits=_list_limits(notes, n_channels),
        channel_emissions_nm=complete_emissions(emissions),
    )
    unit = settle_unit(notes.get("unit"))
    if unit is None:
        return described
    across, down = densities
    return replace(
        described, pixel_size=(1 / down, 1 / across) if across and down else None, z_step=parse_length(notes.get("spacing")), unit=unit
    )


def _count(value: object) -> int:
    """Return a number of channels; one where the notes give none, or more than anybody has."""
    return value if isinstance(value, int) and 1 <= value < LONGEST_DESCRIPTION else 1


def _list_names(labels: object, n_channels: int) -> tuple[str, ...]:
    """Return the labels of the first planes where those of all others repeat them, as names of channels do and names of files do not."""
    if not isinstance(labels, list) or len(labels) < n_channels or not all(isinstance(label, str) for label in labels):
        return ()
    names = labels[:n_channels]
    is_repeated = len(labels) % n_channels == 0 and labels == names * (len(labels) // n_channels)
    return complete_names(names) if is_repeated and (len(labels) > n_channels or n_channels > 1) else ()


def _list_limits(notes: dict[str, Any], n_channels: int) -> tuple[tuple[float, float], ...]:
    """Return the limits of every channel: from the list of them, else those of the only one."""
    ranges = notes.get("Ranges")
    if isinstance(ranges, (tuple, list)) and len(ranges) == 2 * n_channels:
        return complete_limits([parse_limits(ranges[start : start + 2]) for start in range(0, len(ranges), 2)])
    return complete_limits([parse_limits([notes.get("min"), notes.get("max")])]) if n_channels == 1 else ()


def _list_colors(tables: object) -> tuple[str, ...]:
    """Return the color in which ImageJ shows the largest sample of every channel, from the tables it looks colors up in."""
    if not isinstance(tables, list) or not all(isinstance(table, np.ndarray) and table.shape == _COLOR_TABLE_SHAPE for table in tables):
        return ()
    return tuple(f"#{bytes(table[:, -1]).hex()}" for table in tables)
