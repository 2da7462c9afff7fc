"""Keep docs/method.md in step with the source: rows and citations are the same pairs, and so for departures and settings."""

from __future__ import annotations

import ast
import functools
import re
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from qmcif_engine.cleanup import blending, dark_border, frame_ends, regularization, seams, smoothness
from qmcif_engine.cleanup.boundaries import outlines, reblurring, trial_blurs
from qmcif_engine.kernels import boxes
from qmcif_engine.method.focus_measures import decomposition_measure

from qmcif_engine.method import focus, fusion, patches, refinement
from qmcif_engine.stack import noise, samples

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "qmcif_engine"
DOCUMENT = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")

CITATION = re.compile(r"\[QMCIF,\s+([^\]]+)\]")
CODE = re.compile(r"`([A-Za-z_.]+)`")


def cited_items(text: str) -> set[str]:
    """Return what the citations in a text name, equations one by one."""
    items: set[str] = set()
    for body in CITATION.findall(text):
        numbers = re.findall(r"\((\d+)\)", body) if body.startswith("Eq") else []
        items |= {f"Eq. ({number})" for number in numbers} or {" ".join(body.split())}
    return items


def documented_names() -> dict[str, str]:
    """Return the docstring of every function and class of the engine, by dotted name without the package."""
    names: dict[str, str] = {}
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(part for part in path.relative_to(PACKAGE).with_suffix("").parts if part != "__init__")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names[f"{module}.{node.name}"] = ast.get_docstring(node) or ""
    return names


def table_rows(heading: str) -> list[list[str]]:
    """Return the cells of the one table under a heading of the document, its header left out; all rows are as long as the header."""
    section = DOCUMENT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    header, rule, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert set("".join(rule)) == {"-"}
    assert {len(row) for row in rows} == {len(header)}
    return rows


NAMES = documented_names()
SYMBOL_ROWS = [(row[0], name) for row in table_rows("Symbols") for name in CODE.findall(row[3])]


def test_every_row_names_code_that_cites_it() -> None:
    stale = [(item, name) for item, name in SYMBOL_ROWS if item not in cited_items(NAMES.get(name, ""))]

    assert SYMBOL_ROWS
    assert stale == []


def test_every_citation_in_the_source_has_its_row() -> None:
    """Not just a row for what it cites: the one that names the function."""
    cited = {(item, name) for name, text in NAMES.items() for item in cited_items(text)}

    assert sorted(cited - set(SYMBOL_ROWS)) == []
    assert len(SYMBOL_ROWS) == len(set(SYMBOL_ROWS))


def test_every_citation_stands_in_the_docstring_of_a_function_or_class() -> None:
    """What is cited elsewhere, in a comment or by a constant, would escape the tables."""
    everywhere = sum(len(CITATION.findall(path.read_text(encoding="utf-8"))) for path in PACKAGE.rglob("*.py"))

    assert sum(len(CITATION.findall(text)) for text in NAMES.values()) == everywhere


def test_every_numbered_equation_of_the_paper_has_a_row() -> None:
    assert {f"Eq. ({number})" for number in range(1, 23)} <= {item for item, _ in SYMBOL_ROWS}


def test_the_departures_are_those_of_the_source() -> None:
    in_source = {name for name, text in NAMES.items() if "Departs:" in text}
    in_document = {CODE.findall(row[0])[0] for row in table_rows("Departures")}

    assert in_source == in_document


def shown(value: object) -> str:
    """Return a value of a setting as the document writes it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}".replace("e+0", "e").replace("e-0", "e-") if isinstance(value, float) else str(value)


def test_the_settings_table_has_one_row_a_setting_with_the_values_of_both_presets() -> None:
    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.config.presets import PRESETS

    names = [full.split(".") for full in FusionConfig.setting_fields()]
    paper, default = (PRESETS[name].to_dict() for name in ("paper", "default"))

    expected = [[f"`{name}`", shown(paper[section][name]), shown(default[section][name])] for section, name in names]

    assert [[setting, *values] for setting, _, *values in table_rows("Settings")] == expected


def test_constants_named_in_the_document_have_the_values_it_gives() -> None:
    """Written as `NAME` = value, or `module.NAME` = value where two modules have one of that name; a value may be a fraction."""
    given = re.findall(r"`(?:([a-z_.]+)\.)?([A-Z_]+)`\s=\s(\([^)]*\)|\d+/\d+|\d+(?:\.\d+)?(?:e-?\d+)?)", DOCUMENT)

    names = {name for _, name, _ in given}
    of_noise = {"BLOCK_PX", "CLEAN_LEVEL", "BLUR_FACTOR", "WIDEST_BLUR_PX", "SPARSE_LEVEL", "STACK_BLUR_FACTOR", "OUTLIER_EXCESS"}
    of_fitting = {
        "CELL_PX",
        "CONTRAST_WEIGHT",
        "CHOSEN_WEIGHT",
        "DEAREST_STEP",
        "STEP_EXPONENT",
        "HOPELESS_COST",
        "CONFIDENCES",
        "HALF_SIGNIFICANT",
    }
    of_edges = {"BLURS_PX", "NOISE_POWER", "COMPARISON_WINDOW_PX", "CONTRAST_SHARE", "CONTRAST_WINDOW_PX", "LARGEST_CONTRAST_EVIDENCE"}
    to_the_pixel = {"EXACT_BLURS_PX", "EXPLAINED_SHARES", "EXPLAINED_WINDOW_PX", "LEAST_REST", "EXACT_PASSES", "EXACT_INERTIA"}
    of_slopes = {"EVEN_SHARE", "SLOPE_FADE_PX", "SLOPE_REACH_PX"}
    of_blends = {"TEXTURE_PX", "SMOOTH_CONTRAST", "LEAST_VISIBLE_STEP", "LEAST_VISIBLE_CHANGE", "LEAST_SHARE"}
    of_brightness = {"LOW_PASS_PX", "LOW_PASS_REACH_PX", "BAND_PX", "WINDOW_PX", "FAINT_POWER", "SEAM_RATIOS"}
    of_frames = {"REACH_PX", "DARK_LOSS", "FADING_LOSS", "LARGEST_DIFFERENCE", "LARGEST_REACH_PX"}
    assert names >= of_noise | of_fitting | of_edges | to_the_pixel | of_slopes | of_blends | of_brightness | of_frames
    assert names >= {"MARGIN_PX", "EXACT_MARGIN_PX", "NEGLIGIBLE_LEVEL", "FAINT_LEVEL", "FINE_WEIGHT"}
    assert {module for module, name, _ in given if name == "ROUNDS"} == {"cleanup.boundaries.outlines", "cleanup.regularization"}
    assert {module for module, name, _ in given if name == "REACH_PX"} >= {"cleanup.dark_border", "cleanup.seams"}
    for module, name, value in given:
        (holder,) = [import_module(f"qmcif_engine.{module}")] if module else [home for home in HOMES if name in defined_constants(home)]
        assert as_number(value) == getattr(holder, name), name


HOMES = (
    blending,
    boxes,
    dark_border,
    focus,
    frame_ends,
    fusion,
    noise,
    outlines,
    patches,
    reblurring,
    refinement,
    regularization,
    decomposition_measure,
    samples,
    seams,
    smoothness,
    trial_blurs,
)
"""Where a constant without a module before it is looked for."""


@functools.cache
def defined_constants(module: ModuleType) -> set[str]:
    """Return the constants that a module defines rather than imports."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    return {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def as_number(text: str) -> object:
    """Return the value of a figure of the document."""
    return float(Fraction(text)) if "/" in text else ast.literal_eval(text)
