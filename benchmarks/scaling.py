"""Show how time and memory grow with the size of the images and with the number of workers.

Run as ``python benchmarks/scaling.py`` (4, 24 and 100 megapixels), ``--gigapixel`` for 32768 x 32768 beside 24 megapixels, ``--deep`` for
100 images of 4 megapixels. Pairs are generated block by block as they are read, and results written as OME-Zarr, so nothing depends on
a file of that size being there; what generating alone takes is measured too and taken off. Each row is one process, whose memory
(proportional set size of its tree) is looked at twenty times a second.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil

SIZES = {"4": (2000, 2000), "24": (4000, 6000), "100": (10000, 10000), "1074": (32768, 32768)}
POLL_SECONDS = 0.05


class Usage(NamedTuple):
    """Hold what a process and its children took."""

    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int


def main() -> None:
    """Print the table, or be one of its processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigapixel", action="store_true")
    parser.add_argument("--deep", action="store_true")
    parser.add_argument("--memory", type=int, default=10**9, help="budget in bytes")
    parser.add_argument("--child", nargs=4, metavar=("KIND", "SIZE", "IMAGES", "WORKERS"))
    options = parser.parse_args()
    if options.child:
        kind, size, n_images, workers = options.child
        run_child(kind, size, n_images=int(n_images), workers=int(workers), memory_bytes=options.memory)
        return
    print(f"Python {platform.python_version()}, {platform.machine()}, {psutil.cpu_count()} cores, budget {options.memory / 1e6:.0f} MB\n")
    print("| megapixels | images | workers | CPU s a megapixel | wall s a megapixel | peak memory, MB |\n|---|---|---|---|---|---|")
    if options.deep:
        cases = [("4", 2, 2), ("4", 100, 2)]
    elif options.gigapixel:
        cases = [("24", 2, 2), ("1074", 2, 2)]
    else:
        cases = [(size, 2, workers) for size in ("4", "24", "100") for workers in (1, 2)]
    for size, n_images, workers in cases:
        print_row(size, n_images=n_images, workers=workers, memory_bytes=options.memory)


def print_row(size: str, *, n_images: int, workers: int, memory_bytes: int) -> None:
    """Run one case and print its figures, a megapixel of the result."""
    idle = watch("generate", size, n_images=n_images, workers=workers, memory_bytes=memory_bytes)
    used = watch("fuse", size, n_images=n_images, workers=workers, memory_bytes=memory_bytes)
    megapixels = SIZES[size][0] * SIZES[size][1] / 1e6
    cpu, wall = (used.cpu_seconds - idle.cpu_seconds) / megapixels, (used.wall_seconds - idle.wall_seconds) / megapixels
    print(f"| {megapixels:.0f} | {n_images} | {workers} | {cpu:.2f} | {wall:.2f} | {used.peak_bytes / 1e6:.0f} |", flush=True)


def watch(kind: str, size: str, *, n_images: int, workers: int, memory_bytes: int) -> Usage:
    """Run one case in a process and look at it until it ends."""
    command = [sys.executable, __file__, "--memory", str(memory_bytes), "--child", kind, size, str(n_images), str(workers)]
    started, peak, cpu = time.perf_counter(), 0, 0.0
    process = psutil.Popen(command)
    while process.poll() is None:
        try:
            tree = [process, *process.children(recursive=True)]
            peak = max(peak, sum(member.memory_full_info().pss for member in tree))
            times = [member.cpu_times() for member in tree]
            cpu = max(cpu, sum(moment.user + moment.system for moment in times))
        except psutil.NoSuchProcess:
            pass
        time.sleep(POLL_SECONDS)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Usage(time.perf_counter() - started, cpu, peak)


def run_child(kind: str, size: str, *, n_images: int, workers: int, memory_bytes: int) -> None:
    """Read or fuse a generated stack."""
    from qmcif_engine import fuse_to_file, make_lazy_focus_stack, open_stack
    from qmcif_engine.config import FusionConfig
    from qmcif_engine.tiling import plan_tiles

    images = make_lazy_focus_stack(shape=SIZES[size], n_images=n_images)
    with open_stack(images, axes="ZYXS") as stack, tempfile.TemporaryDirectory() as folder:
        if kind == "fuse":
            fuse_to_file(stack, Path(folder) / "fused.ome.zarr", workers=workers, memory_bytes=memory_bytes)
            return
        for tile in plan_tiles(SIZES[size], FusionConfig()).tiles:
            for number in range(n_images):
                stack.read(number, tile.padded)


if __name__ == "__main__":
    main()
