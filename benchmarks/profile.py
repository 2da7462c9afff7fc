"""Show where a fusion spends its time: CPU seconds of every numerical stage, for a generated pair of two megapixels.

Run by ``make profile``. A stage's figure leaves out the stages it calls, and adds up all threads. The peak is what arrays took in a
second run of the same fusion, input and output apart.
"""

from __future__ import annotations

import argparse
import functools
import platform
import sys
import threading
import time
import tracemalloc
from collections import Counter
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from result_files import save_result

from qmcif_engine import PRESETS, __version__, fuse, make_focus_stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHAPE = (1248, 1600)
STAGES = {
    "stack.samples": ("measure_focus_range", "to_planes"),
    "decision.statistics": ("measure_statistics",),
    "decision.cleaning": ("clip_outliers",),
    "decision.energy": ("_measure_images", "_draw"),
    "decision.evidence": ("find_candidates",),
    "decision.reblur": ("halo_costs",),
    "decision.propagation": ("propagate",),
    "decision.posterior": ("find_confidence",),
    "decision.composition": ("compose_samples",),
    "method.detail_layer": ("detail_layer",),
    "method.paper": ("find_focus_maps",),
    "method.refinement": ("refine",),
    "method.solver": ("decompose",),
    "tiles.task": ("digest_images",),
}
REST = "everything else"
LEAST_SHARE = 0.01
"""Stages that take less are not kept."""


class Stopwatch:
    """CPU time of functions by name, each without the time of the others it calls."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._open = threading.local()
        self._lock = threading.Lock()

    def watch(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return the function with its time taken."""

        @functools.wraps(function)
        def watched(*arguments: Any, **options: Any) -> Any:
            inner = self._open.__dict__.setdefault("inner", [])
            inner.append(0.0)
            started = time.thread_time()
            try:
                return function(*arguments, **options)
            finally:
                took = time.thread_time() - started
                of_others = inner.pop()
                if inner:
                    inner[-1] += took
                with self._lock:
                    self.seconds[name] += took - of_others
                    self.calls[name] += 1

        return watched


@contextmanager
def watching_stages(stopwatch: Stopwatch) -> Iterator[None]:
    """Put the watched functions wherever the engine's modules name the plain ones, for a while."""
    replaced = []
    for module, names in STAGES.items():
        for name in names:
            plain = getattr(import_module(f"qmcif_engine.{module}"), name)
            watched = stopwatch.watch(plain, name.lstrip("_"))
            for user in [user for title, user in sys.modules.items() if title.startswith("qmcif_engine")]:
                for key, value in list(vars(user).items()):
                    if value is plain:
                        setattr(user, key, watched)
                        replaced.append((user, key, plain))
    yield
    for user, key, plain in replaced:
        setattr(user, key, plain)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", choices=sorted(PRESETS), default="default")
    parser.add_argument("--images", type=int, default=2)
    parser.add_argument("--shape", type=int, nargs=2, default=SHAPE, metavar=("HEIGHT", "WIDTH"))
    parser.add_argument("--save", metavar="NAME", help="keep the figures as benchmarks/results/NAME.json")
    options = parser.parse_args()
    config = PRESETS[options.preset]
    images = list(make_focus_stack(n_images=options.images, shape=tuple(options.shape), seed=0).images)
    fuse(images, config)  # compiles and loads what is needed
    stopwatch = Stopwatch()
    with watching_stages(stopwatch):
        started = time.process_time()
        fuse(images, config)
        total = time.process_time() - started
    seconds, calls = stopwatch.seconds, stopwatch.calls
    tracemalloc.start()
    fuse(images, config)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    report(seconds, calls, total=total, peak=peak, images=images, preset=options.preset)
    if options.save:
        megapixels = images[0].shape[0] * images[0].shape[1] / 1e6
        stages = (seconds + Counter({REST: total - seconds.total()})).most_common()
        rows = [[stage, spent / megapixels, spent / total] for stage, spent in [*stages, ("all", total)] if spent >= LEAST_SHARE * total]
        formats = {"CPU s per megapixel": ".3f", "share": ".0%"}
        save_result(options.save, columns=("stage", "CPU s per megapixel", "share"), rows=rows, formats=formats)


def report(seconds: Counter[str], calls: Counter[str], *, total: float, peak: int, images: list[np.ndarray[Any, Any]], preset: str) -> None:
    """Print seconds, seconds a megapixel and share of every stage, the largest first."""
    megapixels = images[0].shape[0] * images[0].shape[1] / 1e6
    print(f"napari-qmcif {__version__}, Python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}")
    print(f"preset {preset}, {len(images)} images of {images[0].shape[1]} x {images[0].shape[0]} pixels\n")
    print(f"{'stage':24s} {'calls':>6s} {'CPU s':>8s} {'s/MP':>8s} {'share':>7s}")
    for stage, spent in (seconds + Counter({REST: total - seconds.total()})).most_common():
        print(f"{stage:24s} {calls[stage] or '':>6} {spent:8.3f} {spent / megapixels:8.3f} {spent / total:7.1%}")
    print(f"{'all':24s} {'':6s} {total:8.3f} {total / megapixels:8.3f}\n")
    print(f"peak of arrays: {peak / 1e6:.0f} MB, {peak / megapixels / 1e6:.0f} bytes a pixel")


if __name__ == "__main__":
    main()
