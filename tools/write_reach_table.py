"""Write the table of reaches in docs/method.md from the list of stages.

Run after a stage was added or changed; a test fails while the table is out of date.
"""

from __future__ import annotations

from pathlib import Path

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.tiles.stage_list import STAGES

DOCUMENT = Path(__file__).parents[1] / "docs" / "method.md"
HEADER = "| stage | reach | default |\n|---|---|---|\n"


def render_table() -> str:
    """Return the rows: every input that a stage looks at, its reach in words, and in pixels for the default with the largest patch."""
    config = FusionConfig()
    side = config.focus.largest_detail_patch_px
    rows = [(f"`{stage.name}`" + (f", {reach.of}" if reach.of else ""), reach) for stage in STAGES for reach in stage.reaches]
    return "".join(f"| {name} | {reach.formula} | {reach.px(config, side)} |\n" for name, reach in rows)


def update(text: str) -> str:
    """Return the document with the table as it should be."""
    before, rest = text.split(HEADER)
    _, after = rest.split("\n\n", 1)
    return f"{before}{HEADER}{render_table()}\n{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(update(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
