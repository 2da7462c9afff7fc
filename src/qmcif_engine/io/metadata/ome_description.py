"""What a picture is in the terms of OME: size of a pixel, names of channels, significant bits, provenance."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from qmcif_engine.io.metadata.embedding import encode_provenance, name_software

if TYPE_CHECKING:
    from qmcif_engine.io.output.picture import PictureContent

PROVENANCE_NAMESPACE = "qmcif"
"""Namespace of the annotation that holds the provenance as JSON."""

_SYMBOLS = {
    "angstrom": "Å",
    "picometer": "pm",
    "nanometer": "nm",
    "micrometer": "µm",
    "millimeter": "mm",
    "centimeter": "cm",
    "decimeter": "dm",
    "meter": "m",
    "inch": "in",
}
_UNKNOWN_UNIT = "reference frame"
_UUID_NAMESPACE = uuid.UUID("5b1bd5f1-4d3f-5a4e-9c0e-0d6f0b1f7c55")


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
    if metadata.pixel_size is not None:
        symbol = _SYMBOLS.get(metadata.unit or "", _UNKNOWN_UNIT)
        height, width = metadata.pixel_size
        described |= {"PhysicalSizeY": height, "PhysicalSizeYUnit": symbol, "PhysicalSizeX": width, "PhysicalSizeXUnit": symbol}
    if metadata.z_step is not None and "Z" in axes:
        described |= {"PhysicalSizeZ": metadata.z_step, "PhysicalSizeZUnit": _SYMBOLS.get(metadata.unit or "", _UNKNOWN_UNIT)}
    if metadata.significant_bits is not None and content.picture.dtype.kind == "u":
        described["SignificantBits"] = metadata.significant_bits
    if metadata.channel_names:
        names = name_channels(content)
        described["Channel"] = {"Name": names if "C" in axes else [", ".join(names)]}
    if content.provenance:
        described["CommentAnnotation"] = {"Namespace": PROVENANCE_NAMESPACE, "Value": encode_provenance(content.provenance)}
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
