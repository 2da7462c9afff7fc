"""Fusion of many stacks, one after the other, with a row for each that says what became of it."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PureWindowsPath
from typing import NamedTuple

from qmcif_engine import __version__
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import Cancelled, ImageFileError, InvalidConfigError, OutputError
from qmcif_engine.io.input.file_order import IMAGE_SUFFIXES, RAW_SUFFIXES, is_zarr_folder, natural_key
from qmcif_engine.run.job_folder import JOB_SUFFIX, JobFolder

logger = logging.getLogger(__name__)

LONGEST_NAME_BYTES = 200
"""File systems hold 255 bytes; what is added to a name needs some of them."""

LARGEST_NUMBER_OF_WILDCARDS = 3
"""In one name of a pattern: more would let a long file name take minutes to compare."""

_ZARR_SUFFIX = re.compile(r"(\.ome)?\.zarr$", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"(\{[^{}]*\}|\*)")
_MEANINGS = {"{group}": r"(?P<group>.+)", "{frame}": r"(?P<frame>[0-9]+)", "*": r".*"}


class Group(NamedTuple):
    """One stack to be fused: what its results are called, and its inputs in order."""

    name: str
    inputs: tuple[Path, ...]


class BatchStatus(StrEnum):
    """What became of a stack."""

    FUSED = "fused"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """What became of one stack.

    Attributes
    ----------
    name : str
    status : BatchStatus
    seconds : float
    outputs : tuple of Path
        Empty unless it was fused.
    message : str
        Why it failed; empty where it did not.
    """

    name: str
    status: BatchStatus
    seconds: float
    outputs: tuple[Path, ...] = ()
    message: str = ""


def run_batch(
    groups: Sequence[Group], fuse_group: Callable[[Group], Sequence[Path]], *, on_row: Callable[[BatchRow], None] = lambda _: None
) -> list[BatchRow]:
    """Fuse every group; one that fails does not keep the others from being fused.

    Parameters
    ----------
    groups : sequence of Group
    fuse_group : callable
        Fuses one group and returns its outputs, none where there was nothing left to do.
    on_row : callable
        Told about each group when it is done.

    Raises
    ------
    Cancelled
        When that ended a fusion: then no further one is begun.
    """
    rows = []
    for group in groups:
        started = time.perf_counter()
        outputs: Sequence[Path] = ()
        message = ""
        try:
            check_name(group.name)
            outputs = fuse_group(group)
            status = BatchStatus.FUSED if outputs else BatchStatus.SKIPPED
        except Cancelled:
            raise
        except Exception as error:
            logger.debug("%s failed", group.name, exc_info=True)
            status, message = BatchStatus.FAILED, " ".join(str(error).split()) or type(error).__name__
        seconds = round(time.perf_counter() - started, 3)
        rows.append(BatchRow(name=group.name, status=status, seconds=seconds, outputs=tuple(outputs), message=message))
        on_row(rows[-1])
    return rows


class RunList(JobFolder):
    """Several runs that go on one after the other: while they last, their folder says that others must wait, and what may be replaced.

    Attributes
    ----------
    has_results : bool
        Whether something was finished that a later run can go on with.
    """

    has_results = False

    def watch(self, is_cancelled: Callable[[], bool] | None = None) -> Callable[[], bool]:
        """Return the question whether to go on, which comes often enough to carry the signs of life of the list."""

        def is_over() -> bool:
            self.heartbeat()
            return is_cancelled is not None and is_cancelled()

        return is_over

    def holds_results(self) -> bool:
        """Return whether a run has finished, or can be continued."""
        return self.has_results or any(path != self.folder for path in self.folder.parent.glob(f"*{JOB_SUFFIX}"))


@contextmanager
def run_list(folder: Path, config: FusionConfig, *, resume: bool, overwrite: bool) -> Iterator[RunList]:
    """Begin a list of runs, or continue one that was interrupted; it goes when the block has ended, and stays when that fails.

    Raises
    ------
    OutputError
        When another one is going on, or an unfinished one has other settings or may be neither used nor discarded.
    """
    listed = RunList(folder)
    listed.begin([__version__, config.to_dict()], resume=resume, overwrite=overwrite)
    try:
        yield listed
    except BaseException:
        listed.abort()
        raise
    listed.remove()


def check_name(name: str) -> None:
    """Refuse a name that would not stay one file in the folder of results.

    Raises
    ------
    OutputError
    """
    # a Windows path takes backslashes and drive letters for what they may be there
    is_plain = name.isprintable() and not name.startswith(".") and name == name.strip() == PureWindowsPath(name).name
    if not name or not is_plain or len(name.encode("utf-8", "surrogateescape")) > LONGEST_NAME_BYTES:
        msg = f"the stack is called {name!r}, which cannot name its results; a plain file name is needed: rename it"
        raise OutputError(msg)


def find_groups(root: Path, pattern: str | None = None, *, leave_out: Path | None = None) -> list[Group]:
    """Return the stacks below a folder, in natural order.

    Parameters
    ----------
    root : Path
    pattern : str, optional
        Names of files below the folder, such as ``{group}_z{frame}.tif`` or ``{group}/{frame}.png``: ``{group}`` is what a stack is
        called, ``{frame}`` the number of an image, ``*`` anything. Without ``{frame}``, each match is the next image, and a single match
        a stack by itself. Where left out, every folder that holds images, and every Zarr folder, is a stack.
    leave_out : Path, optional
        A folder whose content is no input: that of the results.

    Raises
    ------
    ImageFileError
        When the folder cannot be read or there is no stack.
    InvalidConfigError
        When the pattern is none, or two stacks would be called the same.
    """
    parts = None if pattern is None else parse_pattern(pattern)
    try:
        groups = _list_folders(root, leave_out) if parts is None else _list_matches(root, parts, leave_out)
    except OSError as error:
        msg = f"{str(root)!r} cannot be read ({error.strerror or error}); a readable folder is needed; check its name and permissions"
        raise ImageFileError(msg) from error
    if not groups:
        wanted = "folders of images" if pattern is None else f"files that match {pattern!r}"
        msg = f"{str(root)!r} holds no stack; {wanted} are needed; check the folder, or give a pattern such as '{{group}}_{{frame}}.tif'"
        raise ImageFileError(msg)
    _check_distinct(groups)
    return sorted(groups, key=lambda group: natural_key(group.name))


def parse_pattern(pattern: str) -> list[re.Pattern[str]]:
    """Return what the names of folders and, last, of files must look like.

    Raises
    ------
    InvalidConfigError
        When it does not name groups, or leads out of the folder.
    """
    names = pattern.split("/")
    if any(name in ("", ".", "..") for name in names) or pattern.count("{group}") != 1 or pattern.count("{frame}") > 1:
        needed = "names with one {group} and at most one {frame}"
        msg = f"the pattern is {pattern!r}; {needed} are needed: write for example '{{group}}_{{frame}}.tif'"
        raise InvalidConfigError(msg)
    return [_compile_name(name, pattern) for name in names]


def _compile_name(name: str, pattern: str) -> re.Pattern[str]:
    pieces = _PLACEHOLDER.split(name)
    unknown = [piece for piece in pieces[1::2] if piece not in _MEANINGS]
    if unknown or len(pieces[1::2]) > LARGEST_NUMBER_OF_WILDCARDS:
        found = unknown[0] if unknown else f"{len(pieces[1::2])} placeholders in {name!r}"
        known = f"{{group}}, {{frame}} and *, at most {LARGEST_NUMBER_OF_WILDCARDS} in a name"
        msg = f"the pattern {pattern!r} has {found}; {known}, can be used: correct it"
        raise InvalidConfigError(msg)
    return re.compile("".join(_MEANINGS[piece] if number % 2 else re.escape(piece) for number, piece in enumerate(pieces)))


def _list_folders(root: Path, leave_out: Path | None) -> list[Group]:
    return [
        Group(_ZARR_SUFFIX.sub("", folder.name), (folder,))
        for folder in _visible(root, leave_out)
        if folder.is_dir() and (is_zarr_folder(folder) or _holds_images(folder))
    ]


def _holds_images(folder: Path) -> bool:
    suffixes = IMAGE_SUFFIXES + RAW_SUFFIXES
    return any(path.name.lower().endswith(suffixes) and not path.name.startswith(".") for path in folder.iterdir())


def _list_matches(root: Path, parts: Sequence[re.Pattern[str]], leave_out: Path | None) -> list[Group]:
    found: dict[str, list[tuple[int, Path]]] = {}
    for path, values in _walk(root, parts, leave_out):
        found.setdefault(values["group"], []).append((int(values.get("frame", "0")), path))
    return [
        Group(name, tuple(path for _, path in sorted(items, key=lambda item: (item[0], natural_key(str(item[1]))))))
        for name, items in found.items()
    ]


def _walk(root: Path, parts: Sequence[re.Pattern[str]], leave_out: Path | None) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield what matches, and what the placeholders stand for."""
    for path in _visible(root, leave_out):
        matched = parts[0].fullmatch(path.name)
        if matched is None:
            continue
        if len(parts) == 1:
            yield path, matched.groupdict()
        elif path.is_dir():
            for below, values in _walk(path, parts[1:], leave_out):
                yield below, matched.groupdict() | values


def _visible(folder: Path, leave_out: Path | None) -> Iterator[Path]:
    forbidden = None if leave_out is None else os.path.realpath(leave_out)
    for path in sorted(folder.iterdir()):
        if not path.name.startswith(".") and os.path.realpath(path) != forbidden:
            yield path


def _check_distinct(groups: Sequence[Group]) -> None:
    """Refuse names that some file systems take for one."""
    known: dict[str, str] = {}
    for group in groups:
        other = known.setdefault(group.name.casefold(), group.name)
        if other is not group.name:
            msg = f"the stacks {other!r} and {group.name!r} would have results of the same name; different names are needed: rename one"
            raise InvalidConfigError(msg)
