"""What an OME-Zarr group says of its picture: axes, scales, rendering, and provenance under a key of our own."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.io.metadata.embedding import encode_provenance, prepare_embedding
from qmcif_engine.io.metadata.ome_xml import name_channels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.io.output.picture import OmeZarrVersion, PictureContent

_RGB_COLORS = ("FF0000", "00FF00", "0000FF")
_DYE_COLORS = ("0000FF", "00FF00", "FF0000", "FF00FF", "00FFFF", "FFFF00")
_WHITE = "FFFFFF"


class Extremes:
    """Least and largest finite color sample, from which viewers set their contrast."""

    def __init__(self) -> None:
        self.low, self.high = np.inf, -np.inf

    def widen(self, low: float, high: float) -> None:
        """Take the extremes of some samples into account."""
        self.low, self.high = min(self.low, low), max(self.high, high)

    def include(self, samples: NDArray[Any]) -> None:
        """Take samples into account."""
        finite = samples if samples.dtype.kind == "u" else samples[np.isfinite(samples)]
        if finite.size:
            self.widen(float(finite.min()), float(finite.max()))


def name_axes(shape: tuple[int, ...], n_images: int | None) -> list[str]:
    """Return the names of the axes of a picture of shape (H, W) or (H, W, C), or of a stack of such images."""
    return ["c"] * (len(shape) == 3) + ["z"] * (n_images is not None) + ["y", "x"]


def describe_group(
    content: PictureContent, *, version: OmeZarrVersion, n_levels: int, extremes: Extremes, n_images: int | None
) -> dict[str, Any]:
    """Return the attributes of a group of levels, of a picture or of a stack of images."""
    multiscale: dict[str, Any] = {
        "axes": _axes(content, n_images),
        "datasets": [_dataset(content, level, n_images) for level in range(n_levels)],
        "type": "nearest" if content.is_index else "mean",
    }
    described: dict[str, Any] = {"multiscales": [multiscale]}
    if not content.is_index:
        described["omero"] = _rendering(content, extremes)
    if version == "0.4":
        multiscale["version"] = version
        return described | _own_attributes(content)
    return {"ome": {"version": version} | described} | _own_attributes(content)


def _axes(content: PictureContent, n_images: int | None) -> list[dict[str, str]]:
    metadata = content.metadata
    known = {"y": metadata.pixel_size, "x": metadata.pixel_size, "z": metadata.z_step}
    units = {name: {"unit": metadata.unit} if metadata.unit and length else {} for name, length in known.items()}
    names = name_axes(content.picture.shape, n_images)
    return [{"name": name, "type": "channel"} if name == "c" else {"name": name, "type": "space"} | units[name] for name in names]


def _dataset(content: PictureContent, level: int, n_images: int | None) -> dict[str, Any]:
    """Return the place of a level: its first pixel covers several of the picture's, so its center lies a little further in."""
    factor = 2**level
    shift = (factor - 1) / 2
    pixel = content.metadata.pixel_size or (1.0, 1.0)
    channel, depth = content.n_channels > 1, n_images is not None
    step = content.metadata.z_step or 1.0
    return {
        "path": str(level),
        "coordinateTransformations": [
            {"type": "scale", "scale": [1.0] * channel + [step] * depth + [side * factor for side in pixel]},
            {"type": "translation", "translation": [0.0] * (channel + depth) + [side * shift for side in pixel]},
        ],
    }


def _rendering(content: PictureContent, extremes: Extremes) -> dict[str, Any]:
    if content.is_rgb:
        colors: tuple[str, ...] = _RGB_COLORS
    else:
        colors = (_WHITE,) if content.n_colors == 1 else _DYE_COLORS
    window = _display_window(content, extremes)
    channels = [
        {
            "label": name,
            "color": _WHITE if is_alpha else colors[number % len(colors)],
            "active": not is_alpha,
            "coefficient": 1,
            "family": "linear",
            "inverted": False,
            "window": window,
        }
        for number, name in enumerate(name_channels(content))
        for is_alpha in [number >= content.n_colors]
    ]
    return {"channels": channels, "rdefs": {"defaultT": 0, "defaultZ": 0, "model": "color" if content.n_colors > 1 else "greyscale"}}


def _display_window(content: PictureContent, extremes: Extremes) -> dict[str, float]:
    """Return one contrast for all channels, so that colors keep their balance: 8 bits whole, others as far as there are samples."""
    low, high = (extremes.low, extremes.high) if extremes.low < extremes.high else (0.0, 1.0)
    if content.picture.dtype.kind != "u":
        return {"min": low, "max": high, "start": low, "end": high}
    n_bits = content.metadata.significant_bits or 8 * content.picture.dtype.itemsize
    largest = 2**n_bits - 1
    is_whole = content.picture.dtype.itemsize == 1
    return {"min": 0, "max": largest, "start": 0 if is_whole else int(low), "end": largest if is_whole else int(high)}


def _own_attributes(content: PictureContent) -> dict[str, Any]:
    """Return provenance under one key, and with it what cameras write, for which OME-Zarr has no place."""
    own: dict[str, Any] = json.loads(encode_provenance(content.provenance))
    metadata, embedding = content.metadata, prepare_embedding(content)
    for name, value in (("icc_profile", embedding.profile), ("exif", embedding.exif)):
        if value is not None:
            own["qmcif"][name] = base64.b64encode(value).decode()
    if metadata.dpi is not None:
        own["qmcif"]["dpi"] = list(metadata.dpi)
    if metadata.significant_bits is not None:
        own["qmcif"]["significant_bits"] = metadata.significant_bits
    return own
