"""Count lines of code by folder: without docstrings, comments and blank lines; with modules and compiled functions.

Run as ``python tools/count_code.py``; ``--write`` puts the table into docs/architecture.md, where a test compares it.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- python tools/count_code.py --write -->\n", "<!-- end of the table -->\n"
PACKAGES = ("qmcif_engine", "napari_qmcif")
OTHERS = ("benchmarks", "examples", "tests", "tools")

_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


class Count(NamedTuple):
    """Lines of code, modules and compiled functions."""

    lines: int = 0
    modules: int = 0
    compiled: int = 0


def count_module(text: str) -> Count:
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    # any text that stands alone is documentation
    texts = [
        node for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    documented = {number for node in texts for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in _NO_CODE]
    used = {number for token in tokens for number in range(token.start[0], token.end[0] + 1)}
    return Count(
        len(used - documented), 1, sum(isinstance(node, ast.FunctionDef) and any(map(_compiles, node.decorator_list)) for node in nodes)
    )


def _compiles(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) in ("compiled", "jit", "njit", "vectorize")


def count_folders(root: Path) -> dict[str, Count]:
    """Return what each folder of the packages has, then each folder beside them."""
    found: dict[str, Count] = defaultdict(Count)
    for package in PACKAGES:
        for path in (root / "src" / package).rglob("*.py"):
            parts = path.relative_to(root / "src" / package).parts
            is_split = package == PACKAGES[0] and len(parts) > 1
            name = f"{package}/{parts[0]}" if is_split else package
            found[name] = add([found[name], count_module(path.read_text(encoding="utf-8"))])
    for name in OTHERS:
        found[name] = add(count_module(path.read_text(encoding="utf-8")) for path in (root / name).rglob("*.py"))
    return dict(found)


def add(counts: Iterable[Count]) -> Count:
    return Count(*map(sum, zip(Count(), *counts, strict=True)))


def draw_table(found: dict[str, Count]) -> str:
    source = {name: count for name, count in found.items() if name not in OTHERS}
    rows = sorted(source.items(), key=lambda row: (-row[1].lines, row[0]))
    rows += [("**source**", add(source.values())), *((name, found[name]) for name in OTHERS)]
    lines = ["| folder | lines of code | modules | compiled functions |", "|---|--:|--:|--:|"]
    lines += [f"| {name} | {count.lines:,} | {count.modules} | {count.compiled or ''} |" for name, count in rows]
    return "\n".join(lines) + "\n"


def read_table(page: str) -> str:
    return page.partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the table into docs/architecture.md")
    options = parser.parse_args()
    table = draw_table(count_folders(ROOT))
    if options.write:
        before, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(before + begin + table + END + rest.partition(END)[2], encoding="utf-8")
    print(table, end="")


if __name__ == "__main__":
    main()
