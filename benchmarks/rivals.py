"""Score the published methods that are written anew in `qmcif_engine.comparison.baselines` on the pairs beside this repository.

``python benchmarks/rivals.py sr csr --sets lytro mffw`` fuses every pair of these sets by each method and keeps the figures, pair by
pair, as ``benchmarks/results/rival_NAME_SET.json``, from which ``python tools/write_figures.py`` writes the tables of docs/experiments.md.
``--pictures DIR`` keeps the pictures too, as ``DIR/SET/METHOD/PAIR.png``. ``--references`` keeps, as ``rival_references.json``, what
pictures made by other programs of these methods score on the same pairs (``../shared/metrics``), and as ``other_methods_lytro.json`` the
means of all methods whose pictures of lytro are scored there.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import numpy as np
from result_files import Cell, save_result

from qmcif_engine import evaluate, read_image, write_image
from qmcif_engine.comparison.baselines import Baseline, fuse_with
from qmcif_engine.comparison.datasets import ImageSet, find_dataset
from qmcif_engine.comparison.methods import BASELINES, find_baseline

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"
REFERENCES = (
    ("sr", "lytro", "lytro_pairs_of_18_methods.csv", "sr"),
    ("guided-filter", "lytro", "lytro_pairs_of_18_methods.csv", "gff"),
    ("csr", "mffw", "mffw_jpeg_pairs_of_10_methods.csv", "CSR"),
)
"""Method, set, the file with figures of other programs' pictures, and what it calls the method."""
SYMBOLS = ("Q_MI", "Q_G", "Q_P", "Q_E", "Q_Y", "Q_CB")


def main(arguments: list[str] | None = None) -> None:
    """Measure the methods one after the other, and keep their figures after every set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", default=list(BASELINES), metavar="NAME", help="all where none is named")
    parser.add_argument("--sets", nargs="+", default=["lytro", "mffw"], metavar="NAME", help="folders of ../shared/data")
    parser.add_argument("--pairs", nargs="+", metavar="PAIR", help="only these pairs of each set; all where none is named")
    parser.add_argument("--references", action="store_true", help="keep the figures of other programs' pictures, and measure nothing")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="keep the pictures there")
    options = parser.parse_args(arguments)
    if options.references:
        save_references()
        save_other_methods()
        return
    for name in [find_baseline(each).name for each in options.methods]:
        for set_name in options.sets:
            rows: list[list[Cell]] = []
            for pair in find_dataset(SHARED_DATA / set_name).sets:
                if options.pairs and pair.name not in options.pairs:
                    continue
                target = None if options.pictures is None else options.pictures / set_name / name / f"{pair.name}.png"
                rows.append([set_name, pair.name, *score(BASELINES[name], pair, target)])
                print(name, *(f"{cell:.4f}" if isinstance(cell, float) else cell for cell in rows[-1]), flush=True)
            save_figures(name, set_name, rows)


def save_figures(name: str, set_name: str, rows: list[list[Cell]]) -> None:
    """Keep the figures of one method on one set."""
    formats = {**dict.fromkeys(SYMBOLS, ".4f"), "CPU s": ".1f"}
    save_result(f"rival_{name.replace('-', '_')}_{set_name}", columns=("set", "pair", *SYMBOLS, "CPU s"), rows=rows, formats=formats)


def save_references() -> None:
    """Keep the figures of other programs' pictures, pair by pair."""
    rows: list[list[Cell]] = []
    for method, set_name, file_name, label in REFERENCES:
        with (SHARED_DATA.parent / "metrics" / file_name).open(encoding="utf-8", newline="") as lines:
            found = [row for row in csv.DictReader(lines) if row["method"] == label]
        rows += [[method, set_name, row["pair"], *(round(float(row[symbol.replace("_", "")]), 6) for symbol in SYMBOLS)] for row in found]
    save_result("rival_references", columns=("method", "set", "pair", *SYMBOLS), rows=rows, formats=dict.fromkeys(SYMBOLS, ".4f"))


def save_other_methods() -> None:
    """Keep the means of every method that was scored on the pairs of lytro."""
    figures: dict[str, list[list[float]]] = {}
    with (SHARED_DATA.parent / "metrics" / "lytro_pairs_of_18_methods.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            figures.setdefault(row["method"], []).append([float(row[symbol.replace("_", "")]) for symbol in SYMBOLS])
    means = {name: np.mean(pairs, axis=0).round(6).tolist() for name, pairs in figures.items()}
    rows: list[list[Cell]] = [[name, len(figures[name]), *mean] for name, mean in means.items()]
    save_result("other_methods_lytro", columns=("method", "pairs", *SYMBOLS), rows=rows, formats=dict.fromkeys(SYMBOLS, ".4f"))


def score(rival: Baseline, pair: ImageSet, target: Path | None) -> list[float]:
    """Fuse one pair and return its figures and the processor time of the fusion."""
    sources = [np.asarray(read_image(path).samples) for path in pair.sources]
    begin = time.process_time()
    fused = fuse_with(rival, sources)
    seconds = time.process_time() - begin
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_image(target, fused, overwrite=True)
    figures = evaluate(sources, fused).list_by_symbol()
    return [*(round(float(figures[symbol]), 6) for symbol in SYMBOLS), round(seconds, 1)]


if __name__ == "__main__":
    main()
