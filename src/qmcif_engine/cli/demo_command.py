"""``qmcif demo``: a stack with a known truth, fused, compared and put side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.cli.options import Request
from qmcif_engine.cli.terminal import progress_bar, report_compilation
from qmcif_engine.io.output.formats import check_target, write_images
from qmcif_engine.io.output.placement import map_path, ready_folder
from qmcif_engine.metrics import evaluate
from qmcif_engine.metrics.truth import convert_to_decibels
from qmcif_engine.pipeline.in_memory import FusionResult, fuse
from qmcif_engine.stack.synthetic import SyntheticStack, make_focus_stack
from qmcif_engine.tiles.output_maps import WRITTEN_MAPS

N_IMAGES = 6
IMAGES_IN_A_ROW = 3
SHAPE = (480, 640)
SEED = 7
EDGE_DISTANCE_PX = 8


def run(request: Request) -> None:
    """Write the stack, its fusion, the maps and a side-by-side image, and print where they are and how good the result is."""
    folder = request.output or Path("qmcif-demo")
    with ready_folder(folder), ready_folder(folder / "maps"):
        targets = _list_targets(folder)
        for target in targets:
            check_target(target, overwrite=request.overwrite)
        stack = make_focus_stack(n_images=N_IMAGES, shape=SHAPE, seed=SEED)
        with report_compilation(is_quiet=False), progress_bar("fusing", is_quiet=False) as move:
            result = fuse(list(stack.images), with_maps=True, on_progress=lambda progress: move(*progress))
        shown = [*stack.images, stack.truth, result.fused, side_by_side(stack, result), *(getattr(result, name) for name in WRITTEN_MAPS)]
        write_images(dict(zip(targets, shown, strict=True)), overwrite=request.overwrite)
    for line in _summary(stack, result, folder):
        print(line)


def _list_targets(folder: Path) -> list[Path]:
    inputs = [f"input_{number}.png" for number in range(1, N_IMAGES + 1)]
    return [folder / name for name in (*inputs, "truth.png", "fused.png", "side_by_side.png")] + [
        map_path(folder / "maps", name) for name in WRITTEN_MAPS
    ]


def _summary(stack: SyntheticStack, result: FusionResult, folder: Path) -> list[str]:
    scores = evaluate(list(stack.images), result.fused, truth=stack.truth)
    # nearer than the blur reaches, no image alone shows the truth
    is_far = stack.edge_distance_px > EDGE_DISTANCE_PX
    share = float(np.mean(result.source_index[is_far] == stack.depth_index[is_far]))
    errors = [int(np.sum((image.astype(np.int64) - stack.truth) ** 2)) for image in stack.images]
    best = convert_to_decibels(min(errors), n_samples=stack.truth.size)
    return [
        f"fused image   {folder / 'fused.png'}",
        f"focus maps    {folder / 'maps'}",
        f"side by side  {folder / 'side_by_side.png'}  (inputs, then fused, truth and source index)",
        f"PSNR against the truth: {scores.signal_to_noise_db:.2f} dB; best single input {best:.2f} dB",
        f"right source for {share:.2%} of the pixels farther than {EDGE_DISTANCE_PX} px from a depth edge",
    ]


def side_by_side(stack: SyntheticStack, result: FusionResult) -> NDArray[np.uint8]:
    """Return one image: the inputs in rows of three; fused image, truth and source index below."""
    grays = np.linspace(0, 255, len(stack.images)).astype(np.uint8)
    index = np.repeat(grays[result.source_index][..., None], 3, axis=-1)
    starts = range(0, len(stack.images), IMAGES_IN_A_ROW)
    rows: list[list[NDArray[Any]]] = [list(stack.images[start : start + IMAGES_IN_A_ROW]) for start in starts]
    rows.append([result.fused, stack.truth, index])
    return np.concatenate([np.concatenate(row, axis=1) for row in rows], axis=0)
