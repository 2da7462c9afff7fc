"""Result files of the benchmarks: one JSON file per table under ``benchmarks/results``.

``python tools/write_figures.py`` writes the tables of README.md and of the documentation from these files, and a test fails while a
document says something else. A benchmark that has finished calls `save_result`; nobody edits the files or the tables by hand.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FOLDER = Path(__file__).parent / "results"
PACKAGES = ("napari-qmcif", "numpy", "scipy", "numba")

Cell = str | int | float | None


class Result(NamedTuple):
    """One table of figures, with what is needed to take it again."""

    command: str
    date: str
    machine: str
    versions: Mapping[str, str]
    columns: Sequence[str]
    formats: Mapping[str, str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    def list_rows(self) -> list[dict[str, Cell]]:
        """Return the rows by the names of their columns."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def save_result(
    name: str,
    *,
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    formats: Mapping[str, str] | None = None,
    note: str = "",
    command: str | None = None,
    folder: Path = FOLDER,
) -> Path:
    """Write the table of the running benchmark, with its command line (or that given), the date, the machine and the versions.

    ``formats`` has the format of a column of floats (``".2f"``); strings and whole numbers are shown as they are, None as an empty cell.
    """
    result = Result(
        command=command or shlex.join(["python", "benchmarks/" + Path(sys.argv[0]).name, *sys.argv[1:]]),
        date=datetime.now(tz=UTC).date().isoformat(),
        machine=describe_machine(),
        versions={"Python": platform.python_version(), **{package: version(package) for package in PACKAGES}},
        columns=list(columns),
        formats=dict(formats or {}),
        rows=[list(row) for row in rows],
        note=note,
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(result._asdict(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def load_result(name: str, *, folder: Path = FOLDER) -> Result:
    """Read one result file."""
    return Result(**json.loads((folder / f"{name}.json").read_text(encoding="utf-8")))


def describe_machine() -> str:
    """Return cores, processor and system in one phrase."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8").splitlines() if information.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{os.cpu_count()} cores, {models[0] if models else platform.processor() or platform.machine()}, {platform.system()}"
