"""Code is counted as documented, and the table in docs/architecture.md is that of this tree."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]
COUNTING = runpy.run_path(str(ROOT / "tools" / "count_code.py"))
MODULE = '''"""Module."""

import numba

# a comment
TEXT = """two
lines"""
"""What it is for."""


@numba.njit(cache=True)
def doubled(x):
    """Docstring
    of two lines.
    """
    return 2 * x  # and another comment


@compiled
def halved(
    x,
): return x / 2
'''


def test_docstrings_comments_and_blank_lines_are_no_code():
    assert COUNTING["count_module"](MODULE) == (10, 1, 2)
    assert COUNTING["count_module"]('"""Only documented."""\n') == (0, 1, 0)


def test_lines_are_summed_by_folder(tmp_path):
    for name in ("src/qmcif_engine/a.py", "src/qmcif_engine/io/b.py", "src/qmcif_engine/io/c/d.py", "src/napari_qmcif/e.py", "tools/f.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")

    found = COUNTING["count_folders"](tmp_path)

    assert {name: tuple(count) for name, count in found.items() if count.lines} == {
        "qmcif_engine": (1, 1, 0),
        "qmcif_engine/io": (2, 2, 0),
        "napari_qmcif": (1, 1, 0),
        "tools": (1, 1, 0),
    }
    assert "| **source** | 4 | 4 |  |\n" in COUNTING["draw_table"](found)


def test_the_table_of_the_architecture_is_up_to_date():
    """Otherwise: python tools/count_code.py --write."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

    assert COUNTING["read_table"](page) == COUNTING["draw_table"](COUNTING["count_folders"](ROOT))
