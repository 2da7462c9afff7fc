"""Files of a stack in the order people number them, and the choice among its frames and among the images of a file."""

from __future__ import annotations

import fnmatch
import glob
import re
from collections.abc import Sequence
from pathlib import Path

from qmcif_engine.errors import ImageFileError, InvalidConfigError
from qmcif_engine.io.remote_path import Location, RemotePath, locate

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".jpe", ".tif", ".tiff", ".btf", ".tf8", ".avif", ".heic", ".heif")
"""What is taken from a folder, camera raw files apart; inside a file the content decides, never the name."""

RAW_SUFFIXES = (".3fr", ".arw", ".cr2", ".cr3", ".dng", ".erf", ".nef", ".nrw", ".orf", ".pef", ".raf", ".raw", ".rw2", ".srw", ".x3f")

LONGEST_LIST = 20
"""Images that a message lists before it only counts."""

_DIGITS = re.compile(r"(\d+)", re.ASCII)
_ZARR_MARKERS = ("zarr.json", ".zarray", ".zgroup")


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Return what sorts names as people count: image 2 before image 10; case does not matter, except among equals."""
    parts = [(0, int(part), part) if part.isascii() and part.isdigit() else (1, 0, part.casefold()) for part in _DIGITS.split(name) if part]
    # the name itself last: 01 and 1 are equal in number, and still have an order
    return [*parts, (2, 0, name)]


def is_zarr_folder(path: Location) -> bool:
    """Return whether a folder, here or on a server, is a Zarr array or group."""
    return any((path / marker).is_file() for marker in _ZARR_MARKERS)


def list_files(given: str | Location) -> list[Location]:
    """Return the files one input stands for: itself, the images of a folder, or what a pattern matches, in natural order.

    Hidden files of a folder, and those that do not end as images do, are left out; what a pattern matches is all taken. A Zarr
    folder is one input.

    Parameters
    ----------
    given : str, Path or RemotePath
        A file, a folder, the address of a file or Zarr folder on a server, or a pattern with ``*``, ``?`` or ``[...]``. A file of
        exactly that name goes before a pattern.
    """
    path = locate(given) if isinstance(given, str) else given
    if isinstance(path, RemotePath):
        return [path]
    try:
        if path.is_dir() and not is_zarr_folder(path):
            found = [each for each in path.iterdir() if each.suffix.lower() in IMAGE_SUFFIXES + RAW_SUFFIXES and each.name[0] != "."]
            needed = f"the folder {str(path)!r} holds no image; files ending in {', '.join(IMAGE_SUFFIXES)} are needed; check its name"
        # brackets are common in names of files
        elif glob.has_magic(str(given)) and not path.exists():
            found = [Path(match) for match in glob.glob(str(given))]  # noqa: PTH207 - any root
            needed = f"no file matches {str(given)!r}; at least 2 images of one scene are needed; check the pattern"
        else:
            return [path]
    except OSError as error:
        msg = f"{str(path)!r} cannot be read ({error.strerror or error}); a readable folder is needed; check its name and permissions"
        raise ImageFileError(msg) from error
    except ValueError:  # a null byte: opening the file says so
        return [path]
    if not found:
        raise ImageFileError(needed)
    return [*sorted(found, key=lambda each: natural_key(str(each)))]


def choose_frames(names: Sequence[str], *, exclude: Sequence[int | str] = (), order: Sequence[int] | str | None = None) -> list[int]:
    """Return which frames are used, in which order, counted from 0.

    Parameters
    ----------
    names : sequence of str
        One a frame: the file's name, where it has a file of its own.
    exclude : sequence of int or str
        Numbers counted from 1, or patterns of names such as ``*_dark.tif``.
    order : "reversed", or sequence of int
        The frames that are left, each once, by their number counted from 1 before anything was excluded.
    """
    excluded = _excluded_frames(names, exclude)
    kept = [number for number in range(len(names)) if number not in excluded]
    if order is None:
        return kept
    if isinstance(order, str):
        if order != "reversed":
            msg = f"the order {order!r} is unknown; 'reversed' or the numbers of all frames are needed: give one of these"
            raise InvalidConfigError(msg)
        return kept[::-1]
    chosen = [number - 1 for number in order]
    if sorted(chosen) != kept:
        msg = (
            f"the order {list(order)} does not name each frame once; the numbers {[number + 1 for number in kept]} are needed in "
            "the order wanted: correct it"
        )
        raise InvalidConfigError(msg)
    return chosen


def _excluded_frames(names: Sequence[str], exclude: Sequence[int | str]) -> set[int]:
    excluded: set[int] = set()
    for item in (exclude,) if isinstance(exclude, str) else exclude:
        if isinstance(item, str):
            matches = {number for number, name in enumerate(names) if fnmatch.fnmatch(name, item)}
        else:
            matches = {item - 1} & set(range(len(names)))
        if not matches:
            msg = f"no frame is excluded by {item!r}; a number from 1 to {len(names)} or a pattern of names is needed: correct it"
            raise InvalidConfigError(msg)
        excluded |= matches
    return excluded


def choose_image(names: Sequence[str], wanted: int | str | None, *, path: Location) -> int:
    """Return which image is meant, counted from 0.

    Parameters
    ----------
    names : sequence of str
        One an image, at least one; empty where an image has no name.
    wanted : int or str, optional
        Number counted from 1, or a name that one image has; may be left out where there is one image.
    path : Path
        What messages call the input.

    Raises
    ------
    ImageFileError
        When there are several and none is chosen; the message lists them, and `choices` too.
    InvalidConfigError
        When there is none of that number or name, or several.
    """
    if wanted is None:
        if len(names) == 1:
            return 0
        # here, because what reads images takes a second to load, which `--help` need not wait for
        from qmcif_engine.io.input.image_file import refuse_content

        error = refuse_content(
            path,
            given=f"{len(names)} images ({list_images(names)})",
            needed="one of them",
            remedy="choose it by number or name with --image (image=)",
        )
        error.choices = tuple(name or str(number) for number, name in enumerate(names, 1))
        raise error
    if isinstance(wanted, int) and 1 <= wanted <= len(names):
        return wanted - 1
    if isinstance(wanted, str) and list(names).count(wanted) == 1:
        return list(names).index(wanted)
    known = "1 image" if len(names) == 1 else f"{len(names)} images"
    msg = f"the image {wanted!r} was chosen of {str(path)!r}, which holds {known} ({list_images(names)}); give the number or name of one"
    raise InvalidConfigError(msg)


def list_images(names: Sequence[str]) -> str:
    """Return numbers and names of images as messages give them."""
    shown = [f"{number} {name!r}" if name else str(number) for number, name in enumerate(names[:LONGEST_LIST], 1)]
    return ", ".join(shown) + (f" and {len(names) - LONGEST_LIST} more" if len(names) > LONGEST_LIST else "")
