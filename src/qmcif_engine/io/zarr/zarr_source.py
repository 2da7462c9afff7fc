"""OME-Zarr images, versions 0.4 (Zarr 2), 0.5 and 0.6 (Zarr 3), and Zarr arrays, read chunk by chunk.

Version 0.6 names systems of coordinates, whose axes replace those of the image, and transforms with an input and an output. The image is in
the folder itself, or in one of several groups below it: bioformats2raw writes every image of a file into a group with a number, and their
names into OME-XML beside them. Labels, wells and plates are refused by their names, with what to pass instead.
"""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from qmcif_engine.errors import ImageFileError
from qmcif_engine.io.input.array_source import ArraySource, guess_axes
from qmcif_engine.io.input.file_order import choose_image
from qmcif_engine.io.input.frame_source import Copying
from qmcif_engine.io.input.image_file import refuse_content, refuse_damaged, translate_failures
from qmcif_engine.io.input.segments import SegmentCache, fill_from_segments
from qmcif_engine.io.limits import LARGEST_XML_CHARACTERS, MOST_IMAGES, read_bounded
from qmcif_engine.io.metadata.axes import name_axes, plan_axes
from qmcif_engine.io.metadata.ome_xml import list_image_names
from qmcif_engine.io.metadata.units import (
    LONGEST_DESCRIPTION,
    LONGEST_NAME,
    ChannelLook,
    complete_looks,
    parse_length,
    to_one_unit,
    to_seconds,
)
from qmcif_engine.io.remote_path import Location
from qmcif_engine.io.zarr.zarr_checks import check_stored, open_checked_array, read_group_attributes
from qmcif_engine.stack.image_metadata import ImageMetadata

_LETTERS_OF_KIND = {"time": "T", "channel": "C"}
_HEXADECIMAL_COLOR = re.compile("[0-9a-fA-F]{6}")
_UNSTATED = "QRUVW"
"""Letters for axes that are none of T, C, Z, Y, X."""


@dataclass(frozen=True, slots=True)
class NgffImage:
    """Which array of a group is the image at full size, and what is said of it."""

    array_path: str
    axes: str
    metadata: ImageMetadata


def describe_image(attributes: dict[str, Any], path: Location) -> NgffImage:
    """Return the image of a group from its attributes.

    Parameters
    ----------
    attributes : dict
        Of the group.
    path : Path
        What messages call the input.
    """
    # version 0.5 put everything under this key
    described = attributes.get("ome", attributes)
    try:
        multiscales = described.get("multiscales") or []
        if not multiscales:
            raise refuse_content(
                path, given="a Zarr group without an image", needed="an OME-Zarr image or an array", remedy="name the one inside it"
            )
        first = multiscales[0]
        # levels are listed from full size to coarse
        level = first["datasets"][0]
        systems = first.get("coordinateSystems")
        listed = first.get("axes", []) if systems is None else _find_system(systems, level)["axes"]
        # version 0.3 listed names alone
        axes = [axis if isinstance(axis, dict) else {"name": axis} for axis in listed]
        letters = name_ngff_axes(axes)
        # the transforms of the whole image lead on to other systems of coordinates where there are such
        scale = _combine_scales([level, first] if systems is None else [level], n_axes=len(axes))
        metadata = _describe_metadata(letters, axes, scale, described.get("omero"))
        own = attributes.get("qmcif")
        said = own.get("description") if isinstance(own, dict) else None  # OME-Zarr has no place for it
        metadata = replace(metadata, image_name=_shorten(first.get("name"), LONGEST_NAME), description=_shorten(said, LONGEST_DESCRIPTION))
        return NgffImage(check_inside(level["path"], path), letters, metadata)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise refuse_damaged(path, f"its OME-Zarr metadata make no sense: {type(error).__name__}: {error}") from error


def _shorten(text: object, longest: int) -> str | None:
    return text[:longest] if isinstance(text, str) and text else None


def name_ngff_axes(axes: list[dict[str, Any]]) -> str:
    """Return one letter an axis: by its name where that is one of T, C, Z, Y, X, else by its kind, else one of unstated meaning."""
    unstated = iter(_UNSTATED)
    letters = ""
    for axis in axes:
        name = str(axis.get("name", "")).upper()
        letters += name if name in tuple("TCZYX") else _LETTERS_OF_KIND.get(str(axis.get("type")), "") or next(unstated, "Q")
    return letters


def check_inside(array_path: object, path: Location) -> str:
    """Refuse the path of an array that leads out of its group."""
    # also what leads out of a folder on Windows, or to another disk
    is_inside = isinstance(array_path, str) and "\\" not in array_path and "\0" not in array_path and ":" not in array_path
    if not is_inside or any(part in ("", ".", "..") for part in str(array_path).split("/")):
        raise refuse_damaged(path, f"its image is said to be at {array_path!r}")
    return str(array_path)


def _find_system(systems: list[dict[str, Any]], level: dict[str, Any]) -> dict[str, Any]:
    """Return the system of coordinates that the transform of a level leads to, else the first."""
    output = (level.get("coordinateTransformations") or [{}])[0].get("output")
    name = output.get("name") if isinstance(output, dict) else output
    return next((system for system in systems if system["name"] == name), systems[0])


def _combine_scales(owners: list[dict[str, Any]], *, n_axes: int) -> list[float | None]:
    """Return the size of a step along every axis: the level's scale times that of the whole image."""
    scale: list[float | None] = [None] * n_axes
    transforms = [transform for owner in owners for transform in owner.get("coordinateTransformations") or []]
    for transform in transforms:
        for step in transform["transformations"] if transform.get("type") == "sequence" else [transform]:
            factors = step.get("scale") if step.get("type") == "scale" else None
            if isinstance(factors, list) and len(factors) == n_axes:
                parsed = [parse_length(factor) for factor in factors]
                scale = [(old or 1.0) * new if new is not None else None for old, new in zip(scale, parsed, strict=True)]
    return scale


def _describe_metadata(letters: str, axes: list[dict[str, Any]], scale: list[float | None], omero: object) -> ImageMetadata:
    steps = {letter: step for letter, step in zip(letters, scale, strict=True) if letter in "ZYX"}
    units = {letter: axis.get("unit") for letter, axis in zip(letters, axes, strict=True)}
    listed = omero.get("channels") if isinstance(omero, dict) else None
    channels = [channel if isinstance(channel, dict) else {} for channel in listed] if isinstance(listed, list) else []
    looks = []
    for channel in channels:
        given, window = channel.get("color"), channel.get("window")
        color = f"#{given.lower()}" if isinstance(given, str) and _HEXADECIMAL_COLOR.fullmatch(given) else ""
        limits = [window.get("start"), window.get("end")] if isinstance(window, dict) else []
        looks.append(ChannelLook(channel.get("label"), color, limits, parse_length(channel.get("emissionWave"))))
    time = letters.find("T")
    time_step = to_seconds(scale[time], axes[time].get("unit")) if time >= 0 else None
    return replace(to_one_unit(steps, units), time_step=time_step, **complete_looks(looks))


_SEVERAL_IMAGES = "bioformats2raw.layout"
_DESCRIPTION_FOLDER = "OME"
_DESCRIPTION_FILE = "METADATA.ome.xml"


def find_image(folder: Location, path: Location, wanted: int | str | None) -> tuple[Location, NgffImage | None]:
    """Return the folder of the array that is the image at full size, and what its group says of it, None for an array without group.

    Parameters
    ----------
    folder : Path
        Of the input.
    path : Path
        What messages call the input.
    wanted : int or str, optional
        Which image, where there are several.
    """
    attributes = read_group_attributes(folder, path)
    described = {} if attributes is None else _describe(attributes, path)
    # plates carry the mark too, and have no numbered images
    if _SEVERAL_IMAGES in described and not described.get("plate"):
        group_path, name = _choose_group(folder, path, wanted)
        folder = folder / group_path
        attributes = read_group_attributes(folder, path)
        described = {} if attributes is None else _describe(attributes, path)
    else:
        name = None
        if wanted is not None:
            # a single image may be asked for by its number, all else is refused
            choose_image([str(path.name)], wanted, path=path)
    if attributes is None:
        return folder, None
    _refuse_other_kinds(described, path)
    image = describe_image(attributes, path)
    if name:
        image = replace(image, metadata=replace(image.metadata, image_name=name))
    return folder / image.array_path, image


def _describe(attributes: dict[str, Any], path: Location) -> dict[str, Any]:
    described = attributes.get("ome", attributes)
    if not isinstance(described, dict):
        raise refuse_damaged(path, "its OME-Zarr metadata are no table")
    return described


def _choose_group(folder: Location, path: Location, wanted: int | str | None) -> tuple[str, str]:
    """Return the path of the chosen image within a folder of bioformats2raw, and its name, empty where it has none."""
    groups = _list_groups(folder, path)
    names: list[str] = []
    with suppress(FileNotFoundError, NotADirectoryError):
        try:
            text = read_bounded(folder / _DESCRIPTION_FOLDER / _DESCRIPTION_FILE, largest_bytes=LARGEST_XML_CHARACTERS)
        except ValueError as error:
            raise refuse_damaged(path, f"{_DESCRIPTION_FILE} is not usable: {error}") from error
        names = list_image_names(text.decode("utf-8", "replace"), path)
    # names that may belong to other images are worse than none
    if len(names) != len(groups):
        names = [""] * len(groups)
    number = choose_image(names, wanted, path=path)
    return groups[number], names[number]


def _list_groups(folder: Location, path: Location) -> list[str]:
    """Return the paths of the images: as the group of the description lists them, else the folders with the numbers from 0 on."""
    place = folder / _DESCRIPTION_FOLDER
    series = _describe(read_group_attributes(place, path) or {}, path).get("series") if place.is_dir() else None
    if series is None:
        series = []
        # without a list the images are numbered from 0 on
        while len(series) < MOST_IMAGES and (folder / str(len(series))).is_dir():
            series.append(str(len(series)))
    if not isinstance(series, list) or not 1 <= len(series) <= MOST_IMAGES:
        raise refuse_damaged(path, "it lists no images")
    return [check_inside(name, path) for name in series]


def _refuse_other_kinds(described: dict[str, Any], path: Location) -> None:
    """Refuse labels, wells and plates, saying where the images are."""
    if described.get("image-label") is not None:
        raise _refuse(path, "the labels of an image, which name things instead of measuring light", path.parent.parent)
    if described.get("multiscales"):
        return
    if described.get("labels") is not None:
        raise _refuse(path, f"a list of labels ({', '.join(_texts(described['labels']))})", path.parent)
    for kind, parts in (("well", "images"), ("plate", "wells")):
        found = described.get(kind)
        if found is None:
            continue
        given = found.get(parts) if isinstance(found, dict) else None
        listed = given if isinstance(given, list) else []
        paths = _texts([item.get("path") for item in listed if isinstance(item, dict)])
        below = f"{paths[0] if paths else 'A/1'}/0" if kind == "plate" else (paths[0] if paths else "0")
        raise _refuse(path, f"a {kind} of {len(listed)} {parts} ({', '.join(paths)})", path / below)


def _texts(values: object) -> list[str]:
    """Return the first few texts of a list, shortened."""
    return [value[:80] for value in values[:20] if isinstance(value, str)] if isinstance(values, list) else []


def _refuse(path: Location, given: str, instead: Location) -> ImageFileError:
    return refuse_content(path, given=given, needed="an image", remedy=f"pass one, such as {str(instead)!r}")


logger = logging.getLogger(__name__)


def open_zarr(path: Location, *, image: int | str | None, axes: str | None, cache: SegmentCache, strict_chunks: bool) -> ArraySource:
    """Open the image of an OME-Zarr group at its full size, or a plain array.

    Parameters
    ----------
    path : Path
        Folder of the group or the array.
    image : int or str, optional
        Number counted from 1, or name, of the image of a folder that holds several, as bioformats2raw writes them.
    axes : str, optional
        One letter an axis, where the metadata do not name them or name them wrongly.
    cache : SegmentCache
        Where decoded chunks are kept.
    strict_chunks : bool
        Whether a chunk that is not stored is refused, instead of standing for the fill value. Chunks that a shard's index calls empty
        always stand for it.
    """
    name = repr(str(path))
    folder, described = find_image(path.absolute(), path, image)
    array, dimension_names, is_compressed = open_checked_array(folder, path)
    found = described.axes if described is not None else name_ngff_axes([{"name": each} for each in dimension_names])
    if len(found) != len(array.shape):
        # the user's names decide; unknown letters only stand for the number of axes
        found = guess_axes(name, array.shape) if axes is None else "?" * len(array.shape)
    plan = plan_axes(name, *name_axes(name, shape=array.shape, found=found, wanted=axes))
    if isinstance(folder, Path):  # on a server, listing all that is stored would take too many requests
        check_stored(folder, array, path)
    read_block = ChunkReader(array, folder, path=path, cache=cache, is_strict=strict_chunks).read
    metadata = described.metadata if described is not None else ImageMetadata()
    source = ArraySource(read_block, plan, dtype=array.dtype, name=name, metadata=metadata, paths=(path,))
    # chunks that are not compressed are read as quickly as a copy of them
    source.copying = Copying.WORTHWHILE if is_compressed else Copying.NEVER
    return source


class ChunkReader:
    """Blocks of an array; each chunk is decoded once for all blocks that are read soon after each other.

    Parameters
    ----------
    array : zarr.Array
    folder : Path
        Of the array, absolute.
    path : Path
        What messages call the input.
    cache : SegmentCache
    is_strict : bool
        Whether a chunk that is not stored is refused, instead of standing for the fill value.
    """

    def __init__(self, array: zarr.Array[Any], folder: Location, *, path: Location, cache: SegmentCache, is_strict: bool) -> None:
        self._array, self._folder, self._path, self._cache, self._is_strict = array, folder, path, cache, is_strict
        # stored as big-endian by some programs; the engine computes in native order
        self._dtype, self._has_warned = array.dtype.newbyteorder("="), False

    def read(self, block: tuple[slice, ...]) -> NDArray[Any]:
        """Return the samples of one block."""
        samples = np.empty([part.stop - part.start for part in block], self._dtype)
        fill_from_segments(samples, block, lengths=self._array.chunks, fetch=self._fetch)
        return samples

    def _fetch(self, corner: tuple[int, ...]) -> NDArray[Any]:
        return self._cache.fetch((self._folder, corner), partial(translate_failures, lambda _: self._decode(corner), self._path))

    def _decode(self, corner: tuple[int, ...]) -> NDArray[Any]:
        chunk = np.asarray(self._array[tuple(slice(start, start + part) for start, part in zip(corner, self._array.chunks, strict=True))])
        # every sample of a chunk that is not stored is the fill value, so only such chunks are looked for
        if np.array_equal(chunk, np.full_like(chunk, self._array.fill_value or 0), equal_nan=chunk.dtype.kind == "f"):
            self._report_missing(corner)
        return chunk.astype(self._dtype, copy=False)

    def _report_missing(self, corner: tuple[int, ...]) -> None:
        """Refuse a missing chunk, or note the first one: most are empty and were left out, but an interrupted copy looks the same."""
        file_shape = self._array.shards or self._array.chunks
        key = self._array.metadata.encode_chunk_key(tuple(start // part for start, part in zip(corner, file_shape, strict=True)))
        if (self._folder / key).is_file():
            return
        if self._is_strict:
            msg = (
                f"{str(self._path)!r} lacks the chunk {key}; all chunks are needed; copy it again, or leave out --strict-chunks "
                "(strict_chunks) where its program leaves out empty ones"
            )
            raise ImageFileError(msg)
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "%r lacks the chunk %s, and maybe others; the fill value stands for what is missing; --strict-chunks refuses it",
                str(self._path),
                key,
            )
