"""Keep docs/method.md in step with the source: rows and citations are the same pairs, and so for departures and settings."""

from __future__ import annotations

import ast
import re
from fractions import Fraction
from importlib import import_module
from pathlib import Path

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


def section_of(heading: str) -> str:
    """Return what stands under a heading of the document."""
    return DOCUMENT.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def table_rows(heading: str) -> list[list[str]]:
    """Return the cells of the one table under a heading of the document, its header left out; all rows are as long as the header."""
    lines = [line for line in section_of(heading).splitlines() if line.startswith("|")]
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
    from qmcif_engine.config.fusion_config import PRESETS, FusionConfig

    names = [full.split(".") for full in FusionConfig.setting_fields()]
    paper, default = (PRESETS[name].to_dict() for name in ("paper", "default"))

    expected = [[f"`{name}`", shown(paper[section][name]), shown(default[section][name])] for section, name in names]

    assert [[setting, *values] for setting, _, *values in table_rows("Settings")] == expected


def test_constants_named_in_the_document_have_the_values_it_gives() -> None:
    """Written as `NAME` = value, or `module.NAME` = value where two modules have one of that name; a value may be a fraction."""
    given = re.findall(r"`(?:([a-z_.]+)\.)?([A-Z_]+)`\s=\s(\([^)]*\)|\d+/\d+|\d+(?:\.\d+)?(?:e-?\d+)?)", DOCUMENT)

    assert {name for _, name, _ in given} >= {"DARK_LOSS", "FADING_LOSS", "NEGLIGIBLE_LEVEL", "SOLVE_MARGIN_PX"}
    for module, name, value in given:
        (home,) = [module] if module else [home for home in HOMES if name in assigned_values(home)]
        assert as_number(value) == value_of(home, name), name


def test_the_table_of_constants_has_every_literal_of_the_default_rule_with_its_value() -> None:
    rows = table_rows("Constants")
    listed = [(name, value) for names, values, *_ in rows for name, value in zip(CONSTANT.findall(names), values.split("; "), strict=True)]
    derived = CONSTANT.findall(section_of("Constants").rpartition("|\n")[2])
    literals = {
        f"{home.rpartition('.')[2]}.{name}": home
        for home in RULE_MODULES
        for name, value in assigned_values(home).items()
        if is_literal(value)
    }

    assert sorted([*(name for name, _ in listed), *derived]) == sorted(literals)
    for name, value in listed:
        assert as_number(value) == value_of(literals[name], name.rpartition(".")[2]), name


def test_few_constants_of_the_default_rule_are_chosen_and_fewer_fitted() -> None:
    kinds = [(len(CONSTANT.findall(names)), kind) for names, *_, kind in table_rows("Constants")]

    assert len(kinds) <= MOST_ROWS
    assert sum(count for count, kind in kinds if kind.startswith("fitted: `python ")) <= MOST_FITTED
    assert [kind for _, kind in kinds if not kind.startswith(("fitted: `python ", "chosen", "published"))] == []


def test_the_reach_of_a_tile_is_the_sum_of_the_document() -> None:
    from qmcif_engine.config.fusion_config import PRESETS
    from qmcif_engine.decision.energy import RULE

    rows = table_rows("Reach of every term in pixels")
    named = [(*name.rpartition(".")[::2], number) for _, text, number in rows for name in re.findall(r"`([a-z_.]+\.[A-Z_]+)`", text)]
    reach = {term: int(number) for term, _, number in rows}
    both = reach["messages between cells"] + reach["composition"]

    assert [(home, name) for home, name, number in named if value_of(home, name) != int(number)] == []
    assert RULE.reach_px(PRESETS["default"], (1, 1)) == reach["halo term"] + reach["depth edges, labels"] + both
    assert RULE.reach_px(PRESETS["fast"], (1, 1)) == reach["outliers"] + reach["evidence, fine scale"] + both


MOST_ROWS, MOST_FITTED = 25, 10
CONSTANT = re.compile(r"`([a-z_]+\.[A-Z_]+)`")
RULE_MODULES = [*(f"decision.{path.stem}" for path in sorted((PACKAGE / "decision").glob("[a-z]*.py"))), "method.detail_layer"]
"""Whose numbers the table of constants has."""

HOMES = [*RULE_MODULES, *(f"method.{path.stem}" for path in (PACKAGE / "method").glob("[a-z]*.py") if path.stem != "detail_layer")]
"""Where a constant without a module before it is looked for."""


def assigned_values(module: str) -> dict[str, ast.expr]:
    """Return what a module assigns to each of its constants; names that are assigned together share a tuple."""
    values: dict[str, ast.expr] = {}
    for node in ast.parse((PACKAGE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")).body:
        for target in node.targets if isinstance(node, ast.Assign) else []:
            names = [name.id for name in ast.walk(target) if isinstance(name, ast.Name) and name.id.isupper()]
            values |= dict.fromkeys(names, node.value)
    return values


def is_literal(node: ast.expr) -> bool:
    """Return whether a value is made of numbers alone: where it names other constants nothing was chosen."""
    structure = ast.Tuple | ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop | ast.Load
    parts = [part for part in ast.walk(node) if not isinstance(part, structure)]
    return all(isinstance(part, ast.Constant) and isinstance(part.value, int | float) for part in parts)


def value_of(module: str, name: str) -> object:
    """Return the value of a constant of the engine."""
    return getattr(import_module(f"qmcif_engine.{module}"), name)


def as_number(text: str) -> object:
    """Return the value of a figure of the document."""
    return float(Fraction(text)) if "/" in text else ast.literal_eval(text)
