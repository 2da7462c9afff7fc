"""The language of the source: modules and classes are noun phrases, and words mean what they mean in the field."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = sorted((ROOT / "src").rglob("*.py"))
VERBS = frozenset(
    re.findall(
        r"\w+",
        "Add Align Apply Ask Average Be Blend Bring Build Carry Check Choose Code Collect Compare Compile Compute Convert Count Cut Decide "
        "Declare Decompose Describe Draw End Estimate Evaluate Find Fit Fuse Gather Give Go Hand Hold Judge Keep Know Lean Learn Let List "
        "Load Make Measure Minimize Move Name Offer Open Paint Prepare Put Reach Read Refuse Remember Repeat Report Resample Return Run "
        "Say Settle Show Solve Sort Split Stand State Store Take Tell Turn Watch Write",
    )
)


def first_words() -> dict[str, str]:
    """Return the first word of the docstring of every module and class."""
    words: dict[str, str] = {}
    for path in SOURCE:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        for node in (tree, *classes):
            text = ast.get_docstring(node)
            if text:
                words[f"{path.relative_to(ROOT)}:{getattr(node, 'name', '')}"] = text.split()[0].rstrip(",:;")
    return words


def test_modules_and_classes_are_named_by_noun_phrases() -> None:
    assert {place: word for place, word in first_words().items() if word in VERBS} == {}


def test_a_dark_frame_is_spoken_of_only_as_the_former_name_of_a_setting() -> None:
    """In the field it is an exposure with a closed shutter; rows that fade to black are a dark border."""
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.name != "glossary.md"]
    spoken = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in (*SOURCE, ROOT / "README.md", *pages)
        for found in re.finditer(r"dark[ _]frames?(?:_px)?", path.read_text(encoding="utf-8"), flags=re.IGNORECASE)
    ]

    assert spoken == [f"{Path('src/qmcif_engine/config/former_settings.py')}: dark_frame_px"]
