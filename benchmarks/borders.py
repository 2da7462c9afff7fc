"""Score MFI-WHU with and without its outer 8 px, where the sources of this set have a dark border, for our presets and other methods.

``python benchmarks/borders.py -o FOLDER --pictures DIR`` runs ``qmcif benchmark ../shared/data/mfi_whu -o FOLDER --border 8`` with the
three presets, beside every method whose pictures are in ``DIR/mfi_whu/METHOD`` (those that ``benchmarks/rivals.py --pictures DIR`` keeps,
or any other folder of fused images). A run that was ended is resumed; ``--finished`` takes those pairs of such a run that all methods have.
The means become ``benchmarks/results/borders.json``, from which ``python tools/write_figures.py`` writes docs/quality.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

from result_files import Cell, save_result

from qmcif_engine.cli import main as run_command
from qmcif_engine.comparison.methods import BASELINES

SET = "mfi_whu"
PAIRS = Path(__file__).parents[2] / "shared" / "data" / SET
BORDER_PX = 8
PRESETS = ("default", "fast", "paper")
SYMBOLS = ("Q_MI", "Q_G", "Q_P", "Q_E", "Q_Y", "Q_CB", "PSNR")


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and keep the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="FOLDER", help="folder of the report")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="where other methods' pictures are")
    parser.add_argument("--jobs", default="1", metavar="N", help="worker processes")
    parser.add_argument("--finished", action="store_true", help="only collect the figures of pairs that are finished in FOLDER")
    options = parser.parse_args(arguments)
    if not options.finished:
        run(options)
    record = json.loads((options.output / "benchmark.json").read_text(encoding="utf-8"))
    formats = {symbol: ".2f" if symbol == "PSNR" else ".4f" for symbol in SYMBOLS}
    columns = ("scored", "pairs", "method", *SYMBOLS)
    save_result("borders", columns=columns, rows=average_scores(record["scores"]), formats=formats)


def run(options: argparse.Namespace) -> None:
    """Fuse and score every pair."""
    others = [] if options.pictures is None else sorted(path for path in (options.pictures / SET).iterdir() if path.is_dir())
    words = [word for preset in PRESETS for word in ("--preset", preset)] + [
        word for folder in others for word in ("--fused-by", f"{name_method(folder.name)}={folder}")
    ]
    if run_command(["benchmark", str(PAIRS), "-o", str(options.output), *words, "--border", str(BORDER_PX), "--jobs", options.jobs]):
        sys.exit("the benchmark did not finish: see the message above")


def name_method(folder_name: str) -> str:
    """Return what tables call the method of a folder."""
    return BASELINES[folder_name].label if folder_name in BASELINES else folder_name


def average_scores(scores: list[dict[str, Any]]) -> list[list[Cell]]:
    """Return the means of every method over the pairs that all have: first of the whole images, then without the outer border."""
    methods = list(dict.fromkeys(score["method"] for score in scores))
    pairs_of = [{score["set_name"] for score in scores if score["method"] == method} for method in methods]
    common = set.intersection(*pairs_of)
    rows: list[list[Cell]] = []
    for scored, suffix in (("whole", ""), (f"outer {BORDER_PX} px left out", "_inner")):
        for method in methods:
            own = [score["figures"] for score in scores if score["method"] == method and score["set_name"] in common]
            means = [round(fmean(figures[f"{symbol}{suffix}"] for figures in own), 6) for symbol in SYMBOLS]
            label = f"preset {method}" if method in PRESETS else method
            rows.append([scored, len(own), "default" if method == "default" else label, *means])
    return rows


if __name__ == "__main__":
    main()
