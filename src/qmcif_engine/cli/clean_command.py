"""``qmcif clean``: what killed runs left behind, listed and removed."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from qmcif_engine.cli.options import Request
from qmcif_engine.cli.terminal import show_bytes
from qmcif_engine.errors import ExecutionError, ImageFileError
from qmcif_engine.io.output.leftovers import find_leftovers
from qmcif_engine.io.output.moves import clean_up
from qmcif_engine.run.job_folder import JOB_SUFFIX, JobFolder, is_in_use

DEEPEST_FOLDERS = 3
"""Folders below the given one that are looked through: maps and slabs lie beside their image."""


class Found(NamedTuple):
    """Something that a run left, or uses: its kind, its size, whether a run is using it, and a function that removes it."""

    path: Path
    kind: str
    n_bytes: int
    is_in_use: bool
    remove: Callable[[], None]


def run(options: Request) -> None:
    """List what is left in the folders and in the scratch folder, and remove what is not in use.

    Raises
    ------
    ExecutionError
        When something could not be removed.
    """
    folders = [*(options.folders or [Path()]), options.scratch or Path(tempfile.gettempdir())]
    # all are found first: removing one may remove others
    rows = [(found, _keep(found, options) or _remove(found)) for found in list(_find(folders))]
    _render(rows, options)
    failed = [found for found, state in rows if state.startswith("cannot")]
    if failed:
        msg = f"{len(failed)} of {len(rows)} could not be removed; the right to is needed: see the reasons above"
        raise ExecutionError(msg)


def _find(folders: list[Path]) -> Iterator[Found]:
    seen: set[Path] = set()
    for folder in folders:
        if not folder.is_dir():
            msg = f"{str(folder)!r} is no folder; folders in which outputs were written are needed: name one"
            raise ImageFileError(msg)
        # not below it: the system's folder for temporary files belongs to everybody
        is_scratch = folder == folders[-1]
        for place in [folder] if is_scratch else _walk(folder, DEEPEST_FOLDERS):
            if place.resolve() not in seen:
                seen.add(place.resolve())
                yield from _find_in(place)


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    yield folder
    if depth:
        for path in sorted(folder.iterdir()):
            # stores have folders by the thousand, in which nothing of ours is left
            is_ours = path.name.startswith(".") or path.name.endswith((JOB_SUFFIX, ".zarr"))
            if path.is_dir() and not path.is_symlink() and not is_ours:
                yield from _walk(path, depth - 1)


def _find_in(folder: Path) -> Iterator[Found]:
    for leftover in find_leftovers(folder):
        kind = "scratch" if leftover.kind == "scratch" else "temporary"
        yield Found(leftover.path, kind, _measure(leftover.path), not leftover.is_abandoned, partial(clean_up, leftover))
    for job in sorted(folder.glob(f"*{JOB_SUFFIX}")):
        if job.is_dir():
            yield Found(job, "unfinished run", _measure(job), is_in_use(job), JobFolder(job).throw_away)


def _measure(path: Path) -> int:
    if not path.is_dir():
        return path.lstat().st_size
    return sum(file.lstat().st_size for file in path.rglob("*") if not file.is_dir())


def _keep(found: Found, options: Request) -> str:
    """Return why something is kept; nothing where it is to be removed."""
    if found.is_in_use:
        return "in use"
    if found.kind == "unfinished run" and not options.unfinished:
        return "kept: continue it with --resume, or remove it with --jobs"
    return "would be removed" if options.dry_run else ""


def _remove(found: Found) -> str:
    try:
        found.remove()
    # removed together with another one, or by a run that began meanwhile
    except FileNotFoundError:
        return "removed"
    except OSError as error:
        return f"cannot be removed ({error})"
    return "removed" if not found.path.exists() else "kept: it belongs to an output that was being replaced"


def _render(rows: list[tuple[Found, str]], options: Request) -> None:
    if options.json:
        content = [{"path": str(found.path), "kind": found.kind, "bytes": found.n_bytes, "state": state} for found, state in rows]
        print(json.dumps({"leftovers": content}))
        return
    for found, state in rows:
        print(f"{str(found.path)!r}: {found.kind}, {show_bytes(found.n_bytes)}, {state}")
    if not rows:
        print("nothing is left behind")
