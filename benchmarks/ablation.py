"""Take the paper's two ablation tables anew on the mffw pairs beside this repository, and keep them pair by pair.

``python benchmarks/ablation.py -o FOLDER`` runs ``qmcif benchmark ../shared/data/mffw -o FOLDER --ablation --set detail_sparsity=2``, the
paper's beta for this set; a run that was ended there is resumed. ``--finished`` takes the report of such a run as it is. The figures
become ``benchmarks/results/ablation.json``, from which ``python tools/write_figures.py`` writes docs/experiments.md.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

from result_files import Cell, save_result

from qmcif_engine.cli import main as run_command
from qmcif_engine.comparison.ablation import SETTING_ROWS, TERM_ROWS, plan_ablation
from qmcif_engine.config.fusion_config import PRESETS

PAIRS = Path(__file__).parents[2] / "shared" / "data" / "mffw"
CHANGES = {"detail_sparsity": 2.0}
SYMBOLS = ("Q_MI", "Q_G", "Q_P", "Q_E", "Q_Y", "Q_CB")


def main(arguments: list[str] | None = None) -> None:
    """Run the ablation and keep its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="folder of the report")
    parser.add_argument("--jobs", default="1", metavar="N", help="worker processes")
    parser.add_argument("--finished", action="store_true", help="only collect the figures of the finished report in FOLDER")
    options = parser.parse_args(arguments)
    if not options.finished:
        run(options.output, jobs=options.jobs)
    with (Path(options.output) / "ablation.csv").open(encoding="utf-8", newline="") as lines:
        scores = {(row["method"], row["set"]): [round(float(row[symbol]), 6) for symbol in SYMBOLS] for row in csv.DictReader(lines)}
    _, filled_by = plan_ablation(PRESETS["paper"].replaced(dict(CHANGES)))
    pairs = sorted({pair for _, pair in scores})
    rows: list[list[Cell]] = [[row.name, pair, *scores[filled_by[row.name], pair]] for row in (*TERM_ROWS, *SETTING_ROWS) for pair in pairs]
    save_result("ablation", columns=("row", "pair", *SYMBOLS), rows=rows, formats=dict.fromkeys(SYMBOLS, ".4f"))


def run(folder: str, *, jobs: str) -> None:
    """Fuse and score every pair with every row's settings."""
    changes = [word for name, value in CHANGES.items() for word in ("--set", f"{name}={value:g}")]
    if run_command(["benchmark", str(PAIRS), "-o", folder, "--ablation", *changes, "--jobs", jobs]):
        sys.exit("the ablation did not finish: see the message above")


if __name__ == "__main__":
    main()
