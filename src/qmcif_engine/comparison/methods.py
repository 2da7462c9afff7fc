"""Which methods are compared: settings to fuse with here, baselines to run here, or images that another program fused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from qmcif_engine.comparison.baselines import Baseline
from qmcif_engine.comparison.baselines.convolutional_coding import CONVOLUTIONAL_CODING
from qmcif_engine.comparison.baselines.morphological_gradients import MORPHOLOGICAL_GRADIENTS
from qmcif_engine.comparison.baselines.quaternion_tensors import QUATERNION_TENSORS
from qmcif_engine.comparison.baselines.simple import GUIDED_FILTERING, LAPLACIAN_PYRAMID
from qmcif_engine.comparison.baselines.sparse_coding import SPARSE_CODING
from qmcif_engine.comparison.datasets import list_images
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import ImageFileError, InvalidConfigError

_ALL = (SPARSE_CODING, CONVOLUTIONAL_CODING, MORPHOLOGICAL_GRADIENTS, QUATERNION_TENSORS, GUIDED_FILTERING, LAPLACIAN_PYRAMID)
BASELINES: Mapping[str, Baseline] = MappingProxyType({baseline.name: baseline for baseline in _ALL})

LONGEST_NAME = 60  # characters that still fit the first column of a table


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method, and where its results come from.

    Attributes
    ----------
    name : str
        Unique in one comparison. Where the images are fused here it is also the name of their folder.
    settings : FusionConfig or None
        What our method is to fuse with; None for others.
    baseline : str or None
        The name of one of `BASELINES` that is to fuse.
    images : mapping of str to Path
        Another program's image of each set; empty where they are fused here.
    """

    name: str
    settings: FusionConfig | None = None
    baseline: str | None = None
    images: Mapping[str, Path] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Return what tables call the method."""
        if self.baseline is not None:
            return BASELINES[self.baseline].label
        return self.name if self.settings is None else f"preset {self.name}"

    @property
    def is_fused_here(self) -> bool:
        """Return whether the images are made in the report folder."""
        return self.settings is not None or self.baseline is not None


def find_baseline(name: str) -> Baseline:
    """Return the baseline of that name.

    Raises
    ------
    InvalidConfigError
        When there is none.
    """
    try:
        return BASELINES[name.lower()]
    except KeyError:
        msg = f"--method {name!r} is not known; choose one of: {', '.join(BASELINES)}"
        raise InvalidConfigError(msg) from None


def parse_fused_by(text: str) -> tuple[str, Path]:
    """Read ``NAME=DIR`` of the command line.

    Raises
    ------
    InvalidConfigError
        When a part is missing, or the name cannot be printed in a table.
    """
    name, separator, folder = text.partition("=")
    name = name.strip()
    if not (separator and name and folder):
        msg = f"--fused-by {text!r} lacks a part; NAME=DIR is needed: write for example --fused-by cnn=results/cnn"
        raise InvalidConfigError(msg)
    if len(name) > LONGEST_NAME or not name.isprintable():
        msg = f"the method name {name!r} cannot be printed in a table; up to {LONGEST_NAME} printable characters are needed: shorten it"
        raise InvalidConfigError(msg)
    return name, Path(folder)


def check_names(methods: Sequence[Method]) -> None:
    """Refuse two methods of one name.

    Raises
    ------
    InvalidConfigError
        Naming the method.
    """
    # a name is a folder of images and a key of the record: two would overwrite each other
    names = [method.name for method in methods]
    for name in names:
        if names.count(name) > 1:
            msg = f"method {name!r} was given twice; each needs a name of its own: rename or drop one"
            raise InvalidConfigError(msg)


def match_images(folder: Path, set_names: Sequence[str]) -> dict[str, Path]:
    """Find the image of each set in another method's folder.

    A file belongs to set ``01`` when its name without suffix is ``01`` or the same number (``1``), or else when ``01`` stands in it between
    separators (anything but letters and digits) or at its ends: ``01_fused.png``, ``lytro_01_cnn.png``, ``lytro-01.jpg``.

    Raises
    ------
    ImageFileError
        When a set has no image or several, or one file would serve two sets.
    """
    files = list_images(folder)
    found = {name: _find_candidates(name, files) for name in set_names}
    # all missing sets in one message, so that nobody mends them one by one
    missing = [name for name, candidates in found.items() if not candidates]
    if missing:
        msg = (
            f"{str(folder)!r} has no image of {', '.join(missing)}; one per set, such as {missing[0]}.png, is needed: "
            "add the missing images or leave this method out"
        )
        raise ImageFileError(msg)
    for name, candidates in found.items():
        if len(candidates) > 1:
            several = ", ".join(path.name for path in candidates)
            msg = f"{str(folder)!r} has several images of {name}: {several}; exactly one is needed: remove the others"
            raise ImageFileError(msg)
    sets_of: dict[Path, str] = {}
    for name, (path,) in found.items():
        other = sets_of.setdefault(path, name)
        if other != name:
            msg = f"{str(path)!r} fits both set {other!r} and set {name!r}; one image per set is needed: rename it to {name}.png"
            raise ImageFileError(msg)
    return {name: path for path, name in sets_of.items()}


def _find_candidates(name: str, files: Iterable[Path]) -> list[Path]:
    # a whole name goes first, or set 1 would also find 01_1.png
    same_number = int(name) if name.isdecimal() else None
    whole = [path for path in files if path.stem == name or (path.stem.isdecimal() and int(path.stem) == same_number)]
    # bars on both sides, so that set 1 does not stand in 10
    wanted = f"|{_tokenize(name)}|"
    return whole or [path for path in files if wanted in f"|{_tokenize(path.stem)}|"]


def _tokenize(name: str) -> str:
    return "|".join(part for part in re.split(r"[\W_]+", name) if part)
