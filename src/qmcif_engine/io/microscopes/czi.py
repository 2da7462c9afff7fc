"""Zeiss CZI through pylibCZIrw, the maker's own library, which reads windows and puts mosaics together.

Scenes are the images of a file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray
from pylibCZIrw import czi

from qmcif_engine.io.input.frame_source import Copying
from qmcif_engine.io.input.image_file import refuse_content
from qmcif_engine.io.limits import LARGEST_UNSTORED_BYTES, MAX_MOSAIC_GAPS, MAX_PLANES
from qmcif_engine.io.metadata.units import parse_length
from qmcif_engine.io.microscopes.microscope_source import MicroscopeImage
from qmcif_engine.stack.window import Window

_DTYPES = {"Gray8": "uint8", "Gray16": "uint16", "Gray32Float": "float32", "Bgr24": "uint8", "Bgr48": "uint16", "Bgr96Float": "float32"}
_N_COLORS = 3
_SCENE = "S"
_IMAGE = "Metadata/Information/Image"


def list_images(location: Path) -> list[str]:
    """Return the names of the scenes."""
    with czi.open_czi(str(location)) as file:
        numbers = sorted(file.scenes_bounding_rectangle_no_pyramid) or [0]
        scenes = ElementTree.fromstring(file.raw_metadata).iterfind(f"{_IMAGE}/Dimensions/S/Scenes/Scene")
    names = {scene.get("Index", ""): scene.get("Name", "") for scene in scenes}
    return [names.get(str(number), "") for number in numbers]


def describe(location: Path, number: int) -> MicroscopeImage:
    """Return what the file says of a scene."""
    with czi.open_czi(str(location)) as file:
        kinds = set(file.pixel_types.values())
        kind = kinds.pop() if len(kinds) == 1 else ""
        if kind not in _DTYPES:
            given, needed = f"channels of the types {sorted(file.pixel_types.values())}", f"one of {', '.join(_DTYPES)} for all"
            raise refuse_content(location, given=given, needed=needed, remedy="export the channels on their own")
        sizes = {axis: end - start for axis, (start, end) in file.total_bounding_box.items() if axis not in (_SCENE, "X", "Y")}
        # further axes, such as phases or illuminations, count where there are several
        sizes = {axis: length for axis, length in sizes.items() if length > 1 or axis in "TZC"}
        rectangle, scene = _find_rectangle(file, number)
        sizes |= {"Y": rectangle.h, "X": rectangle.w} | ({"S": _N_COLORS} if kind.startswith("Bgr") else {})
        _check_pieces(file, sizes, location, scene=scene)
        root = ElementTree.fromstring(file.raw_metadata)
    # in meters
    steps = {entry.get("Id"): parse_length(entry.findtext("Value")) for entry in root.iterfind("Metadata/Scaling/Items/Distance")}
    channels = root.findall(f"{_IMAGE}/Dimensions/Channels/Channel")
    shown = {entry.get("Id"): entry.findtext("Color") for entry in root.iterfind("Metadata/DisplaySetting/Channels/Channel")}
    n_bits = root.findtext(f"{_IMAGE}/ComponentBitCount", "")
    return MicroscopeImage(
        sizes=sizes,
        dtype=np.dtype(_DTYPES[kind]),
        steps={axis: step * 1e6 if (step := steps.get(axis)) else None for axis in "XYZ"},
        names=[channel.get("Name", "") for channel in channels],
        colors=[_parse_color(shown.get(channel.get("Id")) or channel.findtext("Color")) for channel in channels],
        n_bits=int(n_bits) if n_bits.isdecimal() else 0,
        copying=Copying.WORTHWHILE,
    )


def read(location: Path, number: int, *, places: Sequence[Mapping[str, int]], rows: str, window: Window) -> list[NDArray[Any]]:
    """Return a window of several planes."""
    del rows  # the library knows no others
    height, width = window.shape
    with czi.open_czi(str(location)) as file:
        rectangle, scene = _find_rectangle(file, number)
        # scenes lie anywhere on the stage, also at negative places
        corner = (rectangle.x + window.left, rectangle.y + window.top, width, height)
        planes = [file.read(roi=corner, plane=dict(place), scene=scene) for place in places]
    # Zeiss stores blue first
    return [plane[..., ::-1] if plane.shape[-1] == _N_COLORS else plane for plane in planes]


def _find_rectangle(file: czi.CziReader, number: int) -> tuple[czi.Rectangle, int | None]:
    """Return where a scene lies and its number in the file, None where the file has no scenes."""
    scenes = file.scenes_bounding_rectangle_no_pyramid
    if not scenes:
        return file.total_bounding_rectangle_no_pyramid, None
    scene = sorted(scenes)[number]
    return scenes[scene], scene


def _check_pieces(file: czi.CziReader, sizes: Mapping[str, int], location: Path, *, scene: int | None) -> None:
    """Refuse a scene of which planes are missing, for which the library gives black, or that hardly has any pixels."""
    axes = [axis for axis in sizes if axis not in "YXS"]
    found: set[tuple[int, ...]] = set()
    n_stored = 0

    def note(_: int, piece: Any) -> bool:  # noqa: ANN401 - of the library's compiled part
        nonlocal n_stored
        place = piece.coordinate.to_dict()
        if scene is None or place.get(_SCENE, scene) == scene:
            n_stored += piece.physicalSize.w * piece.physicalSize.h
            found.add(tuple(int(place.get(axis, 0)) for axis in axes))
        # False ends the walk
        return len(found) <= MAX_PLANES

    file.enumerate_subblocks(note)
    n_planes = math.prod(sizes[axis] for axis in axes)
    n_pixels = n_planes * sizes["Y"] * sizes["X"]
    # two pieces far apart span a scene of black, which would be computed like anything else
    if n_pixels > LARGEST_UNSTORED_BYTES and n_pixels > MAX_MOSAIC_GAPS * n_stored:
        given = f"pieces of {n_stored} pixels in a scene of {n_pixels}"
        raise refuse_content(location, given=given, needed="a mosaic without such gaps", remedy="export the pieces on their own")
    if len(found) < n_planes:
        given = f"{len(found)} of {n_planes} planes ({', '.join(f'{axis} {sizes[axis]}' for axis in axes)}) of this scene"
        remedy = "choose another scene with --image (image=), or export those that were recorded"
        raise refuse_content(location, given=given, needed="each of them", remedy=remedy)


def _parse_color(text: str | None) -> str:
    """Return a color as ``#rrggbb`` from a text with or without opacity in front; empty for anything else."""
    digits = (text or "").removeprefix("#").lower()
    is_color = len(digits) in (6, 8) and all(digit in "0123456789abcdef" for digit in digits)
    return f"#{digits[-6:]}" if is_color else ""
