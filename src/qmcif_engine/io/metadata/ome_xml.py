"""OME-XML: read from a TIFF file, taken as hostile, and what tifffile writes of a picture."""

from __future__ import annotations

import math
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from qmcif_engine.io.input.image_file import refuse_content, refuse_damaged
from qmcif_engine.io.limits import LARGEST_XML_CHARACTERS, MAX_PLANES
from qmcif_engine.io.metadata.embedding import encode_provenance, name_software
from qmcif_engine.io.metadata.length_units import UNIT_SYMBOLS, parse_length, settle_lengths

if TYPE_CHECKING:
    from pathlib import Path
    from xml.etree.ElementTree import Element

    from qmcif_engine.io.output.picture import PictureContent
    from qmcif_engine.stack.picture_metadata import PictureMetadata


_UNKNOWN_UNIT = "reference frame"
_UUID_NAMESPACE = uuid.UUID("5b1bd5f1-4d3f-5a4e-9c0e-0d6f0b1f7c55")
_COUNTS = ("IFD", "PlaneCount", "NumPlanes", "FirstZ", "FirstC", "FirstT")


def parse_ome(text: str, path: Path) -> Element | None:
    """Return the description of the first image's pixels, once nothing in the text can make a reader take memory on its word.

    Document types are refused: OME-XML has none, and they are what entities grow from. Every number that tifffile makes a list of is
    checked here, before tifffile sees it.

    Returns
    -------
    Element or None
        The first ``Pixels``; None where the text is not OME-XML.
    """
    if not text.rstrip().endswith("OME>"):
        return None
    if len(text) > LARGEST_XML_CHARACTERS or "<!DOCTYPE" in text or "<!ENTITY" in text:
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


def describe_for_xml(content: PictureContent, *, axes: str) -> dict[str, Any]:
    """Return the metadata that tifffile turns into OME-XML.

    Parameters
    ----------
    content : PictureContent
    axes : str
        ``YX``, ``YXS`` for samples side by side, or ``CYX`` for a plane per channel; with ``Z`` in front for a stack.

    Returns
    -------
    dict
        With an identifier that depends on content and provenance alone, where the library would take time and network address.
    """
    metadata = content.metadata
    described: dict[str, Any] = {
        "axes": axes,
        "UUID": str(_identify(content)),
        "Creator": name_software(content.provenance) or "napari-qmcif",
        "Name": "picture",
    }
    height, width = metadata.pixel_size or (None, None)
    for axis, length in (("Y", height), ("X", width), ("Z", metadata.z_step if "Z" in axes else None)):
        if length is not None:
            described |= {f"PhysicalSize{axis}": length, f"PhysicalSize{axis}Unit": UNIT_SYMBOLS.get(metadata.unit or "", _UNKNOWN_UNIT)}
    if metadata.significant_bits is not None and content.picture.dtype.kind == "u":
        described["SignificantBits"] = metadata.significant_bits
    if metadata.channel_names:
        names = name_channels(content)
        described["Channel"] = {"Name": names if "C" in axes else [", ".join(names)]}
    if content.provenance:
        described["CommentAnnotation"] = {"Namespace": "qmcif", "Value": encode_provenance(content.provenance)}
    return described


def name_channels(content: PictureContent) -> list[str]:
    """Return a name for every channel: those given, else what the channels are or their number."""
    given = content.metadata.channel_names
    if len(given) == content.n_colors:
        names = list(given)
    elif content.is_rgb:
        names = ["Red", "Green", "Blue"]
    else:
        names = ["Gray"] if content.n_colors == 1 else [f"Channel {number}" for number in range(1, content.n_colors + 1)]
    return names + ["Alpha"] * content.has_alpha


def _identify(content: PictureContent) -> uuid.UUID:
    shape, dtype = tuple(content.picture.shape), content.picture.dtype.name
    return uuid.uuid5(_UUID_NAMESPACE, f"{shape} {dtype} {name_channels(content)} {encode_provenance(content.provenance)}")
