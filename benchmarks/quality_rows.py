"""Figures of the report of ``stacks.py`` as rows, kept in one result file and shown beside those of another engine.

A row is a part of the report, the name of a stack, scene or set, the program that made the picture, and what was measured. Rows of the
same part, name and program replace each other, so that a report can be made in pieces. ``floors.json`` holds what the default of ef70af8
has, and what the other programs have; ``stacks_quality.json`` what the present default has.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from result_files import FOLDER, load_result, save_result

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

OURS, LAPLACIAN, ENFUSE = "ours", "LoG pick", "enfuse"
FLOORS, PRESENT = "floors", "stacks_quality"
FLOORS_COMMIT = "ef70af8"
COLUMNS = ("part", "name", "program", "figures")
SHOWN = {
    "objects": (("objects", "strong"), {"kept": ".3f", "strong_lost": ".0f"}),
    "seams": ((), {"seams": ".2f"}),
    "detail": (("textured",), {"lost": ".4f", "soft": ".4f", "excess": ".4f"}),
    "halos": (("psnr_of_best_choice",), {"halo": ".4f", "psnr": ".2f"}),
    "heights": ((), {"height": ".3f", "right": ".4f", "psnr": ".2f"}),
    "pairs": (("pairs",), dict.fromkeys(("Q_MI", "Q_G", "Q_P", "Q_E", "Q_Y", "Q_CB"), ".4f") | {"PSNR": ".2f", "PSNR_inner": ".2f"}),
    "noise": ((), {f"sigma_{sigma}": ".2f" for sigma in (0, 5, 10, 20)}),
    "confidence": ((), {"right": ".3f"}),
    "robustness": ((), {"kept": ".3f", "halo": ".4f", "halo_evened": ".4f"}),
    "scenes": ((), dict.fromkeys(("none", "gaussian 10", "photons 30", "photons 10", "hot", "beads"), ".2f")),
}
"""For each part the figures that all programs share, and those shown of each program with their formats."""


class Row(NamedTuple):
    """What was measured of one picture, or of several of one kind."""

    part: str
    name: str
    program: str
    figures: dict[str, Any]


def load_rows(name: str, *, folder: Path = FOLDER) -> list[Row]:
    """Return the rows of a result file; none where it is not there."""
    if not (folder / f"{name}.json").exists():
        return []
    return [Row(part, title, program, json.loads(str(figures))) for part, title, program, figures in load_result(name, folder=folder).rows]


def keep_rows(name: str, rows: Iterable[Row], *, folder: Path = FOLDER) -> None:
    """Add rows to a result file, in place of those that they measure again."""
    note = f"The engine on PYTHONPATH was that of {FLOORS_COMMIT}." if name == FLOORS else ""
    command = f"python benchmarks/stacks.py --save {name}"
    kept = {row[:3]: row for row in (*load_rows(name, folder=folder), *rows)}
    ordered = sorted(kept.values(), key=lambda row: list(SHOWN).index(row.part))
    cells = [(*row[:3], json.dumps(row.figures)) for row in ordered]
    save_result(name, columns=COLUMNS, rows=cells, note=note, command=command, folder=folder)


def tabulate(part: str, present: list[Row], floors: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Return header and lines of one part: the present default, today's as the floor, and the other programs.

    Seeds of a scene become one line: the largest halo, and the mean of everything else.
    """
    common, shown = SHOWN[part]
    named = {OURS: "present default", FLOORS: f"floor ({FLOORS_COMMIT})", LAPLACIAN: LAPLACIAN, ENFUSE: ENFUSE}
    tagged = [row._replace(program=FLOORS if row.program == OURS else row.program) for row in floors]
    table = join_seeds({row[:3]: row for row in (*tagged, *present) if row.part == part}.values())
    programs = [program for program in named if any(program == key[1] for key in table)]
    used = {figure: style for figure, style in shown.items() if any(figure in figures for figures in table.values())}
    columns = [f"{named[program]}: {' / '.join(used)}" for program in programs]
    header = [name.replace("_", " ") for name in ("stack or scene", *common, *columns)]
    lines = []
    for name in dict.fromkeys(name for name, _ in table):
        own = [table.get((name, program), {}) for program in programs]
        first = next(figures for figures in own if figures)
        cells = [" / ".join(format(figures[figure], style) for figure, style in used.items() if figure in figures) for figures in own]
        lines.append([name, *(f"{first[figure]:.4g}" for figure in common), *cells])
    return header, lines


def join_seeds(rows: Iterable[Row]) -> dict[tuple[str, str], dict[str, float]]:
    """Return the figures by name and program, those of all seeds in one."""
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        grouped.setdefault((row.name.partition(", seed")[0], row.program), []).append(row.figures)
    return {key: {name: join(name, figures) for name, value in figures[0].items() if is_number(value)} for key, figures in grouped.items()}


def join(name: str, figures: list[dict[str, Any]]) -> float:
    values = [one[name] for one in figures]
    return max(values) if name.startswith("halo") else sum(values) / len(values)


def is_number(value: object) -> bool:
    return isinstance(value, int | float)
