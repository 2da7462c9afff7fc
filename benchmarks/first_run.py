"""Measure what the first run after an installation compiles: CPU seconds of each compiled function, and of numba's own functions.

Run as ``python benchmarks/first_run.py [--shape 512 512] [--least 0.2]``, or with ``--commands`` to time
whole commands instead. A generated pair is fused with an empty cache. The figure of a function leaves out those that it calls; parts are
typed once and optimized with every function that they are part of.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median

from numba.core import config
from numba.core.event import Event, Listener, install_listener
from result_files import save_result

import qmcif_engine  # what it has is imported when first used, and looks for the cache then

OTHERS = "of numba, all together"


class CompilationWatch(Listener):
    """Listener to numba that adds up the CPU time of each function without that of the functions it calls."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._open: list[tuple[float, float]] = []

    def on_start(self, event: Event) -> None:
        """Begin a function."""
        del event
        self._open.append((time.thread_time(), 0.0))

    def on_end(self, event: Event) -> None:
        """End it."""
        start, of_others = self._open.pop()
        taken = time.thread_time() - start
        if self._open:
            begun, sum_of_others = self._open.pop()
            self._open.append((begun, sum_of_others + taken))
        function = event.data["dispatcher"].py_func
        is_ours = function.__module__.startswith("qmcif_engine.")
        name = f"{function.__module__.removeprefix('qmcif_engine.')}.{function.__name__}" if is_ours else OTHERS
        self.seconds[name] += taken - of_others


def main() -> None:
    """Fuse with an empty cache; print what was compiled, or keep what whole commands take."""
    parser = argparse.ArgumentParser(description="show what the first run after an installation compiles")
    parser.add_argument("--shape", type=int, nargs=2, default=(512, 512), metavar=("HEIGHT", "WIDTH"))
    parser.add_argument("--least", type=float, default=0.2, help="CPU seconds below which a function is not listed")
    parser.add_argument("--commands", action="store_true", help="time whole commands instead, and save the table of the documentation")
    options = parser.parse_args()
    if options.commands:
        rows = time_commands(tuple(options.shape))
        save_result("first_run", columns=["command", "CPU s", "wall s"], rows=rows, formats={"CPU s": ".1f", "wall s": ".1f"})
    else:
        list_functions(tuple(options.shape), least=options.least)


def list_functions(shape: tuple[int, int], *, least: float) -> None:
    """Print the CPU seconds of each function."""
    watch = CompilationWatch()
    with tempfile.TemporaryDirectory() as folder, install_listener("numba:compile", watch):
        os.environ["NUMBA_CACHE_DIR"] = folder
        config.reload_config()
        images = qmcif_engine.make_focus_stack(n_images=2, shape=shape, seed=3).images
        begun = time.process_time()
        qmcif_engine.fuse(images)
        first, begun = time.process_time() - begun, time.process_time()
        qmcif_engine.fuse(images)
        second = time.process_time() - begun
    for name, seconds in watch.seconds.most_common():
        if seconds >= least:
            print(f"{name:45} {seconds:6.2f}")
    print(f"{len(watch.seconds)} functions, {sum(watch.seconds.values()):.1f} CPU s; first run {first:.1f}, second run {second:.1f} CPU s")


def time_commands(shape: tuple[int, int]) -> list[list[str | float]]:
    """Return CPU and wall seconds of whole processes, the first of which finds nothing compiled; of those after it the medians of three."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = [folder / f"{number}.tif" for number in range(2)]
        for path, image in zip(paths, qmcif_engine.make_focus_stack(n_images=2, shape=shape, seed=3).images, strict=True):
            qmcif_engine.write_image(path, image)
        fusing = ["-m", "qmcif_engine", "fuse", *paths, "-o", folder / "fused.tif", "--overwrite", "--quiet"]
        runs = [
            ("`qmcif fuse`, the first time", fusing, 1),
            ("`qmcif fuse`, from then on", fusing, 3),
            ("of that, loading libraries and modules", ["-c", "import qmcif_engine.cli.fuse_command"], 3),
        ]
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
        return [
            [title, *(median(taken) for taken in zip(*(_time_process(command, environment) for _ in range(turns)), strict=True))]
            for title, command, turns in runs
        ]


def _time_process(arguments: list[object], environment: dict[str, str]) -> tuple[float, float]:
    """Return the CPU seconds of a process and of those it waits for, and the seconds it takes."""
    before = os.times()
    subprocess.run([sys.executable, *map(str, arguments)], env=environment, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system, after.elapsed - before.elapsed


if __name__ == "__main__":
    main()
