"""Take the paper's main table anew with the preset ``paper``, on the pairs beside this repository, with the paper's beta of each set.

``python benchmarks/paper_rows.py -o FOLDER`` runs ``qmcif benchmark`` for lytro, mffw and MFI-WHU, each into its own folder in FOLDER; a
run that was ended there is resumed. ``--set KEY=VALUE`` changes one setting of all, to try a reading that the paper leaves open, and
``--save NAME`` then keeps the figures under another name than ``paper_rows``. From ``benchmarks/results/paper_rows.json`` ``python
tools/write_figures.py`` writes docs/quality.md, where the printed rows stand beside these.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

from result_files import Cell, save_result

from qmcif_engine.cli import main as run_command

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"
BETAS = {"lytro": 0.5, "mffw": 2.0, "mfi_whu": 0.5}
"""By set, as section IV-A of the paper has them."""

SYMBOLS = ("Q_MI", "Q_G", "Q_P", "Q_E", "Q_Y", "Q_CB")


def main(arguments: list[str] | None = None) -> None:
    """Run the three sets and keep their figures pair by pair."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="FOLDER", help="folder of the reports")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes", help="change one setting")
    parser.add_argument("--save", default="paper_rows", metavar="NAME", help="benchmarks/results/NAME.json (default: %(default)s)")
    parser.add_argument("--jobs", default="1", metavar="N", help="worker processes")
    options = parser.parse_args(arguments)
    rows: list[list[Cell]] = []
    for name, beta in BETAS.items():
        folder = options.output / name
        changes = [word for change in (f"detail_sparsity={beta:g}", *options.changes) for word in ("--set", change)]
        if run_command(["benchmark", str(SHARED_DATA / name), "-o", str(folder), "--preset", "paper", *changes, "--jobs", options.jobs]):
            sys.exit(f"{name} did not finish: see the message above")
        with (folder / "scores.csv").open(encoding="utf-8", newline="") as lines:
            rows += [[name, beta, score["set"], *(round(float(score[symbol]), 6) for symbol in SYMBOLS)] for score in csv.DictReader(lines)]
    save_result(options.save, columns=("set", "beta", "pair", *SYMBOLS), rows=rows, formats=dict.fromkeys(SYMBOLS, ".4f"))


if __name__ == "__main__":
    main()
