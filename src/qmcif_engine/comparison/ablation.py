"""The paper's two ablation tables for any data set: sections IV-B (terms of QFED) and IV-D (settings of QMCIF)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from qmcif_engine.comparison import tables
from qmcif_engine.comparison.methods import Method
from qmcif_engine.comparison.record import Score
from qmcif_engine.comparison.report import Comparison, draw_facts, draw_table, escape
from qmcif_engine.config.fusion_config import FusionConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class AblationRow:
    """One row: its group and label in the table, the name of its images, and what it changes in the settings."""

    group: str = ""
    label: str
    name: str
    changes: Mapping[str, object] = field(default_factory=dict)

    @property
    def full_label(self) -> str:
        """Return what the first column says."""
        return f"{self.group}: {self.label}" if self.group else self.label


TERM_ROWS = (
    AblationRow(label="alpha = 0", name="alpha-0", changes={"base_smoothness": 0.0}),
    AblationRow(label="beta = 0", name="beta-0", changes={"detail_sparsity": 0.0}),
    AblationRow(label="lambda = 0", name="lambda-0", changes={"noise_weight": 0.0}),
    AblationRow(label="QFED", name="full"),
)
"""The terms of QFED, in the order of the paper."""

SETTING_ROWS = (
    AblationRow(group="patch size", label="5 x 5", name="patch-5", changes={"base_patch_px": 5}),
    AblationRow(group="patch size", label="10 x 10", name="patch-10", changes={"base_patch_px": 10}),
    AblationRow(group="patch size", label="8 x 8", name="patch-8", changes={"base_patch_px": 8}),
    AblationRow(group="fusion", label="QBDF base scale", name="base", changes={"result": "base"}),
    AblationRow(group="fusion", label="QBDF detail scale", name="detail", changes={"result": "detail"}),
    AblationRow(group="fusion", label="QSSR", name="refined", changes={"result": "refined"}),
    AblationRow(group="weight tau", label="equal", name="equal", changes={"weights": "equal"}),
    AblationRow(group="weight tau", label="adaptive", name="adaptive", changes={"weights": "adaptive"}),
    AblationRow(group="representation", label="real", name="real", changes={"representation": "gray"}),
    AblationRow(group="representation", label="quaternion", name="quaternion", changes={"representation": "quaternion"}),
)
"""The settings of QMCIF, in the order of the paper."""


def plan_ablation(base: FusionConfig) -> tuple[tuple[Method, ...], dict[str, str]]:
    """Return the methods to run, each once, and by which of them each row is filled.

    Five rows of the paper are the full method; whatever settings rows share is run once.

    Returns
    -------
    tuple of Method
        Named after the first row that needs them; the full method first.
    dict of str to str
        Name of the method by the name of the row.
    """
    # settings are hashable, so rows that change nothing, or the same, meet at one key
    names: dict[FusionConfig, str] = {base: "ablation-full"}
    filled_by = {}
    for row in (*TERM_ROWS, *SETTING_ROWS):
        settings = base.replaced(dict(row.changes))
        filled_by[row.name] = names.setdefault(settings, f"ablation-{row.name}")
    return tuple(Method(name=name, settings=settings) for settings, name in names.items()), filled_by


def write_ablation(comparison: Comparison, filled_by: Mapping[str, str]) -> str:
    """Return both tables as Markdown, after what is needed to repeat them."""
    title = f"# {escape(comparison.dataset.name)}: ablation"
    return "\n\n".join([draw_facts(comparison), title, draw_tables(comparison, filled_by)]) + "\n"


def draw_tables(comparison: Comparison, filled_by: Mapping[str, str]) -> str:
    """Return both tables as Markdown, with the paper's own figures below each row where the data set is the paper's."""
    # the paper ran its ablations on one of its sets only
    is_published = comparison.published is not None and comparison.published.name == tables.ABLATION_SET
    note = "Means of the six metrics; larger is better. The best of each group is **bold**."
    if is_published:
        note += (
            f" Rows “{tables.Origin.PUBLISHED}” are copied from the paper ({tables.PAPER}, sections IV-B and IV-D): "
            f"the first {tables.ABLATION_N_PAIRS} pairs of {tables.ABLATION_SET}, without Q_Y; none of them is marked."
        )
    parts = [note]
    for title, rows in (("Terms of QFED", TERM_ROWS), ("Settings of QMCIF", SETTING_ROWS)):
        parts += [f"## {title}", _draw_rows(rows, filled_by, scores=comparison.scores, is_published=is_published)]
    return "\n\n".join(parts)


def _draw_rows(rows: Sequence[AblationRow], filled_by: Mapping[str, str], *, scores: Sequence[Score], is_published: bool) -> str:
    shown: list[tables.TableRow] = []
    # marks are given within a group: a patch size is compared with other patch sizes, not with another representation
    for _, group in groupby(rows, key=lambda row: row.group):
        members = list(group)
        own = [
            tables.TableRow(label=row.full_label, origin=tables.Origin.MEASURED, means=_average_of(filled_by[row.name], scores))
            for row in members
        ]
        for row, measured in zip(members, tables.mark_table(own).rows, strict=True):
            # a group has two to four rows, of which a second best would say little
            best = {symbol: mark for symbol, mark in measured.marks.items() if mark is tables.Mark.BEST}
            shown.append(replace(measured, marks=best))
            if is_published:
                shown.append(tables.TableRow(label=row.full_label, origin=tables.Origin.PUBLISHED, means=tables.ABLATIONS[row.label]))
    return draw_table(tables.ComparisonTable(symbols=tables.SYMBOLS, rows=tuple(shown)), heading="setting")


def _average_of(method: str, scores: Sequence[Score]) -> dict[str, float | None]:
    return tables.keep_symbols(tables.average(score.figures for score in scores if score.method == method))
