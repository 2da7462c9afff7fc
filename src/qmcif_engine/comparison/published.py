"""The figures printed in the paper, for comparison with what is measured here.

Source: Weihua Yang and Yicong Zhou, *Quaternion Sparse Decomposition for Multi-focus Color Image Fusion*, arXiv 2505.02365v2 (2025), the
comparison table of section IV-C and the two ablation tables of sections IV-B and IV-D. The names of the methods are the paper's; its own
method is "QMCIF (paper)" here. The means of the comparison table are over the complete data sets.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from qmcif_engine.errors import InvalidConfigError

SYMBOLS = ("Q_MI", "Q_G", "Q_P", "Q_E", "Q_Y", "Q_CB")
NO_PUBLISHED_SET = "none"
PAPER = "Yang and Zhou, Quaternion Sparse Decomposition for Multi-focus Color Image Fusion, arXiv 2505.02365v2"
ABLATION_SET = "mffw"
ABLATION_N_PAIRS = 10
ABLATION_SYMBOLS = ("Q_MI", "Q_G", "Q_P", "Q_E", "Q_CB")
"""The ablation tables leave Q_Y out."""


@dataclass(frozen=True, slots=True)
class PublishedSet:
    """The printed means of one data set, and over how many pairs they were taken."""

    name: str
    n_pairs: int
    means: Mapping[str, Mapping[str, float]]


def _read_tables() -> dict[str, dict[str, dict[str, float]]]:
    """Return the printed figures by table, row and symbol."""
    tables: dict[str, dict[str, dict[str, float]]] = {}
    with (files(__package__) / "published.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            tables.setdefault(row["table"], {})[row["row"]] = {symbol: float(row[symbol]) for symbol in SYMBOLS if row[symbol]}
    return tables


_TABLES = _read_tables()

PUBLISHED_SETS = {name: PublishedSet(name, n_pairs, _TABLES[name]) for name, n_pairs in {"lytro": 20, "mffw": 13, "mfi_whu": 30}.items()}
"""By the name of the data set; the numbers of pairs are those of section IV-A."""

ABLATIONS = _TABLES["ablation"]
"""By the label of the row in our tables; five rows are the same full method."""


def choose_published(asked: str | None, folder_name: str) -> PublishedSet | None:
    """Return the published set asked for, or the one the folder is named after, or None.

    Raises
    ------
    InvalidConfigError
        When a set is asked for that the paper does not have.
    """
    if asked is None:
        return PUBLISHED_SETS.get(_normalize(folder_name))
    name = _normalize(asked)
    if name == NO_PUBLISHED_SET:
        return None
    if name not in PUBLISHED_SETS:
        msg = f"--published {asked!r} is not known; choose one of: {', '.join(PUBLISHED_SETS)}, {NO_PUBLISHED_SET}"
        raise InvalidConfigError(msg)
    return PUBLISHED_SETS[name]


def _normalize(name: str) -> str:
    return name.lower().replace("-", "_")
