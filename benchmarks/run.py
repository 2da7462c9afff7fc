"""Time the engine: each stage in this process, and whole runs of the command in processes of their own.

Run by ``make bench``. The pair is the first of ``../shared/data/lytro`` where that folder exists, else a generated one of the same
size; the report says which. Times are CPU seconds of one thread; figures quoted elsewhere name this command.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from qmcif_engine.cleanup.regularization import sample_cells
from qmcif_engine.method.decomposition import decompose
from qmcif_engine.stack.noise import adapt_to_noise, measure_noise
from qmcif_engine.tiles.stages import FocusLevels, decide, plan_geometry

from qmcif_engine import PRESETS, __version__, make_focus_stack, read_image, write_image
from qmcif_engine.compiled import single_thread
from qmcif_engine.method.focus import base_focus, detail_focus, fine_focus
from qmcif_engine.method.fusion import compose
from qmcif_engine.stack.samples import settle_focus_range, to_planes

if TYPE_CHECKING:
    from collections.abc import Callable

    from qmcif_engine.config.fusion_config import FusionConfig

SHARED_PAIR = tuple(Path(__file__).parents[2] / "shared" / "data" / "lytro" / f"01_{letter}.png" for letter in "ab")
GENERATED_SHAPE = (520, 520)
REPEATS = 3


def main() -> None:
    """Print the report."""
    print(f"napari-qmcif {__version__}, Python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}")
    with tempfile.TemporaryDirectory() as folder:
        paths = existing_or_generated_pair(Path(folder))
        images = [read_image(path).samples for path in paths]
        print(f"pair {', '.join(path.name for path in paths)}, shape {images[0].shape}, best of {REPEATS}\n")
        for name, config in PRESETS.items():
            report_stages(name, images, config)
            report_command(name, paths, Path(folder))


def existing_or_generated_pair(folder: Path) -> tuple[Path, ...]:
    """Return the shared pair, or write a generated one."""
    if all(path.exists() for path in SHARED_PAIR):
        return SHARED_PAIR
    stack = make_focus_stack(n_images=2, shape=GENERATED_SHAPE, seed=0)
    paths = tuple(folder / f"generated_{letter}.png" for letter in "ab")
    for path, image in zip(paths, stack.images, strict=True):
        write_image(path, image)
    return paths


def report_stages(name: str, images: list[np.ndarray[Any, Any]], config: FusionConfig) -> None:
    """Print the CPU time of each stage of one fusion."""
    geometry = plan_geometry(images[0].shape[:2], config)
    side = geometry.detail_patch_px
    patch = config.decomposition.base_patch_px
    with single_thread():
        bounds, settle_seconds = timed(lambda: settle_focus_range(images))
        noise_level, noise_seconds = timed(lambda: measure_noise(images, bounds))
        adaptation = adapt_to_noise(noise_level, config, n_images=len(images))
        solve = adaptation.decomposition(config.decomposition)
        blocks, embed_seconds = timed(lambda: [to_planes(image, bounds, representation=config.focus.representation) for image in images])
        smoothed, smooth_seconds = timed(lambda: [adaptation.smooth(block) if config.focus.adapts_to_noise else block for block in blocks])
        parts, decompose_seconds = timed(lambda: [decompose(block, solve) for block in smoothed])
        base, base_seconds = timed(lambda: tuple(base_focus(part, base_patch_px=patch, config=config.focus) for part in parts))
        detail, detail_seconds = timed(
            lambda: tuple(detail_focus(part.detail, detail_patch_px=side, config=config.focus) for part in parts)
        )
        fine, fine_seconds = timed(
            lambda: tuple(
                sample_cells(fine_focus(part.detail, growth_px=adaptation.window_growth_px, config=config.focus)) for part in parts
            )
        )
        levels = FocusLevels(base, detail, fine, ())
        tile, decide_seconds = timed(lambda: decide(blocks, levels, geometry=geometry, config=config, adaptation=adaptation))
        _, compose_seconds = timed(lambda: compose(images, tile.blend))
    stages = {
        "settle focus range": settle_seconds,
        "measure noise": noise_seconds,
        "embed": embed_seconds,
        "smooth for noise": smooth_seconds,
        "decompose (QFED)": decompose_seconds,
        "base focus": base_seconds,
        "detail focus": detail_seconds,
        "fine focus": fine_seconds,
        "decide (maps, QBDF, QSSR, our stages)": decide_seconds,
        "compose": compose_seconds,
    }
    total = sum(stages.values())
    print(f"preset {name}: stages, CPU seconds and share")
    for stage, seconds in stages.items():
        print(f"  {stage:38s} {seconds:7.3f}  {seconds / total:5.1%}")
    print(f"  {'all stages':38s} {total:7.3f}")


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result and the least CPU time of a few runs; the first also warms caches."""
    best, result = float("inf"), None
    for _ in range(REPEATS):
        started = time.process_time()
        result = work()
        best = min(best, time.process_time() - started)
    return result, best


def report_command(name: str, paths: tuple[Path, ...], folder: Path) -> None:
    """Print CPU time after start-up and peak memory of whole runs, and whether two runs give the same bytes."""
    reports, digests = [], set()
    for run in range(2):
        target = folder / f"{name}_{run}.png"
        command = [sys.executable, "-m", "qmcif_engine", "fuse", *map(str, paths), "-o", str(target), "--preset", name, "--json"]
        finished = subprocess.run(command, check=True, capture_output=True, text=True)
        reports.append(json.loads(finished.stdout))
        digests.add(hashlib.sha256(target.read_bytes()).hexdigest())
    best = min(report["cpu_seconds"] for report in reports)
    peak = max(report["peak_memory_bytes"] for report in reports) / 1e6
    same = "byte-identical" if len(digests) == 1 else "DIFFERENT"
    print(f"  qmcif fuse, file to file               {best:7.3f}  CPU seconds after start-up, peak {peak:.0f} MB, two runs {same}\n")


if __name__ == "__main__":
    main()
