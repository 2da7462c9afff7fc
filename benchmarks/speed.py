"""Compare the speed and memory of whole runs with enfuse, on generated pictures of 24 megapixels, all in one go.

Run as ``python benchmarks/speed.py``; part of ``make bench``. ``--edges`` takes a pair with many depth edges instead of smooth pictures,
and repeats default, fast and enfuse in turn, five times each. ``--deep`` fuses 20 and 100 images of 4 megapixels. TIFF to TIFF on the
command line, no maps. CPU seconds are user and system time of the process and its children, memory is the proportional set size of the
tree. enfuse (Debian package of that name) is run beside where it is installed, in two ways: as it blends pictures that carry a color
profile, as cameras write them (CIECAM), and as it blends bare ones.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import psutil
import tifffile

from qmcif_engine import __version__, make_focus_stack, make_lazy_focus_stack

SHAPE = (4000, 6000)
SCENE_SHAPE, SCENE_REPEATS = (1000, 1500), (4, 4)
N_TURNS = 5
DEEP_SHAPE, DEEP_STACKS = (2000, 2000), (20, 100)
N_IMAGES = 5
POLL_SECONDS = 0.2
ENFUSE = ("enfuse", "--hard-mask", "--exposure-weight=0", "--saturation-weight=0", "--contrast-weight=1")


class Usage(NamedTuple):
    """Hold what a process and its children took."""

    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int
    shown: str


def main() -> None:
    """Print the table that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", action="store_true")
    parser.add_argument("--deep", action="store_true")
    options = parser.parse_args()
    (compare_edges if options.edges else compare_deep if options.deep else compare_smooth)()


def compare_edges() -> None:
    """Print the medians of runs in turn on a pair with many depth edges, and their spread."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images = [folder / f"image_{number}.tif" for number in range(2)]
        for path, image in zip(images, make_focus_stack(n_images=2, shape=SCENE_SHAPE, seed=3).images, strict=True):
            tifffile.imwrite(path, np.tile(image, (*SCENE_REPEATS, 1)), photometric="rgb")
        warm_up(images, folder)
        runs: dict[str, list[Usage]] = {"default": [], "fast": [], "enfuse, bare": []}
        for _ in range(N_TURNS):
            for preset in ("default", "fast"):
                runs[preset].append(watch_ours(images, folder, workers=2, preset=preset))
            theirs = watch_enfuse(images, folder, "--blend-colorspace=IDENTITY")
            runs["enfuse, bare"] += [] if theirs is None else [theirs]
    print("| run | CPU s, median (least to most) | against enfuse, bare | wall s | peak memory, MB |\n|---|---|---|---|---|")
    yardstick = median(usage.cpu_seconds for usage in runs["enfuse, bare"]) if runs["enfuse, bare"] else float("nan")
    for title, usages in runs.items():
        if usages:
            cpu = sorted(usage.cpu_seconds for usage in usages)
            wall, peak = median(usage.wall_seconds for usage in usages), max(usage.peak_bytes for usage in usages)
            spread = f"{median(cpu):.1f} ({cpu[0]:.1f} to {cpu[-1]:.1f})"
            print(f"| {title} | {spread} | {median(cpu) / yardstick:.2f} | {wall:.1f} | {peak / 1e6:.0f} |")


def compare_deep() -> None:
    """Print what deep stacks cost for each megapixel and image."""
    print("| images of 4 megapixels | CPU s | CPU s a megapixel and image | peak memory, MB |\n|---|---|---|---|")
    for n_images in DEEP_STACKS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            images = [folder / f"image_{number:03d}.tif" for number in range(n_images)]
            for path, image in zip(images, make_lazy_focus_stack(shape=DEEP_SHAPE, n_images=n_images), strict=True):
                tifffile.imwrite(path, image.compute(scheduler="synchronous"), photometric="rgb")
            used = watch_ours(images, folder, workers=2)
        megapixels = DEEP_SHAPE[0] * DEEP_SHAPE[1] / 1e6
        print(
            f"| {n_images} | {used.cpu_seconds:.1f} | {used.cpu_seconds / megapixels / n_images:.3f} | {used.peak_bytes / 1e6:.0f} |",
            flush=True,
        )


def compare_smooth() -> None:
    """Print presets, threads and five images beside enfuse, on smooth pictures."""
    print(f"napari-qmcif {__version__}, Python {platform.python_version()}, numpy {np.__version__}, {psutil.cpu_count()} cores\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images = write_images(folder)
        warm_up(images, folder)
        yardstick = watch_enfuse(images[:2], folder, "--blend-colorspace=CIECAM")
        rows = {
            "default, 2 threads": better_of_two(images[:2], folder, workers=2),
            "default, 1 thread": better_of_two(images[:2], folder, workers=1),
            "fast, 2 threads": watch_ours(images[:2], folder, workers=2, preset="fast"),
            "default, five images": watch_ours(images, folder, workers=2),
            "enfuse, color profile": yardstick,
            "enfuse, bare": watch_enfuse(images[:2], folder, "--blend-colorspace=IDENTITY"),
        }
    print("| run | CPU s | against enfuse | wall s | peak memory, MB |\n|---|---|---|---|---|")
    for title, usage in rows.items():
        if usage is not None:
            ratio = "–" if yardstick is None else f"{usage.cpu_seconds / yardstick.cpu_seconds:.2f}"
            print(f"| {title} | {usage.cpu_seconds:.1f} | {ratio} | {usage.wall_seconds:.1f} | {usage.peak_bytes / 1e6:.0f} |")
    two, one, five = (rows[title] for title in ("default, 2 threads", "default, 1 thread", "default, five images"))
    fusing = [json.loads(usage.shown)["wall_seconds"] for usage in (one, two)]
    whole = one.wall_seconds / two.wall_seconds
    print(f"\nthroughput of two threads against one: {fusing[0] / fusing[1]:.2f}; with the start of the process {whole:.2f}")
    print(f"CPU time of five images against two: {five.cpu_seconds / two.cpu_seconds:.2f}")


def write_images(folder: Path) -> list[Path]:
    """Write the generated pictures as plain TIFF files."""
    stack = make_lazy_focus_stack(shape=SHAPE, n_images=N_IMAGES)
    paths = [folder / f"image_{number}.tif" for number in range(N_IMAGES)]
    for path, image in zip(paths, stack, strict=True):
        tifffile.imwrite(path, image.compute(scheduler="synchronous"), photometric="rgb")
    return paths


def warm_up(images: list[Path], folder: Path) -> None:
    """Fuse something small, so that compiled kernels are there and files are in the system's cache."""
    small = []
    for number, path in enumerate(images[:2]):
        small.append(folder / f"small_{number}.tif")
        tifffile.imwrite(small[-1], tifffile.imread(path)[:200, :200], photometric="rgb")
    for preset in ("default", "fast"):
        watch_ours(small, folder, workers=1, preset=preset)


def watch_ours(images: list[Path], folder: Path, *, workers: int, preset: str = "default") -> Usage:
    """Run our command."""
    target = folder / "ours.tif"
    target.unlink(missing_ok=True)
    options = ["-o", str(target), "--preset", preset, "--workers", str(workers), "--align", "none", "--json"]
    return watch([sys.executable, "-m", "qmcif_engine", "fuse", *map(str, images), *options])


def better_of_two(images: list[Path], folder: Path, *, workers: int) -> Usage:
    """Run our command twice: what else the machine does must not decide on a ratio."""
    return min((watch_ours(images, folder, workers=workers) for _ in range(2)), key=lambda usage: usage.wall_seconds)


def watch_enfuse(images: list[Path], folder: Path, *options: str) -> Usage | None:
    """Run enfuse where it is installed."""
    if shutil.which("enfuse") is None:
        return None
    return watch([*ENFUSE, *options, "-o", str(folder / "theirs.tif"), *map(str, images)])


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
