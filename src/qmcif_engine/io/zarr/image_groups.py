"""Where the image of an OME-Zarr folder is: in the folder itself, or in one of several groups below it.

bioformats2raw writes every image of a file into a group with a number, and their names into OME-XML beside them. Labels, wells and plates
are told from images and refused by their names, with what to pass instead.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qmcif_engine.io.input.bounded_reading import read_bounded
from qmcif_engine.io.input.file_order import choose_image
from qmcif_engine.io.input.image_file import refuse_content, refuse_damaged
from qmcif_engine.io.limits import LARGEST_XML_CHARACTERS, MOST_IMAGES
from qmcif_engine.io.metadata.ome_xml import list_image_names
from qmcif_engine.io.zarr.ngff import check_inside, describe_image
from qmcif_engine.io.zarr.zarr_checks import read_group_attributes

if TYPE_CHECKING:
    from qmcif_engine.errors import ImageFileError
    from qmcif_engine.io.remote.remote_path import Location
    from qmcif_engine.io.zarr.ngff import NgffImage

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
