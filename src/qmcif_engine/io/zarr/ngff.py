"""Read what an OME-Zarr group says about its image: versions 0.4 (Zarr 2) and 0.5 (Zarr 3)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from qmcif_engine.io.input.image_file import refuse_content, refuse_damaged
from qmcif_engine.io.metadata.length_units import parse_length, settle_lengths

if TYPE_CHECKING:
    from pathlib import Path

    from qmcif_engine.stack.picture_metadata import PictureMetadata

_LETTERS_OF_KIND = {"time": "T", "channel": "C"}
_HEXADECIMAL_COLOR = re.compile("[0-9a-fA-F]{6}")
_UNSTATED = "QRUVW"
"""Letters for axes that are none of T, C, Z, Y, X."""


@dataclass(frozen=True, slots=True)
class NgffImage:
    """Which array of a group is the image at full size, and what is said of it."""

    array_path: str
    axes: str
    metadata: PictureMetadata


def describe_image(attributes: dict[str, Any], path: Path) -> NgffImage:
    """Return the image of a group from its attributes.

    Parameters
    ----------
    attributes : dict
        Of the group.
    path : Path
        What messages call the input.
    """
    described = attributes.get("ome", attributes)
    try:
        multiscales = described.get("multiscales") or []
        if not multiscales:
            raise refuse_content(
                path, given="a Zarr group without an image", needed="an OME-Zarr image or an array", remedy="name the one inside it"
            )
        first = multiscales[0]
        level = first["datasets"][0]
        axes = [axis if isinstance(axis, dict) else {"name": axis} for axis in first.get("axes", [])]
        letters = name_ngff_axes(axes)
        scale = _combine_scales(level, first, n_axes=len(axes))
        return NgffImage(_check_inside(level["path"], path), letters, _describe(letters, axes, scale, described.get("omero")))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise refuse_damaged(path, f"its OME-Zarr metadata make no sense: {type(error).__name__}: {error}") from error


def name_ngff_axes(axes: list[dict[str, Any]]) -> str:
    """Return one letter an axis: by its name where that is one of T, C, Z, Y, X, else by its kind, else one of unstated meaning."""
    unstated = iter(_UNSTATED)
    letters = ""
    for axis in axes:
        name = str(axis.get("name", "")).upper()
        letters += name if name in tuple("TCZYX") else _LETTERS_OF_KIND.get(str(axis.get("type")), "") or next(unstated, "Q")
    return letters


def _check_inside(array_path: object, path: Path) -> str:
    """Refuse the path of an array that leads out of its group."""
    is_inside = isinstance(array_path, str) and "\\" not in array_path and "\0" not in array_path and ":" not in array_path
    if not is_inside or any(part in ("", ".", "..") for part in str(array_path).split("/")):
        raise refuse_damaged(path, f"its image is said to be at {array_path!r}")
    return str(array_path)


def _combine_scales(level: dict[str, Any], multiscale: dict[str, Any], *, n_axes: int) -> list[float | None]:
    """Return the size of a step along every axis: the level's scale times that of the whole image."""
    scale: list[float | None] = [None] * n_axes
    for owner in (level, multiscale):
        for transformation in owner.get("coordinateTransformations") or []:
            factors = transformation.get("scale") if transformation.get("type") == "scale" else None
            if isinstance(factors, list) and len(factors) == n_axes:
                parsed = [parse_length(factor) for factor in factors]
                scale = [(old or 1.0) * new if new is not None else None for old, new in zip(scale, parsed, strict=True)]
    return scale


def _describe(letters: str, axes: list[dict[str, Any]], scale: list[float | None], omero: object) -> PictureMetadata:
    steps = {letter: step for letter, step in zip(letters, scale, strict=True) if letter in "ZYX"}
    units = {letter: axis.get("unit") for letter, axis in zip(letters, axes, strict=True)}
    channels = omero.get("channels") if isinstance(omero, dict) else None
    labels = [channel.get("label") for channel in channels] if isinstance(channels, list) else []
    colors = [channel.get("color") for channel in channels] if isinstance(channels, list) else []
    is_named = bool(labels) and all(isinstance(label, str) and label for label in labels)
    is_colored = all(isinstance(color, str) and _HEXADECIMAL_COLOR.fullmatch(color) for color in colors)
    return replace(
        settle_lengths(steps, units),
        channel_names=tuple(label[:256] for label in labels) if is_named else (),
        channel_colors=tuple(f"#{color.lower()}" for color in colors) if is_colored else (),
    )
