"""Keep docs/method.md in step with the source: every citation has a row, every row a citation, and so for the departures."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "qmcif_engine"
DOCUMENT = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")

CITATION = re.compile(r"\[QMCIF,\s+([^\]]+)\]")
CODE = re.compile(r"`([a-z_.]+)`")


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
    """Return the cells of the table under a heading of the document, its header left out."""
    section = DOCUMENT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


NAMES = documented_names()
SYMBOL_ROWS = [(row[0], name) for row in table_rows("Symbols") for name in CODE.findall(row[3])]


def test_every_row_names_code_that_cites_it() -> None:
    stale = [(item, name) for item, name in SYMBOL_ROWS if item not in cited_items(NAMES.get(name, ""))]

    assert SYMBOL_ROWS
    assert stale == []


def test_every_citation_in_the_source_has_a_row() -> None:
    cited = {(item, name) for name, text in NAMES.items() for item in cited_items(text)}
    items_with_rows = {item for item, _ in SYMBOL_ROWS}

    assert {item for item, _ in cited} == items_with_rows


def test_every_numbered_equation_of_the_paper_has_a_row() -> None:
    assert {f"Eq. ({number})" for number in range(1, 23)} <= {item for item, _ in SYMBOL_ROWS}


def test_the_departures_are_those_of_the_source() -> None:
    in_source = {name for name, text in NAMES.items() if "Departs:" in text}
    in_document = {CODE.findall(row[0])[0] for row in table_rows("Departures")}

    assert in_source == in_document


def test_every_setting_in_the_document_exists_with_that_default() -> None:
    from qmcif_engine.config import FusionConfig, setting_fields

    fields = {full.partition(".")[2]: full for full in setting_fields()}
    defaults = FusionConfig().to_dict()
    for _, settings, _, default in table_rows("Settings"):
        names = CODE.findall(settings)
        values = default.split(", ")
        for name, shown in zip(names, values, strict=True) if len(names) == len(values) else [(names[0], None)]:
            section, _, field = fields[name].partition(".")
            value = defaults[section][field]
            if shown is not None and not shown.startswith("the same"):
                expected = {"yes": True, "no": False}.get(shown, shown)
                assert value == (expected if isinstance(expected, bool) else float(expected)), name
