"""Image sets of a data folder, and their files as scoring takes them.

Two layouts are known. Flat: ``NAME_a.png``, ``NAME_b.png``, further letters for further images, and ``NAME_truth.png`` where the sharp
image is known. By folders: each subfolder is a set, its images in the order of their names, ``truth.png`` among them the truth.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.arrays import SampleArray
from qmcif_engine.errors import ImageFileError, InvalidImageError
from qmcif_engine.io.input.file_order import natural_key
from qmcif_engine.io.input.open import read_image

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff")
TRUTH = "truth"
_FLAT_STEM = re.compile(rf"(?P<set>.+)_(?P<role>[a-z]|{TRUTH})", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSet:
    """The files of one scene: two or more images, and the all-in-focus truth where there is one."""

    name: str
    sources: tuple[Path, ...]
    truth: Path | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """Return all files of the set, the truth last."""
        return self.sources if self.truth is None else (*self.sources, self.truth)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """The sets of one folder in the order of their names."""

    folder: Path
    sets: tuple[ImageSet, ...]

    @property
    def name(self) -> str:
        """Return the name of the folder."""
        return self.folder.name


def find_dataset(folder: Path) -> Dataset:
    """Find all image sets of a folder; subfolders count only where the folder itself holds no image.

    Raises
    ------
    ImageFileError
        When the folder is missing or empty, or an image belongs to no complete set.
    """
    # resolved, so that "." too has a name
    place = folder.resolve()
    files = list_images(place)
    if files:
        sets = _group_flat(files)
    else:
        subfolders = [path for path in place.iterdir() if path.is_dir() and not path.name.startswith(".")]
        sets = [_read_subfolder(path, images) for path in subfolders if (images := list_images(path))]
    if not sets:
        msg = f"{str(folder)!r} holds no image; files such as 01_a.png and 01_b.png, or one folder per set, are needed: check the name"
        raise ImageFileError(msg)
    return Dataset(folder=place, sets=tuple(sorted(sets, key=lambda found: natural_key(found.name))))


def list_images(folder: Path) -> list[Path]:
    """Return the PNG, JPEG and TIFF files of a folder, hidden ones left out, in natural order.

    Raises
    ------
    ImageFileError
        When there is no such folder, or it cannot be read.
    """
    try:
        entries = [path for path in folder.iterdir() if path.suffix.lower() in IMAGE_SUFFIXES and not path.name.startswith(".")]
        images = [path for path in entries if path.is_file()]
    except OSError as error:
        msg = f"the folder {str(folder)!r} cannot be read ({error.strerror}); a folder of images is needed: check its name and permissions"
        raise ImageFileError(msg) from error
    return sorted(images, key=lambda path: natural_key(path.name))


def read_opaque(path: Path) -> SampleArray:
    """Read the samples of an image file whose alpha channel, if it has one, hides nothing.

    Raises
    ------
    ImageFileError
        When the file cannot be read, or has transparent pixels: no figure rates those.
    """
    file = read_image(path)
    if file.alpha is not None:
        refuse_transparency(path, bool((file.alpha != opaque_sample(file.alpha.dtype)).any()))
    return file.samples


def opaque_sample(dtype: np.dtype[Any]) -> float:
    """Return the sample of an alpha channel that hides nothing."""
    return 1.0 if dtype.kind == "f" else float(np.iinfo(dtype).max)


def refuse_transparency(path: Path, is_transparent: bool) -> None:
    """Refuse an image that is known to have transparent pixels."""
    if is_transparent:
        msg = f"{str(path)!r} has transparent pixels; an opaque image is needed: flatten it or remove its alpha channel"
        raise ImageFileError(msg)


def read_eight_bit(path: Path) -> NDArray[np.uint8]:
    """Read an opaque image of 8-bit samples, for which the figures of benchmarks are defined.

    Raises
    ------
    ImageFileError
        When the file cannot be read or has transparent pixels.
    InvalidImageError
        When its samples are deeper.
    """
    samples = read_opaque(path)
    if samples.dtype != np.uint8:
        msg = f"{str(path)!r} has {samples.dtype} samples; benchmarks are defined on 8-bit images: convert it to 8 bits"
        raise InvalidImageError(msg)
    return np.asarray(samples, np.uint8)


def _group_flat(files: Iterable[Path]) -> list[ImageSet]:
    groups: dict[str, dict[str, Path]] = {}
    for path in files:
        match = _FLAT_STEM.fullmatch(path.stem)
        if match is None:
            msg = f"{str(path)!r} has no partner; names such as 01_a.png, 01_b.png and 01_truth.png are needed: rename or remove it"
            raise ImageFileError(msg)
        roles = groups.setdefault(match["set"], {})
        other = roles.setdefault(match["role"].lower(), path)
        if other != path:
            msg = f"{str(other)!r} and {path.name!r} are the same image of one set; one file is needed: remove the other"
            raise ImageFileError(msg)
    return [_build_flat_set(name, roles) for name, roles in groups.items()]


def _build_flat_set(name: str, roles: Mapping[str, Path]) -> ImageSet:
    letters = sorted(role for role in roles if role != TRUTH)
    # so many letters as there are images: with a gap one of them is missing from the beginning of the alphabet
    wanted = ascii_lowercase[: max(len(letters), 2)]
    missing = [letter for letter in wanted if letter not in letters]
    if missing:
        present = ", ".join(sorted(path.name for path in roles.values()))
        msg = (
            f"set {name!r} has only {present}; images lettered from a on without a gap, at least two, are needed: "
            f"add {name}_{missing[0]} or remove the set"
        )
        raise ImageFileError(msg)
    return ImageSet(name=name, sources=tuple(roles[letter] for letter in letters), truth=roles.get(TRUTH))


def _read_subfolder(folder: Path, images: list[Path]) -> ImageSet:
    truths = [path for path in images if path.stem.lower() == TRUTH]
    sources = tuple(path for path in images if path not in truths)
    if len(sources) < 2 or len(truths) > 1:
        present = ", ".join(path.name for path in images)
        msg = f"the set {str(folder)!r} has {present}; at least two images and at most one truth are needed: complete or remove the set"
        raise ImageFileError(msg)
    return ImageSet(name=folder.name, sources=sources, truth=truths[0] if truths else None)
