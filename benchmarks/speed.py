"""Compare the speed and memory of whole runs with other programs, all in one go: pairs, threads and deep stacks.

Run as ``python benchmarks/speed.py``; part of ``make bench``. TIFF to TIFF on the command line, no maps. The pairs have 24 megapixels: one
with many depth edges, one smooth. Every group is run in turn, ``--turns`` times; figures are medians, with the least and the most.
CPU seconds are user and system time of the process and its children, memory is the proportional set size of the tree.

Yardsticks are run where they are installed: enfuse (Debian package of that name), as it blends pictures that carry a color profile, as
cameras write them (CIECAM), and as it blends bare ones; and, by ``--openfocus COMMAND``, OpenFocus from an environment of its own.

Each group is kept in ``benchmarks/results``, from which ``python tools/write_figures.py`` writes docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import psutil
import tifffile
from result_files import save_result

from qmcif_engine import make_focus_stack, make_lazy_focus_stack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SHAPE = (4000, 6000)
SCENE_SHAPE, SCENE_REPEATS = (1000, 1500), (4, 4)
DEEP_SHAPE, DEEP_STACKS = (2000, 2000), (2, 5, 20, 100)
N_TURNS = 3
POLL_SECONDS = 0.1
ENFUSE = ("enfuse", "--hard-mask", "--exposure-weight=0", "--saturation-weight=0", "--contrast-weight=1")
OPENFOCUS_METHODS = ("dct", "openfocus_b")
COLUMNS = ("run", "CPU s", "least", "most", "against the first yardstick", "wall s", "peak memory, MB")
FORMATS = {"CPU s": ".1f", "least": ".1f", "most": ".1f", "against the first yardstick": ".2f", "wall s": ".1f"}


class Usage(NamedTuple):
    """What a process and its children took."""

    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int
    shown: str


Run = tuple[str, "Callable[[], Usage]"]
"""A title, and what runs it once."""


def main() -> None:
    """Take the groups that were asked for, all where none was."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], help=f"those wanted: {', '.join(GROUPS)}; all if none")
    parser.add_argument("--turns", type=int, default=N_TURNS, help="how often each run is repeated")
    parser.add_argument("--openfocus", metavar="COMMAND", help="how OpenFocus is started, where it is to be run beside")
    options = parser.parse_args()
    for group in options.groups or GROUPS:
        with tempfile.TemporaryDirectory() as folder:
            GROUPS[group](Path(folder), options)


def compare_edges(folder: Path, options: argparse.Namespace) -> None:
    """Compare on a pair with many depth edges."""
    images = [folder / f"image_{number}.tif" for number in range(2)]
    for path, image in zip(images, make_focus_stack(n_images=2, shape=SCENE_SHAPE, seed=3).images, strict=True):
        tifffile.imwrite(path, np.tile(image, (*SCENE_REPEATS, 1)), photometric="rgb")
    compare_pair("speed_edges", images, folder, options)


def compare_smooth(folder: Path, options: argparse.Namespace) -> None:
    """Compare on a smooth pair."""
    compare_pair("speed_smooth", write_stack(folder, SHAPE, 2), folder, options)


def compare_pair(name: str, images: list[Path], folder: Path, options: argparse.Namespace) -> None:
    """Run both presets, one and two threads, and the yardsticks on a pair."""
    warm_up(images, folder)
    ours: list[Run] = [
        ("default", lambda: watch_ours(images, folder)),
        ("fast", lambda: watch_ours(images, folder, preset="fast")),
        ("default, 1 thread", lambda: watch_ours(images, folder, workers=1)),
    ]
    report(name, [*list_yardsticks(images, folder, options.openfocus), *ours], turns=options.turns)


def compare_deep(folder: Path, options: argparse.Namespace) -> None:
    """Show what deep stacks cost for each megapixel and image."""
    rows: list[list[str | int | float]] = []
    megapixels = DEEP_SHAPE[0] * DEEP_SHAPE[1] / 1e6
    for n_images in DEEP_STACKS:
        images = write_stack(folder, DEEP_SHAPE, n_images)
        warm_up(images, folder)
        usages = [watch_ours(images, folder) for _ in range(options.turns)]
        cpu = sorted(usage.cpu_seconds for usage in usages)
        peak = max(usage.peak_bytes for usage in usages)
        rows.append([n_images, median(cpu), cpu[0], cpu[-1], median(cpu) / megapixels / n_images, round(peak / 1e6)])
        print(rows[-1], flush=True)
    columns = ("images of 4 megapixels", "CPU s", "least", "most", "CPU s per megapixel and image", "peak memory, MB")
    formats = {"CPU s": ".1f", "least": ".1f", "most": ".1f", "CPU s per megapixel and image": ".3f"}
    save_result("speed_deep", columns=columns, rows=rows, formats=formats)


GROUPS = {"edges": compare_edges, "smooth": compare_smooth, "deep": compare_deep}


def report(name: str, runs: Sequence[Run], *, turns: int) -> None:
    """Run everything in turn, then print and keep medians and spread."""
    usages: dict[str, list[Usage]] = {title: [] for title, _ in runs}
    for _ in range(turns):
        for title, run in runs:
            usages[title].append(run())
    yardstick = median(usage.cpu_seconds for usage in next(iter(usages.values())))
    rows: list[list[str | int | float]] = []
    for title, taken in usages.items():
        cpu = sorted(usage.cpu_seconds for usage in taken)
        wall, peak = median(usage.wall_seconds for usage in taken), max(usage.peak_bytes for usage in taken)
        rows.append([title, median(cpu), cpu[0], cpu[-1], median(cpu) / yardstick, wall, round(peak / 1e6)])
        print(rows[-1], flush=True)
    save_result(name, columns=COLUMNS, rows=rows, formats=FORMATS, note=describe_threads(usages))


def describe_threads(usages: dict[str, list[Usage]]) -> str:
    """Describe how much faster two threads are than one: fusing alone, and with the start of the process."""
    if "default, 1 thread" not in usages:
        return ""
    one, two = usages["default, 1 thread"], usages["default"]
    fusing = [median(json.loads(usage.shown)["wall_seconds"] for usage in taken) for taken in (one, two)]
    whole = median(usage.wall_seconds for usage in one) / median(usage.wall_seconds for usage in two)
    return (
        f"Two threads are {fusing[0] / fusing[1]:.2f} times as fast as one; with the start of the process {whole:.2f} times. "
        f"Two processes that only add numbers, and share nothing, do {measure_machine():.2f} times the work of one on this machine."
    )


def measure_machine() -> float:
    """Return how many times the work of one process two get done at once: less than two where cores share what they compute with."""
    adding = [sys.executable, "-c", "total = 0.0\nfor number in range(2 * 10**7): total += number * 0.5"]

    def take(n_processes: int) -> float:
        started = time.perf_counter()
        for process in [subprocess.Popen(adding) for _ in range(n_processes)]:
            process.wait()
        return time.perf_counter() - started

    return 2 * median(take(1) for _ in range(5)) / median(take(2) for _ in range(5))


def write_stack(folder: Path, shape: tuple[int, int], n_images: int) -> list[Path]:
    """Write generated pictures as plain TIFF files."""
    paths = [folder / f"image_{number:03d}.tif" for number in range(n_images)]
    for path, image in zip(paths, make_lazy_focus_stack(shape=shape, n_images=n_images), strict=True):
        tifffile.imwrite(path, image.compute(scheduler="synchronous"), photometric="rgb")
    return paths


def warm_up(images: list[Path], folder: Path) -> None:
    """Fuse some of the images once, so that compiled kernels are there and files are in the system's cache."""
    for preset in ("default", "fast"):
        watch_ours(images[:5], folder, preset=preset)


def fuse_command(images: list[Path], target: Path, *options: str) -> list[str]:
    """Return our command line."""
    return [sys.executable, "-m", "qmcif_engine", "fuse", *map(str, images), "-o", str(target), "--align", "none", "--json", *options]


def watch_ours(images: list[Path], folder: Path, *, workers: int = 2, preset: str = "default") -> Usage:
    """Run our command."""
    return watch(fuse_command(images, folder / "ours.tif", "--overwrite", "--preset", preset, "--workers", str(workers)))


def list_yardsticks(images: list[Path], folder: Path, openfocus: str | None) -> list[Run]:
    """Return the other programs that are there, the one to compare with first."""
    runs: list[Run] = []
    if shutil.which("enfuse") is not None:
        target = str(folder / "theirs.tif")
        for title, space in (("enfuse, bare", "IDENTITY"), ("enfuse, color profile", "CIECAM")):
            command = [*ENFUSE, f"--blend-colorspace={space}", "-o", target, *map(str, images)]
            runs.append((title, lambda command=command: watch(command)))
    if openfocus is not None:
        inputs, outputs = folder / "inputs", folder / "outputs"
        inputs.mkdir()
        outputs.mkdir()
        for path in images:
            (inputs / path.name).hardlink_to(path)
        for method in OPENFOCUS_METHODS:
            options = ["-i", str(inputs), "-o", str(outputs / f"{method}.tif"), "-m", method, "--no-exposure-match", "--cpu"]
            runs.append((f"OpenFocus, {method}", lambda options=options: watch([*shlex.split(openfocus), *options])))
    return runs


def watch(command: list[str]) -> Usage:
    """Run a command and look at the memory of its tree until it ends, not so often that looking takes its time."""
    before, started, peak = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter(), 0
    with tempfile.TemporaryFile("w+") as output:
        process = psutil.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            with suppress(psutil.NoSuchProcess):
                peak = max(peak, sum(member.memory_full_info().pss for member in [process, *process.children(recursive=True)]))
            time.sleep(POLL_SECONDS)
        output.seek(0)
        shown = output.read()
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Usage(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, wall, peak, shown)


if __name__ == "__main__":
    main()
