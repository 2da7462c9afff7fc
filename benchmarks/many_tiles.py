"""Measure what a run costs beside its arithmetic: plan, graph, job and assembling of very many tiles.

Run as ``python benchmarks/many_tiles.py [--tiles 10000 100000] [--cluster]``. The arithmetic is a stub that returns blank tiles of 16 px,
so that what is left is the run itself. ``--cluster`` computes on a LocalCluster of two processes, whose scheduler runs in a process of its
own; the memory is that of this process, the client.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.pipeline.active_run import PartSink
from qmcif_engine.run.execution import Steps, run_tiles
from qmcif_engine.run.job import Job, PartKind, PlaneKind
from qmcif_engine.stack.window import Window
from qmcif_engine.tiles.plan import Tile, TilePlan
from qmcif_engine.tiles.task import FusedTile

if TYPE_CHECKING:
    from distributed import Client

SIDE_PX = 16
N_IMAGES = 20
DIGEST = bytes(32)


class BlankTile:
    """A stub in place of a tile task: what it returns takes no time."""

    def __call__(self, tile: Tile, **_: Any) -> FusedTile:
        """Return a blank tile."""
        index = np.zeros(tile.core.shape, np.uint16)
        level = np.zeros(tile.core.shape, np.float32)
        return FusedTile(fused=np.zeros(tile.core.shape, np.uint8), source_index=index, confidence=level, input_digest=DIGEST)


def plan_blank(n_tiles: int) -> TilePlan:
    """Return a plan of that many tiles in a square."""
    n_columns = int(np.sqrt(n_tiles))
    n_rows = -(-n_tiles // n_columns)
    spans = [tuple((SIDE_PX * number, SIDE_PX * (number + 1)) for number in range(count)) for count in (n_rows, n_columns)]
    shape = (SIDE_PX * n_rows, SIDE_PX * n_columns)
    return TilePlan(shape=shape, overlap_px=64, rows=spans[0], columns=spans[1])


def run(n_tiles: int, client: Client | None) -> None:
    """Run one plan and print its figures."""
    started = time.perf_counter()
    plan = plan_blank(n_tiles)
    with tempfile.TemporaryDirectory() as folder:
        job = Job(
            Path(folder) / "job", plan, {"fused": PlaneKind(np.dtype(np.uint8))}, parts=[PartKind(N_IMAGES, ("fused",))], chunk_px=SIDE_PX
        )
        job.begin("0" * 64, resume=False, overwrite=False)
        steps = Steps(n_tiles=len(plan), steps_a_tile=N_IMAGES + 1)
        stub: Any = BlankTile()
        missing = (tile for tile in plan if not job.is_finished(0, tile))
        run_tiles(stub, missing, sink=PartSink(job, 0), tiles_at_once=2, steps=steps, client=client)
        computed = time.perf_counter()
        counts = sum(np.array(job.receipt(0, tile).pixels_by_image) for tile in plan)
        picture = job.image(0, "fused")
        for top in range(0, plan.shape[0], 1024):
            for left in range(0, plan.shape[1], 1024):
                picture.read(Window(top, left, min(top + 1024, plan.shape[0]), min(left + 1024, plan.shape[1])))
        assert np.sum(counts) == plan.shape[0] * plan.shape[1]
    ended = time.perf_counter()
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    each = 1000 / len(plan)
    print(
        f"{len(plan):>7} tiles: run {each * (computed - started):.2f} ms, receipts and assembling {each * (ended - computed):.2f} ms "
        f"a tile; peak of this process {memory_mb:.0f} MB",
        flush=True,
    )


def main() -> None:
    """Run each size in a process of its own, so that its peak of memory is its own too."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiles", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--cluster", action="store_true")
    options = parser.parse_args()
    if len(options.tiles) > 1:
        for n_tiles in options.tiles:
            further = ["--cluster"] if options.cluster else []
            subprocess.run([sys.executable, __file__, "--tiles", str(n_tiles), *further], check=True)
        return
    if not options.cluster:
        run(options.tiles[0], None)
        return
    from separate_cluster import separate_cluster

    with separate_cluster(2) as client:
        run(options.tiles[0], client)


if __name__ == "__main__":
    main()
