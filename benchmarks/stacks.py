"""Report the quality of fused focus stacks: real ones beside enfuse, and generated ones whose depth is known.

Run as ``python benchmarks/stacks.py`` beside ``../shared``. Parts can be named (``scenes``, ``confidence``, and those of
``stack_quality.py``: ``objects``, ``seams``, ``detail``, ``halos`` …), and ``--only`` takes patterns of stacks and scenes: ``--only 'pcb_7'
'beads-12'``. With ``--save`` the table of scenes becomes ``benchmarks/results/scenes.json``, and what the other parts measure is added to
``stacks_quality.json``, from both of which ``python tools/write_figures.py`` writes docs/quality.md. ``--save floors`` adds to
``floors.json`` instead: what a change of the default is compared with. To take it of another engine, put that on PYTHONPATH.

enfuse (Debian package of that name) is run where it is installed.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import stack_pictures
from quality_rows import FLOORS, OURS, PRESENT, Row, keep_rows, load_rows, tabulate
from result_files import Cell, save_result
from scenes import (
    HOT,
    LEAST_BEAD_CONTRAST,
    N_IMAGES,
    NOISES,
    SCENES,
    SHAPE,
    Scene,
    find_kept_beads,
    find_nearest_to_truth,
    find_right,
    make_scene,
    measure_hot_share,
    measure_right_share,
)
from stack_quality import PARTS as QUALITY_PARTS
from stack_quality import Bench, describe_sure, list_jobs, measure

from qmcif_engine import fuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from qmcif_engine import FusionResult

PARTS = ("scenes", "confidence", *QUALITY_PARTS)
N_SEEDS = 5
SHARED = Path(__file__).parents[2] / "shared"
LEAST_RIGHT = {"none": 0.99, "gaussian 10": 0.97, "photons 30": 0.93, "photons 10": 0.80}
LARGEST_HOT_RATIO = 1.2
SCENE_COLUMNS = (
    "scene",
    "images",
    *(f"{noise} (≥ {100 * bar:.0f})" for noise, bar in LEAST_RIGHT.items()),
    "beads ≥ 5 px kept, by noise",
    "hot pixels, fused / one image",
    "nearest to truth",
)
CONFIDENCES, CONFIDENCE_TOLERANCE, LEAST_BIN_PX = (0.9, 0.7, 0.5), 0.05, 1000


@dataclass(frozen=True, slots=True)
class Options:
    """What every job needs to know."""

    shared: Path
    cache: Path
    pictures: Path | None
    saved: str | None
    n_seeds: int


class SceneFigures(NamedTuple):
    """What was measured of one scene.

    By noise the right share, and the beads kept and all; hot pixels in the fused image for each in one image; the right share of the images
    nearest to the truth; pixels and right ones by bin of confidence.
    """

    name: str
    n_images: int
    right: dict[str, float]
    beads: dict[str, tuple[int, int]]
    hot_ratio: float
    right_nearest: float
    bins: np.ndarray


def main(arguments: list[str] | None = None) -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all where none is named")
    parser.add_argument("--only", "--stack", nargs="+", default=["*"], metavar="PATTERN", help="stacks by name, scenes as in 'dome-12'")
    parser.add_argument(
        "--seeds", type=int, default=N_SEEDS, metavar="N", help="of the scenes with halos and heights (default: %(default)s)"
    )
    parser.add_argument("--shared", type=Path, default=SHARED, help="folder with data and tools")
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "qmcif-stacks", help="frames, scenes, enfuse's pictures"
    )
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="write pictures to look at")
    parser.add_argument(
        "--save", nargs="?", const=PRESENT, metavar="NAME", help=f"keep the tables for the documentation; {FLOORS}: as floors"
    )
    parser.add_argument("--jobs", type=int, default=2, choices=(1, 2))
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.parts) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))} is no part of the report; choose from {', '.join(PARTS)}")
    options = Options(chosen.shared, chosen.cache, chosen.pictures, chosen.save, chosen.seeds)
    with ProcessPoolExecutor(chosen.jobs, mp_context=get_context("spawn")) as workers:

        def run(job: Callable[..., Any], *items: Iterable[Any]) -> Iterator[Any]:
            return workers.map(job, *items) if chosen.jobs > 1 else map(job, *items)

        write_report(chosen.parts or list(PARTS), chosen.only, options, run)


def write_report(parts: list[str], patterns: list[str], options: Options, run: Callable[..., Iterator[Any]]) -> None:
    """Run what the parts need and print their tables."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("napari-qmcif", "numpy", "scipy", "numba"))
    print(f"Python {platform.python_version()}, {versions}; {platform.machine()}, {os.cpu_count()} cores.\n", flush=True)
    scenes: list[SceneFigures] = []
    if {"scenes", "confidence"} & set(parts):
        cases = [(name, number) for number in sorted(N_IMAGES, reverse=True) for name in SCENES if is_chosen(f"{name}-{number}", patterns)]
        scenes = list(run(measure_scene, cases, [options.pictures] * len(cases)))
        scenes.sort(key=lambda figures: (SCENES.index(figures.name), figures.n_images))
    if "scenes" in parts:
        print_scenes(scenes)
        if options.saved == PRESENT:
            save_result("scenes", columns=SCENE_COLUMNS, rows=list_scene_rows(scenes))
    if "confidence" in parts:
        print_confidence(scenes)
    if options.saved and scenes:
        keep_rows(options.saved, list_scene_figures(scenes))
    write_quality(parts, patterns, options, run)


def is_chosen(name: str, patterns: list[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


# --- scenes ----------------------------------------------------------------------------------------------------------------------


def measure_scene(case: tuple[str, int], folder: Path | None) -> SceneFigures:
    """Fuse one generated scene with every noise, and with hot pixels."""
    name, n_images = case
    right, beads, bins = {}, {}, np.zeros((len(CONFIDENCES), 2), np.int64)
    for noise in NOISES:
        scene = make_scene(name, n_images, noise=noise, shape=SHAPE)
        result = fuse(list(scene.images), workers=1)
        right[noise] = measure_right_share(scene, result.source_index)
        kept = find_kept_beads(scene, result.fused)
        beads[noise] = (sum(kept), len(kept))
        bins += count_bins(scene, result)
        if folder is not None:
            stack_pictures.write_scene(folder, scene, result)
    right_nearest = measure_right_share(clean := make_scene(name, n_images, shape=SHAPE), find_nearest_to_truth(clean))
    hot = make_scene(name, n_images, noise=HOT, shape=SHAPE)
    hot_ratio = measure_hot_share(fuse(list(hot.images), workers=1).fused) / max(measure_hot_share(hot.images), 1e-9)
    print(f"{name}-{n_images}: {right}", file=sys.stderr, flush=True)
    return SceneFigures(name, n_images, right, beads, hot_ratio, right_nearest, bins)


def count_bins(scene: Scene, result: FusionResult) -> np.ndarray:
    """Return for each confidence how many textured pixels have about that, and how many of them are right."""
    is_right = find_right(scene, result.source_index)
    rows = []
    for confidence in CONFIDENCES:
        is_near = scene.textured & (np.abs(result.confidence - confidence) <= CONFIDENCE_TOLERANCE)
        rows.append((is_near.sum(), (is_near & is_right).sum()))
    return np.array(rows, np.int64)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print a table in Markdown."""
    for cells in (columns, ["---"] * len(columns), *rows):
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


def print_scenes(scenes: list[SceneFigures]) -> None:
    """Print the right shares, the beads and the hot pixels of every scene."""
    print("\n## Generated scenes\n\nTextured pixels whose image is within one of the true depth, in %; bold: beyond the bar.")
    print(f"A bead is kept when the fused image shows at least {LEAST_BEAD_CONTRAST} of its contrast against what lies behind it.")
    print("Last column: the share that is right, without noise, when the image nearest to the truth is taken at every pixel.\n")
    print_table(SCENE_COLUMNS, list_scene_rows(scenes))
    held = [scene.right[noise] >= LEAST_RIGHT[noise] for scene in scenes for noise in NOISES]
    print(f"\nThe bar holds in {sum(held)} of {len(held)} cases.", flush=True)


def list_scene_rows(scenes: list[SceneFigures]) -> list[list[Cell]]:
    """Return the cells of every scene; bold is what misses its bar."""
    rows: list[list[Cell]] = []
    for scene in scenes:
        shares = [show_bar(100 * scene.right[noise], scene.right[noise] >= LEAST_RIGHT[noise]) for noise in NOISES]
        counts = [scene.beads[noise] for noise in NOISES]
        beads = ", ".join(f"{kept}/{every}" for kept, every in counts) if counts[0][1] else ""
        hot = show_bar(scene.hot_ratio, scene.hot_ratio <= LARGEST_HOT_RATIO)
        rows.append([scene.name, scene.n_images, *shares, beads, hot, f"{100 * scene.right_nearest:.2f}"])
    return rows


def show_bar(value: float, is_held: bool) -> str:
    return f"{value:.2f}" if is_held else f"**{value:.2f}**"


# --- confidence and noise --------------------------------------------------------------------------------------------------------


def print_confidence(scenes: list[SceneFigures]) -> None:
    """Print how often decisions of a given confidence are right."""
    print("\n## Confidence\n\n| confidence | pixels | right | bar |\n|---|--:|--:|---|")
    bins = sum((scene.bins for scene in scenes), np.zeros((len(CONFIDENCES), 2), np.int64))
    for confidence, (n_pixels, n_right) in zip(CONFIDENCES, bins, strict=True):
        low, high = confidence - CONFIDENCE_TOLERANCE, confidence + CONFIDENCE_TOLERANCE
        if n_pixels < LEAST_BIN_PX:
            print(f"| {confidence} ± {CONFIDENCE_TOLERANCE} | {n_pixels} | | fewer than {LEAST_BIN_PX} px |")
            continue
        share = n_right / n_pixels
        verdict = "holds" if low <= share <= high else "**fails**"
        print(f"| {confidence} ± {CONFIDENCE_TOLERANCE} | {n_pixels} | {share:.1%} | {low:.0%} to {high:.0%}: {verdict} |")


def list_scene_figures(scenes: list[SceneFigures]) -> list[Row]:
    """Return the figures of the generated scenes, and how often decisions of a confidence of about .9 are right there."""
    rows = []
    for scene in scenes:
        kept, every = np.sum(list(scene.beads.values()), axis=0)
        right = {noise: round(100 * share, 3) for noise, share in scene.right.items()}
        figures = {**right, "hot": round(scene.hot_ratio, 4)} | ({"beads": round(float(kept / every), 4)} if every else {})
        rows.append(Row("scenes", f"{scene.name}-{scene.n_images}", OURS, figures))
    counted = sum(scene.bins[0] for scene in scenes)
    return [*rows, Row("confidence", "generated scenes", OURS, describe_sure(*counted))]


# --- what needs the shared measures ----------------------------------------------------------------------------------------------


def write_quality(parts: list[str], patterns: list[str], options: Options, run: Callable[..., Iterator[Any]]) -> None:
    """Measure objects, seams, detail and so on, keeping each as soon as it is there, and print them beside the floors."""
    wanted = [part for part in QUALITY_PARTS if part in parts]
    if wanted and not (options.shared / "tools").exists():
        print(f"{', '.join(wanted)}: skipped, for {options.shared / 'tools'} is not there; name the folder by --shared.", file=sys.stderr)
        return
    floors = [] if options.saved == FLOORS else load_rows(FLOORS)
    jobs = list(list_jobs(wanted, patterns, options.n_seeds, options.shared))
    bench = Bench(options.shared, options.cache, {row[:3]: row.figures for row in floors})
    measured: list[Row] = []
    for rows in run(measure, jobs, [bench] * len(jobs)):
        measured += rows
        for row in rows:
            print(*row, file=sys.stderr, flush=True)
        if options.saved and rows:
            keep_rows(options.saved, rows)
    named = {(row.part, row.name) for row in measured}
    for part in dict.fromkeys(row.part for row in measured):
        print(f"\n## {part.capitalize()}\n")
        print_table(*tabulate(part, measured, [row for row in floors if row[:2] in named]))


if __name__ == "__main__":
    main()
