"""Show what each part of the default setting is worth: one row per variant, one column per metric, for the four shared data sets.

Run as ``python benchmarks/quality.py`` beside ``../shared``. Every row changes one thing of the ``default`` preset; figures are means
over the pairs of a set, computed on 8-bit results. The six metrics need no truth; PSNR, whole image and without an 8-px border, does.
``--save NAME`` keeps the figures as ``benchmarks/results/NAME.json``, from which ``python tools/write_figures.py`` writes the documents:

    python benchmarks/quality.py default "preset fast" "preset paper" --save quality_presets
    python benchmarks/quality.py --save quality_variants
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock

import numpy as np
from result_files import save_result

from qmcif_engine import PRESETS, evaluate, fuse, read_image
from qmcif_engine.comparison.datasets import find_dataset

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"
DATA_SETS = ("lytro", "mffw", "mfi_whu", "nyu_d")
VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    "default": ("default", {}),
    "preset fast": ("fast", {}),
    "preset paper": ("paper", {}),
    "preset paper, beta 2": ("paper", {"detail_sparsity": 2.0}),
    "evidence by the Laplacian": ("default", {"measure": "laplacian"}),
    "gray instead of quaternion": ("default", {"representation": "gray"}),
    "no halo term": ("default", {"decision.reblur.HALO_WEIGHT": 0.0}),
    "seams cost no more": ("default", {"decision.propagation.SEAM": 0.0}),
    "no smoothness": ("default", {"smoothness": 0.0}),
    "no adaptation to noise": ("default", {"noise": "off"}),
    "dark borders kept": ("default", {"dark_border_px": 0}),
    "no feather": ("default", {"feather_px": 0.0}),
    "hard cuts": ("default", {"blend_px": 0.0, "feather_px": 0.0}),
}
"""A preset, and what is changed: settings by their name, constants by module and name."""
Samples: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
SYMBOLS = ("Q_MI", "Q_G", "Q_P", "Q_E", "Q_Y", "Q_CB", "PSNR", "PSNR_inner")


def main(arguments: list[str] | None = None) -> None:
    """Print one table per data set, and keep all of them where a name is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="*", help="those wanted; all where none is named")
    parser.add_argument("--save", metavar="NAME", help="keep the figures as benchmarks/results/NAME.json")
    options = parser.parse_args(arguments)
    wanted = options.variants or list(VARIANTS)
    kept: list[list[str | int | float | None]] = []
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as workers:
        for name in DATA_SETS:
            images = find_dataset(SHARED_DATA / name).sets
            jobs = [(variant, pair.sources, pair.truth) for variant in wanted for pair in images]
            rows = np.array(list(workers.map(score, jobs))).reshape(len(wanted), len(images), -1).mean(axis=1)
            print_table(f"{name}, {len(images)} pairs", wanted, rows)
            kept += keep_rows(name, len(images), wanted, rows)
    if options.save:
        formats = {symbol: ".2f" if symbol.startswith("PSNR") else ".4f" for symbol in SYMBOLS}
        save_result(options.save, columns=("set", "pairs", "variant", *SYMBOLS), rows=kept, formats=formats)


def keep_rows(
    name: str, n_pairs: int, variants: list[str], rows: np.ndarray[tuple[int, int], np.dtype[np.float64]]
) -> list[list[str | int | float | None]]:
    """Return the rows of a table as they are kept in a result file."""
    figures = [[None if np.isnan(value) else round(float(value), 6) for value in row] for row in rows]
    return [[name, n_pairs, variant, *row] for variant, row in zip(variants, figures, strict=True)]


def score(job: tuple[str, tuple[Path, ...], Path | None]) -> list[float]:
    """Fuse one pair in one way and return its figures; NaN where there is no truth."""
    variant, paths, truth_path = job
    preset, changes = VARIANTS[variant]
    settings = {name: value for name, value in changes.items() if "." not in name}
    sources = [read_image(path).samples for path in paths]
    truth = None if truth_path is None else read_image(truth_path).samples
    with ExitStack() as changed:
        for name in changes.keys() - settings.keys():
            changed.enter_context(mock.patch(f"qmcif_engine.{name}", changes[name]))
        fused = fuse(sources, PRESETS[preset].replaced(settings)).fused
    figures = evaluate(sources, fused, truth=truth).list_by_symbol()
    return [float("nan") if figures[symbol] is None else figures[symbol] for symbol in SYMBOLS]


def print_table(title: str, variants: list[str], rows: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> None:
    """Print a Markdown table, without the columns that have no figures."""
    is_known = ~np.isnan(rows).all(axis=0)
    names = [symbol for symbol, known in zip(SYMBOLS, is_known, strict=True) if known]
    print(f"\n### {title}\n\n| variant | {' | '.join(names)} |\n|{'---|' * (len(names) + 1)}")
    for variant, row in zip(variants, rows[:, is_known], strict=True):
        figures = [f"{value:.2f}" if name.startswith("PSNR") else f"{value:.4f}" for name, value in zip(names, row, strict=True)]
        print(f"| {variant} | {' | '.join(figures)} |", flush=True)


if __name__ == "__main__":
    main()
