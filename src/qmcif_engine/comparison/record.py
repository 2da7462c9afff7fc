"""The record of a benchmark in its report folder, from which the next run goes on: each score with the digest of what it depends on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

import qmcif_engine
from qmcif_engine.comparison.datasets import Dataset, read_eight_bit
from qmcif_engine.comparison.methods import Method
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


@dataclass(slots=True, kw_only=True)
class Record:
    """The scores in a report folder, with the data folder and the digest of each method's settings.

    It is written again after every score, so that an interrupted run loses only what it was at.
    """

    folder: Path
    dataset: str
    settings: dict[str, str]
    scores: dict[tuple[str, str], Score] = field(default_factory=dict)

    def add(self, score: Score) -> None:
        """Add a score, in place of an older one of the same image."""
        self.scores[score.set_name, score.method] = score
        self.write()

    def write(self) -> None:
        """Replace the record file as a whole."""
        scores = [asdict(score) for score in self.scores.values()]
        content = {"format": _FORMAT, "dataset": self.dataset, "settings": self.settings, "scores": scores}
        write_texts(self.folder, {RECORD_NAME: json.dumps(content, indent=1)})


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files of a report folder, in place of older ones; a run that is killed leaves whole ones."""
    place_files({folder / name: partial(_write, content=text.encode()) for name, text in texts.items()}, overwrite=True)


def _write(stream: BinaryIO, content: bytes) -> None:
    stream.write(content)


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
    record = Record(folder=folder, dataset=str(dataset.folder), settings={method.name: digest_settings(method) for method in methods})
    found = _read_record(folder, overwrite=overwrite)
    if found is not None:
        if not overwrite:
            _check_same_request(found, record)
        # methods of earlier runs stay in the record, though this run may not ask for them
        return replace(record, settings=found.settings | record.settings, scores=found.scores)
    # a broken link does not "exist", yet writing would follow it
    taken = [folder / name for name in OUTPUT_NAMES if os.path.lexists(folder / name)]
    if taken and not overwrite:
        msg = f"{str(taken[0])!r} exists and is no result of a benchmark here; a new folder is needed: choose one or add --overwrite"
        raise OutputError(msg)
    return record


def _read_record(folder: Path, *, overwrite: bool) -> Record | None:
    path = folder / RECORD_NAME
    try:
        return _parse_record(folder, json.loads(path.read_text(encoding="utf-8")))
    # no report yet, which is fine; anything else that cannot be read might be somebody's file
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if overwrite:
            return None
        msg = f"{str(path)!r} is no record of a benchmark ({error}); an intact one or none is needed: remove it or add --overwrite"
        raise OutputError(msg) from error


def _parse_record(folder: Path, content: dict[str, Any]) -> Record:
    if content["format"] != _FORMAT:
        msg = f"format {content['format']!r} is not {_FORMAT}"
        raise ValueError(msg)
    scores = {(row["set_name"], row["method"]): Score(**row) for row in content["scores"]}
    return Record(folder=folder, dataset=str(content["dataset"]), settings=dict(content["settings"]), scores=scores)


def _check_same_request(found: Record, wanted: Record) -> None:
    # a method that was not run before has nothing to differ from
    changed = [name for name, digest in wanted.settings.items() if found.settings.get(name, digest) != digest]
    held = f"results of {changed[0]!r} with other settings" if changed else f"a report on {found.dataset!r}, not {wanted.dataset!r}"
    if changed or found.dataset != wanted.dataset:
        msg = f"{str(found.folder)!r} holds {held}; a new folder is needed: choose another one or add --overwrite"
        raise OutputError(msg)


# changes there touch no figure, except those of the other methods we compare with, whose code lies in comparison.baselines
_WITHOUT_EFFECT = ("cli/", "comparison/")
_WITH_EFFECT = "comparison/baselines/"
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


def digest_settings(method: Method) -> str:
    """Return the digest of all settings, or of the baseline's name; another program's settings are not known."""
    return digest_texts([json.dumps(method.baseline if method.settings is None else method.settings.to_dict(), sort_keys=True)])


@cache
def digest_engine() -> str:
    """Return the digest of everything the figures depend on besides inputs and settings: our code and the numerical packages.

    The version number alone would take results from before a change of the code, as developers make them, for new ones.
    """
    root = Path(qmcif_engine.__file__).parent
    # .npz: the learned dictionaries
    files = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if path.suffix in (".py", ".npz")}
    parts = [
        f"{name} {digest_file(path)}"
        for name, path in files.items()
        if name.startswith(_WITH_EFFECT) or not name.startswith(_WITHOUT_EFFECT)
    ]
    return digest_texts([*parts, *(f"{name} {version(name)}" for name in _NUMERICAL_PACKAGES)])


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
            parts = [digest_engine(), digest_settings(method), *contents, truth, image]
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
