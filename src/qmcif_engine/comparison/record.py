"""The record of a benchmark in its report folder, from which the next run goes on: each score with the digest of what it depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

import qmcif_engine
from qmcif_engine.comparison.datasets import Dataset
from qmcif_engine.comparison.images import read_eight_bit
from qmcif_engine.comparison.methods import Method
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import ImageFileError, InvalidImageError, OutputError
from qmcif_engine.io.output.placement import place_files

RECORD_NAME = "benchmark.json"
OUTPUT_NAMES = ("report.md", "report.html", "scores.csv", "ablation.md", "ablation.csv", "fused", "source_index")
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The figures of one fused image, and what they depend on.

    Attributes
    ----------
    set_name, method : str
        Which image.
    figures : mapping of str to float or None
        By symbol; None where there is no truth to compare with.
    inputs : str
        Digest of everything that led to the image.
    fused : str
        Digest of the scored file.
    border_px : int or None
        Width of the border that the figures named inner leave out; None where only the PSNR has such a figure, with its usual border.
    """

    set_name: str
    method: str
    figures: Mapping[str, float | None]
    inputs: str
    fused: str
    border_px: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The data folder, the digest of each method's settings, and all scores so far."""

    dataset: str
    settings: Mapping[str, str]
    scores: tuple[Score, ...] = ()

    def add(self, score: Score) -> Record:
        """Return a record with the score added, in place of an older one of the same image."""
        kept = [old for old in self.scores if (old.set_name, old.method) != (score.set_name, score.method)]
        return replace(self, scores=(*kept, score))


def open_record(folder: Path, dataset: Dataset, *, methods: Sequence[Method], overwrite: bool) -> Record:
    """Read the record of a report folder, or start one; nothing is written yet.

    Parameters
    ----------
    folder : Path
        Need not exist.
    dataset : Dataset
    methods : sequence of Method
    overwrite : bool
        Whether a report on other data or with other settings, or files that are no report of ours, may be replaced.

    Raises
    ------
    OutputError
        When the folder lies among the data, or something would be replaced without permission.
    """
    # results among the data would be taken for images of a set by the next run
    if folder.resolve().is_relative_to(dataset.folder):
        msg = f"the report folder {str(folder)!r} lies in the data folder; a place outside is needed: choose another one"
        raise OutputError(msg)
    wanted = Record(
        dataset=str(dataset.folder),
        settings={method.name: digest_settings(method.settings, baseline=method.baseline) for method in methods},
    )
    found = _read_record(folder, overwrite=overwrite)
    if found is None:
        if not overwrite:
            _check_vacant(folder)
        return wanted
    if not overwrite:
        _check_same_request(folder, found, wanted)
    # methods of earlier runs stay in the record, though this run may not ask for them
    return replace(wanted, settings={**found.settings, **wanted.settings}, scores=found.scores)


def write_record(folder: Path, record: Record) -> None:
    """Replace the record file as a whole."""
    content = json.dumps({"format": _FORMAT, **asdict(record)}, indent=1).encode()
    # written beside and renamed: a run that is killed leaves the last whole record
    place_files({folder / RECORD_NAME: writing(content)}, overwrite=True)


def writing(content: bytes) -> Callable[[BinaryIO], None]:
    """Return what `place_files` needs to write these bytes."""

    def write(stream: BinaryIO) -> None:
        stream.write(content)

    return write


def _read_record(folder: Path, *, overwrite: bool) -> Record | None:
    path = folder / RECORD_NAME
    try:
        return _parse_record(json.loads(path.read_text(encoding="utf-8")))
    # no report yet, which is fine; anything else that cannot be read might be somebody's file
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if overwrite:
            return None
        msg = f"{str(path)!r} is no record of a benchmark ({error}); an intact one or none is needed: remove it or add --overwrite"
        raise OutputError(msg) from error


def _parse_record(content: dict[str, Any]) -> Record:
    if content["format"] != _FORMAT:
        msg = f"format {content['format']!r} is not {_FORMAT}"
        raise ValueError(msg)
    scores = tuple(Score(**row) for row in content["scores"])
    return Record(dataset=str(content["dataset"]), settings=dict(content["settings"]), scores=scores)


def _check_vacant(folder: Path) -> None:
    for name in OUTPUT_NAMES:
        # a broken link does not "exist", yet writing would follow it
        if (folder / name).exists() or (folder / name).is_symlink():
            msg = (
                f"{str(folder / name)!r} exists and is no result of a benchmark here; a new folder is needed: choose one or add --overwrite"
            )
            raise OutputError(msg)


def _check_same_request(folder: Path, found: Record, wanted: Record) -> None:
    if found.dataset != wanted.dataset:
        msg = (
            f"{str(folder)!r} holds a report on {found.dataset!r}; one on {wanted.dataset!r} needs a folder of its own: "
            "choose another one or add --overwrite"
        )
        raise OutputError(msg)
    for name, digest in wanted.settings.items():
        # a method that was not run before has nothing to differ from
        if found.settings.get(name, digest) != digest:
            msg = (
                f"{str(folder)!r} holds results of {name!r} with other settings; the same settings or a new folder are needed: "
                "choose another folder or add --overwrite"
            )
            raise OutputError(msg)


# changes there touch no figure, except those of the other methods we compare with, whose code lies in comparison.baselines
_WITHOUT_EFFECT = ("cli", "comparison")
_WITH_EFFECT = ("comparison", "baselines")
_NUMERICAL_PACKAGES = ("numpy", "scipy", "scikit-learn")


def digest_texts(parts: Iterable[str]) -> str:
    """Return one digest of several texts, which their borders enter too."""
    # as JSON, since "ab" + "c" joined would equal "a" + "bc"
    return hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest()


def digest_file(path: Path) -> str:
    """Return the digest of a file's content.

    Raises
    ------
    ImageFileError
        When it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        msg = f"{str(path)!r} cannot be read ({error.strerror}); a readable image file is needed: check its name and permissions"
        raise ImageFileError(msg) from error


def digest_settings(settings: FusionConfig | None, *, baseline: str | None = None) -> str:
    """Return the digest of all settings, or of the baseline's name; without either it stands for another program's, which are not known."""
    return digest_texts([json.dumps(baseline if settings is None else settings.to_dict(), sort_keys=True)])


@cache
def digest_engine() -> str:
    """Return the digest of everything the figures depend on besides inputs and settings: our code and the numerical packages.

    The version number alone would take results from before a change of the code, as developers make them, for new ones.
    """
    root = Path(qmcif_engine.__file__).parent
    # .npz: the learned dictionaries
    files = [path for path in root.rglob("*") if path.suffix in (".py", ".npz") and _has_effect(path.relative_to(root).parts)]
    parts = [f"{path.relative_to(root).as_posix()} {digest_file(path)}" for path in sorted(files)]
    return digest_texts([*parts, *(f"{name} {version(name)}" for name in _NUMERICAL_PACKAGES)])


def _has_effect(parts: tuple[str, ...]) -> bool:
    return parts[0] not in _WITHOUT_EFFECT or parts[:2] == _WITH_EFFECT


def fingerprint_inputs(
    dataset: Dataset, methods: Sequence[Method], *, progress: Callable[[int, int], None], border_px: int | None = None
) -> dict[tuple[str, str], str]:
    """Check the images of every set and return what each result depends on.

    Parameters
    ----------
    dataset : Dataset
    methods : sequence of Method
    progress : callable
        Receives the sets done and the sets in all.
    border_px : int, optional
        Width of the border that is to be left out; something of every image must remain.

    Returns
    -------
    dict of tuple of str to str
        A digest for each set and method: of the program, the settings, the sources, the truth and another method's image. While it
        stays the same, so does the result.

    Raises
    ------
    ImageFileError, InvalidImageError
        When an image cannot be read, is not 8-bit, differs in size from the others of its set, or is nothing but border.
    """
    fingerprints = {}
    for n_done, image_set in enumerate(dataset.sets, start=1):
        # the truth and other programs' images too: found out now, not after hours of fusing
        shape = _check_sizes([*image_set.files, *(method.images[image_set.name] for method in methods if method.images)])
        if border_px is not None:
            _check_inside(image_set.sources[0], shape, border_px=border_px)
        contents = [digest_file(path) for path in image_set.sources]
        # digests are taken once per set, not once per method
        truth = "" if image_set.truth is None else digest_file(image_set.truth)
        for method in methods:
            image = digest_file(method.images[image_set.name]) if method.images else ""
            parts = [digest_engine(), digest_settings(method.settings, baseline=method.baseline), *contents, truth, image]
            fingerprints[image_set.name, method.name] = digest_texts(parts)
        progress(n_done, len(dataset.sets))
    return fingerprints


def _check_sizes(paths: Iterable[Path]) -> tuple[int, ...]:
    """Return the common shape; read one image at a time, so that large stacks fit into memory."""
    shapes = {path: read_eight_bit(path).shape for path in paths}
    first, wanted = next(iter(shapes.items()))
    for path, shape in shapes.items():
        if shape != wanted:
            msg = (
                f"{str(path)!r} is {_describe(shape)} and {str(first)!r} {_describe(wanted)}; images of one set must agree in size "
                "and color: crop or convert them first"
            )
            raise InvalidImageError(msg)
    return wanted


def _check_inside(path: Path, shape: tuple[int, ...], *, border_px: int) -> None:
    # one pixel must remain in the middle
    widest = (min(shape[:2]) - 1) // 2
    if border_px > widest:
        msg = (
            f"--border {border_px} leaves nothing of {str(path)!r}, which is {_describe(shape)}; for this image {widest} is the most: "
            "choose a narrower border or leave the set out"
        )
        raise InvalidImageError(msg)


def _describe(shape: tuple[int, ...]) -> str:
    return f"{shape[1]} x {shape[0]} px {'gray' if len(shape) == 2 else 'RGB'}"
