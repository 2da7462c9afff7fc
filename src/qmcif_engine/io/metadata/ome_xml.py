"""Read the OME-XML description of a TIFF file, taking it as hostile."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from qmcif_engine.io.input.image_file import refuse_content, refuse_damaged
from qmcif_engine.io.metadata.length_units import parse_length, settle_lengths

if TYPE_CHECKING:
    from pathlib import Path
    from xml.etree.ElementTree import Element

    from qmcif_engine.stack.picture_metadata import PictureMetadata

MAX_PLANES = 2**20
"""More planes than this in one file are refused before memory is taken for a list of them."""

_LARGEST_XML_CHARACTERS = 2**25
_COUNTS = ("IFD", "PlaneCount", "NumPlanes", "FirstZ", "FirstC", "FirstT")


def parse_ome(text: str, path: Path) -> Element | None:
    """Return the description of the first image's pixels, once nothing in the text can make a reader take memory on its word.

    Document types are refused: OME-XML has none, and they are what entities grow from. Every number that tifffile makes a list of is
    checked here, before tifffile sees it.

    Returns
    -------
    Element or None
        The first ``Pixels``; None where the text is not OME-XML.

    Raises
    ------
    ImageFileError
    """
    if not text.rstrip().endswith("OME>"):
        return None
    if len(text) > _LARGEST_XML_CHARACTERS or "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise refuse_damaged(path, "its OME-XML is too long or declares a document type")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise refuse_damaged(path, f"its OME-XML cannot be parsed: {error}") from error
    elements = list(root.iter())
    if any(_kind(element).startswith("ModuloAlong") for element in elements):
        raise refuse_content(path, given="axes within axes (OME modulo)", needed="plain T, C, Z", remedy="export it without them")
    pixels = [element for element in elements if _kind(element) == "Pixels"]
    for element in pixels:
        _check_counts(element, path)
    return pixels[0] if pixels else None


def _check_counts(pixels: Element, path: Path) -> None:
    try:
        n_planes = math.prod(int(pixels.attrib[f"Size{axis}"]) for axis in "ZCT")
        counts = [[int(child.attrib.get(name, 0)) for name in _COUNTS] for child in pixels if _kind(child) == "TiffData"]
    except (KeyError, ValueError) as error:
        raise refuse_damaged(path, f"its OME-XML gives no sound size: {error}") from error
    total = sum(max(plane_count, other, 1) for _, plane_count, other, *_ in counts)
    is_sane = 1 <= n_planes <= MAX_PLANES and total <= 2 * MAX_PLANES
    if not is_sane or any(not 0 <= value <= MAX_PLANES for row in counts for value in row):
        raise refuse_damaged(path, f"its OME-XML claims {n_planes} planes in {total} pieces")


def describe_pixels(pixels: Element) -> PictureMetadata:
    """Return pixel size, z step and channel names; whatever makes no sense is left out."""
    steps = {axis: parse_length(pixels.attrib.get(f"PhysicalSize{axis}")) for axis in "XYZ"}
    units = {axis: pixels.attrib.get(f"PhysicalSize{axis}Unit", "µm") for axis in "XYZ"}
    channels = [child.attrib for child in pixels if _kind(child) == "Channel"]
    names = tuple(channel.get("Name", "")[:256] for channel in channels)
    colors = tuple(_parse_color(channel.get("Color")) for channel in channels)
    return replace(settle_lengths(steps, units), channel_names=names if all(names) else (), channel_colors=colors if all(colors) else ())


def _parse_color(text: str | None) -> str:
    """Return a color as ``#rrggbb`` from the signed number of 32 bits that OME-XML has for red, green, blue and opacity."""
    try:
        number = int(text or "")
    except ValueError:
        return ""
    return f"#{number >> 8 & 0xFFFFFF:06x}" if -(2**31) <= number < 2**32 else ""


def _kind(element: Element) -> str:
    return element.tag.rpartition("}")[2]
