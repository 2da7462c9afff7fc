"""Compilation by a second core in the first run after an installation: what edges and blends need, while the other stages are compiled.

Numba compiles one function at a time in a process. Code goes into the cache, where the process that fuses finds it as if an earlier run had
left it there; whatever it needs sooner it compiles itself.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.kernels.compilation_notice import hear_of_compilation
from qmcif_engine.kernels.cores import count_cores
from qmcif_engine.method.fusion import compose, crop_blend
from qmcif_engine.stack.samples import FocusRange, PlaneStack
from qmcif_engine.stack.window import Window
from qmcif_engine.tiles.cell_stages import CellDecision, CellLevels
from qmcif_engine.tiles.stages import draw_cells
from qmcif_engine.tiles.tile_parts import in_cells

if TYPE_CHECKING:
    from collections.abc import Iterator

# neither size nor values matter much: compiled code depends on types alone
_SIDE_PX = 200


@contextmanager
def compiling_ahead() -> Iterator[None]:
    """Have another process compile the later stages as soon as this one begins to compile; nothing happens where all is there."""
    started: list[subprocess.Popen[bytes]] = []

    # told of every function that is compiled, but one process is enough
    @cache
    def start() -> None:
        nowhere, command = subprocess.DEVNULL, [sys.executable, "-m", __name__]
        with suppress(OSError):  # then this process compiles everything
            started.append(subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere))

    # a second process would only take turns with this one
    if count_cores() == 1:
        yield
        return
    try:
        with hear_of_compilation(start):
            yield
    finally:
        for process in started:
            # what it has finished is in the cache, and what it is at nobody waits for any more
            process.terminate()
            process.wait()


def draw_something() -> None:
    """Draw and blend a small decision between two images, which compiles all that this needs."""
    generator, whole = np.random.default_rng(0), Window(0, 0, _SIDE_PX, _SIDE_PX)
    images = [generator.integers(0, 256, (*whole.shape, 3), np.uint8) for _ in range(2)]
    config, cells = FusionConfig(), in_cells(whole).shape
    # a diagonal edge, which passes through cells of both images
    index, level = np.tri(*cells, dtype=np.uint16), np.ones(cells, np.float32)
    planes = PlaneStack(images, FocusRange(0.0, 255.0), representation=config.focus.representation)
    # blends first, which the other process needs last
    for band_px in (0, config.decision.edge_band_px):
        settings = replace(config, decision=replace(config.decision, edge_band_px=band_px))
        result = draw_cells(planes, CellDecision(index, level), CellLevels([level] * 2, [level] * 2, [level] * 2), config=settings)
        compose(images, crop_blend(result.blend, whole), inner=whole)


if __name__ == "__main__":
    draw_something()
