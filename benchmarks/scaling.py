"""Show how time and memory grow with the size of the images and with the number of workers.

Run as ``python benchmarks/scaling.py`` (4, 24 and 100 megapixels), ``--gigapixel`` for 32768 x 32768 beside 24 megapixels, ``--deep`` for
100 images of 4 megapixels. The images are generated block by block into one tiled TIFF of the temporary folder (6.4 GB for a gigapixel
pair), results are written as OME-Zarr beside it. Each row is one process, whose memory (proportional set size of its tree) is looked at
twenty times a second.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil
import tifffile
from result_files import save_result

from qmcif_engine import make_lazy_focus_stack

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

SIZES = {"4": (2000, 2000), "24": (4000, 6000), "100": (10000, 10000), "1074": (32768, 32768)}
POLL_SECONDS = 0.05
TILE_PX = 1024


class Usage(NamedTuple):
    """What a process and its children took."""

    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigapixel", action="store_true")
    parser.add_argument("--deep", action="store_true")
    parser.add_argument("--save", metavar="NAME", help="keep the figures as benchmarks/results/NAME.json")
    parser.add_argument("--memory", type=int, default=10**9, help="budget in bytes")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.machine()}, {psutil.cpu_count()} cores, budget {options.memory / 1e6:.0f} MB\n")
    print("| megapixels | images | workers | CPU s per megapixel | wall s per megapixel | peak memory, MB |\n|---|---|---|---|---|---|")
    if options.deep:
        cases = [("4", 2, 2), ("4", 100, 2)]
    elif options.gigapixel:
        cases = [("24", 2, 2), ("1074", 2, 2)]
    else:
        cases = [(size, 2, workers) for size in ("4", "24", "100") for workers in (1, 2)]
    rows = [measure(size, n_images=n_images, workers=workers, memory_bytes=options.memory) for size, n_images, workers in cases]
    if options.save:
        columns = ("megapixels", "images", "workers", "CPU s per megapixel", "wall s per megapixel", "peak memory, MB")
        formats = {"CPU s per megapixel": ".2f", "wall s per megapixel": ".2f"}
        save_result(options.save, columns=columns, rows=rows, formats=formats)


def measure(size: str, *, n_images: int, workers: int, memory_bytes: int) -> list[int | float]:
    """Run one case, print its figures, per megapixel of the result, and return them."""
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "stack.tif"
        write_stack(source, SIZES[size], n_images=n_images)
        used = watch(source, workers=workers, memory_bytes=memory_bytes)
    megapixels = SIZES[size][0] * SIZES[size][1] / 1e6
    cpu, wall = used.cpu_seconds / megapixels, used.wall_seconds / megapixels
    print(f"| {megapixels:.0f} | {n_images} | {workers} | {cpu:.2f} | {wall:.2f} | {used.peak_bytes / 1e6:.0f} |", flush=True)
    return [round(megapixels), n_images, workers, cpu, wall, round(used.peak_bytes / 1e6)]


def write_stack(target: Path, shape: tuple[int, int], *, n_images: int) -> None:
    """Write generated images as pages of tiles, one tile in memory at a time."""
    images = make_lazy_focus_stack(shape=shape, n_images=n_images)

    def tiles() -> Iterator[np.ndarray]:
        for image in images:
            for top in range(0, shape[0], TILE_PX):
                for left in range(0, shape[1], TILE_PX):
                    yield image[top : top + TILE_PX, left : left + TILE_PX].compute(scheduler="synchronous")

    tifffile.imwrite(
        target, tiles(), shape=images.shape, dtype=images.dtype, tile=(TILE_PX, TILE_PX), photometric="rgb", bigtiff=True, metadata=None
    )


def watch(source: Path, *, workers: int, memory_bytes: int) -> Usage:
    """Fuse in a process of its own and look at it until it ends."""
    target = source.with_name("fused.ome.zarr")
    command = [sys.executable, "-m", "qmcif_engine", "fuse", str(source), "-o", str(target), "--align", "none", "--quiet"]
    started, peak, cpu = time.perf_counter(), 0, 0.0
    process = psutil.Popen([*command, "--workers", str(workers), "--memory", str(memory_bytes)])
    while process.poll() is None:
        try:
            tree = [process, *process.children(recursive=True)]
            peak = max(peak, sum(member.memory_full_info().pss for member in tree))
            cpu = max(cpu, sum(sum(member.cpu_times()[:2]) for member in tree))
        except psutil.NoSuchProcess:
            pass
        time.sleep(POLL_SECONDS)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Usage(time.perf_counter() - started, cpu, peak)


if __name__ == "__main__":
    main()
