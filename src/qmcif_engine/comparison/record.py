"""The record of a benchmark in its report folder, from which the next run goes on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO

from qmcif_engine.comparison.fingerprints import digest_settings
from qmcif_engine.errors import OutputError
from qmcif_engine.io.output.placement import place_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from qmcif_engine.comparison.datasets import Dataset
    from qmcif_engine.comparison.methods import Method

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
        dataset=str(dataset.folder), settings={method.name: digest_settings(method.settings, rival=method.rival) for method in methods}
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
    settings = {str(name): str(digest) for name, digest in content["settings"].items()}
    return Record(dataset=str(content["dataset"]), settings=settings, scores=tuple(_parse_score(row) for row in content["scores"]))


def _parse_score(row: dict[str, Any]) -> Score:
    figures = {str(symbol): None if value is None else float(value) for symbol, value in row["figures"].items()}
    texts = {name: str(row[name]) for name in ("set_name", "method", "inputs", "fused")}
    # records from before this field have none
    border_px = row.get("border_px")
    return Score(figures=figures, border_px=None if border_px is None else int(border_px), **texts)


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
