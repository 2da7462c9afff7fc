"""OME-XML: read from a TIFF file, whose claims are checked first, and what tifffile writes of an image."""

from __future__ import annotations

import math
import uuid
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from qmcif_engine.io.input.image_file import refuse_content, refuse_damaged
from qmcif_engine.io.limits import LARGEST_XML_CHARACTERS, MAX_PLANES, MOST_JSON_ITEMS, MOST_XML_ELEMENTS
from qmcif_engine.io.metadata.embedding import encode_provenance, name_software
from qmcif_engine.io.metadata.units import (
    LONGEST_DESCRIPTION,
    LONGEST_NAME,
    UNIT_SYMBOLS,
    ChannelLook,
    complete_looks,
    convert_length,
    parse_length,
    parse_unit,
    to_one_unit,
    to_seconds,
)
from qmcif_engine.io.output.windowed_image import ImageContent
from qmcif_engine.io.remote_path import Location
from qmcif_engine.stack.image_metadata import ImageMetadata

_LIMITS = "qmcif/display limits"
"""Names the annotation with the limits of channels, for which OME-XML has no place."""

_UNKNOWN_UNIT = "reference frame"
_UUID_NAMESPACE = uuid.UUID("5b1bd5f1-4d3f-5a4e-9c0e-0d6f0b1f7c55")
_COUNTS = ("IFD", "PlaneCount", "NumPlanes", "FirstZ", "FirstC", "FirstT")


def check_description(text: str, path: Location) -> None:
    """Refuse a description that takes far more memory once it is parsed, by whatever reader: many elements, or entities that grow.

    Document types are refused: no description of an image has one, and they are what entities grow from.
    """
    # searched as text: a parser would already have taken the memory
    if len(text) > LARGEST_XML_CHARACTERS or text.count("<") > MOST_XML_ELEMENTS or "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise refuse_damaged(path, "its OME-XML or other description is too long or declares a document type")
    # tifffile parses descriptions in JSON too
    if not text.lstrip().startswith("<") and sum(text.count(mark) for mark in ",[{") > MOST_JSON_ITEMS:
        raise refuse_damaged(path, f"its description has more than {MOST_JSON_ITEMS} items")


def parse_ome(text: str, path: Location) -> ImageMetadata | None:
    """Return what is said of the first image, once nothing in the text makes a reader take memory for a mere claim.

    Every number that tifffile makes a list of is checked here, before tifffile sees it.

    Returns
    -------
    ImageMetadata or None
        Whatever makes no sense is left out; None where the text is not OME-XML.
    """
    # as tifffile decides, with or without a prefix of the namespace
    if not text.rstrip().endswith("OME>"):
        return None
    root = _parse(text, path)
    if any(root.find(f".//{{*}}ModuloAlong{axis}") is not None for axis in "ZCT"):
        raise refuse_content(path, given="axes within axes (OME modulo)", needed="plain T, C, Z", remedy="export it without them")
    pixels = root.findall(".//{*}Pixels")
    for element in pixels:
        _check_counts(element, path)
    if not pixels:
        return None
    # schemas have it in an image; the limits of channels that we noted are in the text's own part
    image = next((element for element in root.findall(".//{*}Image") if pixels[0] in list(element)), Element("Image"))
    notes = root.find(f".//{{*}}MapAnnotation[@Namespace='{_LIMITS}']")
    limits = {} if notes is None else {entry.attrib.get("K", ""): entry.text or "" for entry in notes.findall(".//{*}M")}
    return replace(
        _describe_pixels(pixels[0], limits),
        image_name=image.attrib.get("Name", "")[:LONGEST_NAME] or None,
        description=(image.findtext("{*}Description") or "")[:LONGEST_DESCRIPTION] or None,
    )


def list_image_names(text: str, path: Location) -> list[str]:
    """Return the names of all images in their order, empty where one has none."""
    return [element.attrib.get("Name", "")[:LONGEST_NAME] for element in _parse(text, path).findall(".//{*}Image")]


def _parse(text: str, path: Location) -> Element:
    check_description(text, path)
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise refuse_damaged(path, f"its OME-XML cannot be parsed: {error}") from error


def _check_counts(pixels: Element, path: Location) -> None:
    try:
        n_planes = math.prod(int(pixels.attrib[f"Size{axis}"]) for axis in "ZCT")
        counts = [[int(child.attrib.get(name, 0)) for name in _COUNTS] for child in pixels.findall("{*}TiffData")]
    except (KeyError, ValueError) as error:
        raise refuse_damaged(path, f"its OME-XML gives no sound size: {error}") from error
    # each piece stands for one plane at least, of which tifffile makes entries
    total = sum(max(plane_count, other, 1) for _, plane_count, other, *_ in counts)
    is_sane = 1 <= n_planes <= MAX_PLANES and total <= 2 * MAX_PLANES
    if not is_sane or any(not 0 <= value <= MAX_PLANES for row in counts for value in row):
        raise refuse_damaged(path, f"its OME-XML claims {n_planes} planes in {total} pieces")


def _describe_pixels(pixels: Element, limits: dict[str, str]) -> ImageMetadata:
    """Return pixel size, steps along z and in time, and how channels are named and shown."""
    steps = {axis: parse_length(pixels.attrib.get(f"PhysicalSize{axis}")) for axis in "XYZ"}
    # the default of the schema
    units = {axis: pixels.attrib.get(f"PhysicalSize{axis}Unit", "µm") for axis in "XYZ"}
    looks = [
        ChannelLook(
            name=channel.attrib.get("Name"),
            color=_parse_color(channel.attrib.get("Color")),
            limits=limits.get(f"channel {number}", "").split(),
            emission_nm=_parse_emission(channel),
        )
        for number, channel in enumerate(pixels.findall("{*}Channel"), 1)
    ]
    time_step = to_seconds(pixels.attrib.get("TimeIncrement"), pixels.attrib.get("TimeIncrementUnit", "s"))
    return replace(to_one_unit(steps, units), time_step=time_step, **complete_looks(looks))


def _parse_color(text: str | None) -> str:
    """Return a color as ``#rrggbb`` from the signed number of 32 bits that OME-XML has for red, green, blue and opacity."""
    try:
        number = int(text or "")
    except ValueError:
        return ""
    # unsigned numbers are taken too
    return f"#{number >> 8 & 0xFFFFFF:06x}" if -(2**31) <= number < 2**32 else ""


def _parse_emission(channel: Element) -> float | None:
    unit = parse_unit(channel.attrib.get("EmissionWavelengthUnit", "nm"))
    length = parse_length(channel.attrib.get("EmissionWavelength"))
    return None if length is None or unit is None else convert_length(length, unit, to="nanometer")


def describe_for_xml(content: ImageContent, *, axes: str) -> dict[str, Any]:
    """Return the metadata that tifffile turns into OME-XML.

    Parameters
    ----------
    content : ImageContent
    axes : str
        ``YX``, ``YXS`` for samples side by side, or ``CYX`` for a plane per channel; with ``Z`` in front for a stack.

    Returns
    -------
    dict
        With an identifier that depends on content and provenance alone, where the library would take time and network address.
    """
    metadata, image, names = content.metadata, content.image, name_channels(content)
    identity = f"{tuple(image.shape)} {image.dtype.name} {names} {encode_provenance(content.provenance)}"
    described: dict[str, Any] = {
        "axes": axes,
        "UUID": str(uuid.uuid5(_UUID_NAMESPACE, identity)),
        "Creator": name_software(content.provenance) or "napari-qmcif",
        "Name": metadata.image_name or "image",
    }
    if metadata.description:
        described["Description"] = metadata.description
    if metadata.time_step is not None and "T" in axes:
        described |= {"TimeIncrement": metadata.time_step, "TimeIncrementUnit": "s"}
    height, width = metadata.pixel_size or (None, None)
    for axis, length in (("Y", height), ("X", width), ("Z", metadata.z_step if "Z" in axes else None)):
        if length is not None:
            described |= {f"PhysicalSize{axis}": length, f"PhysicalSize{axis}Unit": UNIT_SYMBOLS.get(metadata.unit or "", _UNKNOWN_UNIT)}
    if metadata.significant_bits is not None and image.dtype.kind == "u":
        described["SignificantBits"] = metadata.significant_bits
    channels = _describe_channels(content) if "C" in axes or content.n_channels == 1 else []
    if any(channels):
        described["Channel"] = channels
    elif metadata.channel_names:
        # one stands for samples side by side
        described["Channel"] = [{"Name": ", ".join(names)}]
    if len(metadata.channel_limits) == content.n_colors:
        limits = {f"channel {number}": f"{low!r} {high!r}" for number, (low, high) in enumerate(metadata.channel_limits, 1)}
        described["MapAnnotation"] = {"Namespace": _LIMITS} | limits
    if content.provenance:
        described["CommentAnnotation"] = {"Namespace": "qmcif", "Value": encode_provenance(content.provenance)}
    return described


def _describe_channels(content: ImageContent) -> list[dict[str, Any]]:
    """Return the attributes of every channel as far as they are known."""
    metadata, channels = content.metadata, [dict[str, Any]() for _ in range(content.n_channels)]
    if metadata.channel_names:
        for channel, name in zip(channels, name_channels(content), strict=True):
            channel["Name"] = name
    if len(metadata.channel_colors) == content.n_colors:
        for channel, color in zip(channels, metadata.channel_colors, strict=False):
            # opaque, as a signed number
            channel["Color"] = int.from_bytes(bytes.fromhex(color[1:]) + b"\xff", "big", signed=True)
    if len(metadata.channel_emissions_nm) == content.n_colors:
        for channel, wavelength in zip(channels, metadata.channel_emissions_nm, strict=False):
            if wavelength is not None:
                channel |= {"EmissionWavelength": wavelength, "EmissionWavelengthUnit": "nm"}
    return channels


def name_channels(content: ImageContent) -> list[str]:
    """Return a name for every channel: those given, else what the channels are or their number."""
    given = content.metadata.channel_names
    if len(given) == content.n_colors:
        names = list(given)
    elif content.is_rgb:
        names = ["Red", "Green", "Blue"]
    else:
        names = ["Gray"] if content.n_colors == 1 else [f"Channel {number}" for number in range(1, content.n_colors + 1)]
    return names + ["Alpha"] * content.has_alpha
