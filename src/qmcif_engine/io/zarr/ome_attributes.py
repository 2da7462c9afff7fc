"""What an OME-Zarr group says of its image: axes, scales, rendering, and provenance under a key of our own."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.io.metadata.embedding import encode_provenance, prepare_embedding
from qmcif_engine.io.metadata.ome_xml import name_channels
from qmcif_engine.io.output.windowed_image import ImageContent, StackAxis

_RGB_COLORS = ("FF0000", "00FF00", "0000FF")
_DYE_COLORS = ("0000FF", "00FF00", "FF0000", "FF00FF", "00FFFF", "FFFF00")
_WHITE = "FFFFFF"


class Extremes:
    """Least and largest finite sample of every color, from which viewers set their contrast.

    Attributes
    ----------
    bounds : ndarray of float64, shape (2, number of colors)
        The least and the largest ones; infinite, the wrong way round, where there is no finite sample.
    """

    def __init__(self, n_colors: int) -> None:
        self.bounds = np.array([[np.inf], [-np.inf]]).repeat(n_colors, axis=1)

    def widen(self, bounds: NDArray[np.float64]) -> None:
        """Take the extremes of some samples into account."""
        self.bounds = np.stack([np.minimum(self.bounds[0], bounds[0]), np.maximum(self.bounds[1], bounds[1])])

    def include(self, samples: NDArray[Any]) -> None:
        """Take samples into account, shape (h, w) or (h, w, colors)."""
        by_color = samples.reshape(-1, self.bounds.shape[1])
        is_finite = np.isfinite(by_color)
        # integers need no mask, and have no infinity to begin with
        low = np.min(by_color, axis=0, initial=np.inf, where=is_finite) if by_color.dtype.kind == "f" else by_color.min(axis=0)
        high = np.max(by_color, axis=0, initial=-np.inf, where=is_finite) if by_color.dtype.kind == "f" else by_color.max(axis=0)
        self.widen(np.stack([low, high]).astype(np.float64))

    def of_colors(self, *, are_shared: bool) -> list[tuple[float, float]]:
        """Return the least and the largest sample of every color, or of all of them together."""
        bounds = np.stack([self.bounds[0].min(keepdims=True), self.bounds[1].max(keepdims=True)]) if are_shared else self.bounds
        # a constant channel, or one without a finite sample, needs some window all the same
        pairs = [(float(low), float(high)) if low < high else (0.0, 1.0) for low, high in bounds.T]
        return pairs * self.bounds.shape[1] if are_shared else pairs


def name_axes(shape: tuple[int, ...], axis: StackAxis | None) -> list[str]:
    """Return the names of the axes of an image of shape (H, W) or (H, W, C), or of such images along z or t, in their order."""
    return ["t"] * (axis == "T") + ["c"] * (len(shape) == 3) + ["z"] * (axis == "Z") + ["y", "x"]


def describe_group(content: ImageContent, *, n_levels: int, extremes: Extremes, axis: StackAxis | None = None) -> dict[str, Any]:
    """Return the attributes of a group of levels, of an image or of images along z or t."""
    multiscale: dict[str, Any] = {
        **({"name": content.metadata.image_name} if content.metadata.image_name else {}),
        "axes": _axes(content, axis),
        "datasets": [_dataset(content, level, axis) for level in range(n_levels)],
        # how smaller levels were made
        "type": "mean",
    }
    return {"ome": {"version": "0.5", "multiscales": [multiscale], "omero": _rendering(content, extremes)}} | _own_attributes(content)


def _axes(content: ImageContent, axis: StackAxis | None) -> list[dict[str, str]]:
    metadata = content.metadata
    known = {"y": metadata.pixel_size, "x": metadata.pixel_size, "z": metadata.z_step}
    units = {name: {"unit": metadata.unit} if metadata.unit and length else {} for name, length in known.items()}
    units |= {"c": {}, "t": {"unit": "second"} if metadata.time_step else {}}
    kinds = {"c": "channel", "t": "time"}
    return [{"name": name, "type": kinds.get(name, "space")} | units[name] for name in name_axes(content.image.shape, axis)]


def _dataset(content: ImageContent, level: int, axis: StackAxis | None) -> dict[str, Any]:
    """Return the place of a level: its first pixel covers several of the image's, so its center lies a little further in."""
    factor = 2**level
    # in pixels of the full level
    shift = (factor - 1) / 2
    pixel = content.metadata.pixel_size or (1.0, 1.0)
    steps = {"c": 1.0, "z": content.metadata.z_step or 1.0, "t": content.metadata.time_step or 1.0}
    before = [steps[name] for name in name_axes(content.image.shape, axis)[:-2]]
    return {
        "path": str(level),
        "coordinateTransformations": [
            {"type": "scale", "scale": [*before, *(side * factor for side in pixel)]},
            {"type": "translation", "translation": [0.0] * len(before) + [side * shift for side in pixel]},
        ],
    }


def _rendering(content: ImageContent, extremes: Extremes) -> dict[str, Any]:
    """Return how channels are shown: as the source says, else in usual colors, each as far as it has samples; alpha as the first."""
    metadata, n_colors = content.metadata, content.n_colors
    if len(metadata.channel_colors) == n_colors:
        colors: tuple[str, ...] = tuple(color[1:].upper() for color in metadata.channel_colors)
    elif content.is_rgb:
        colors = _RGB_COLORS
    else:
        colors = (_WHITE,) if n_colors == 1 else _DYE_COLORS
    # the colors of an image share one contrast, so that they keep their balance
    pairs = extremes.of_colors(are_shared=content.is_rgb)
    windows = [_display_window(content, *pair, limits=limits) for pair, limits in zip(pairs, _known_limits(content), strict=True)]
    emissions = metadata.channel_emissions_nm if len(metadata.channel_emissions_nm) == n_colors else (None,) * n_colors
    channels = [
        {
            "label": name,
            "color": _WHITE if is_alpha else colors[number % len(colors)],
            "active": not is_alpha,
            "coefficient": 1,
            "family": "linear",
            "inverted": False,
            "window": windows[0 if is_alpha else number],
            **({} if is_alpha or emissions[number] is None else {"emissionWave": emissions[number]}),
        }
        for number, name in enumerate(name_channels(content))
        for is_alpha in [number >= n_colors]
    ]
    return {"channels": channels, "rdefs": {"defaultT": 0, "defaultZ": 0, "model": "color" if content.n_colors > 1 else "greyscale"}}


def _known_limits(content: ImageContent) -> Sequence[tuple[float, float] | None]:
    limits = content.metadata.channel_limits
    return limits if len(limits) == content.n_colors else (None,) * content.n_colors


def _display_window(content: ImageContent, low: float, high: float, *, limits: tuple[float, float] | None) -> dict[str, float]:
    """Return the contrast of a channel: the limits of the source, else 8 bits whole and others as far as there are samples."""
    if limits is not None:
        # a slider must reach both what the source shows and all samples
        start, end = limits
        window = _display_window(content, low, high, limits=None)
        return {"min": min(window["min"], start), "max": max(window["max"], end), "start": start, "end": end}
    if content.image.dtype.kind != "u":
        return {"min": low, "max": high, "start": low, "end": high}
    n_bits = content.metadata.significant_bits or 8 * content.image.dtype.itemsize
    largest = 2**n_bits - 1
    is_whole = content.image.dtype.itemsize == 1
    return {"min": 0, "max": largest, "start": 0 if is_whole else int(low), "end": largest if is_whole else int(high)}


def _own_attributes(content: ImageContent) -> dict[str, Any]:
    """Return provenance under one key, and with it what cameras write, for which OME-Zarr has no place."""
    own: dict[str, Any] = json.loads(encode_provenance(content.provenance))
    metadata, embedding = content.metadata, prepare_embedding(content)
    for name, value in (("icc_profile", embedding.profile), ("exif", embedding.exif)):
        if value is not None:
            own["qmcif"][name] = base64.b64encode(value).decode()
    if metadata.description:
        own["qmcif"]["description"] = metadata.description
    if metadata.dpi is not None:
        own["qmcif"]["dpi"] = list(metadata.dpi)
    if metadata.significant_bits is not None:
        own["qmcif"]["significant_bits"] = metadata.significant_bits
    return own
