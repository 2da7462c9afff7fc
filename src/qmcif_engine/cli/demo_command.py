"""Carry out ``qmcif demo``: a stack with a known truth, fused, compared and put side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.cli.progress import progress_bar
from qmcif_engine.errors import OutputError
from qmcif_engine.io.writers import write_image, write_maps
from qmcif_engine.metrics import evaluate
from qmcif_engine.metrics.truth import measure_signal_to_noise
from qmcif_engine.pipeline import FusionResult, fuse
from qmcif_engine.synthetic import SyntheticStack, make_focus_stack

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

    from numpy.typing import NDArray

N_IMAGES = 3
SHAPE = (480, 640)
SEED = 7
EDGE_DISTANCE_PX = 8


def run(options: Namespace) -> None:
    """Write the stack, its fusion, the maps and a side-by-side picture, and print where they are and how good the result is."""
    folder = options.output
    _make_folder(folder)
    stack = make_focus_stack(n_images=N_IMAGES, shape=SHAPE, seed=SEED)
    with progress_bar("fusing", is_quiet=False) as move:
        result = fuse(list(stack.images), on_progress=lambda progress: move(*progress))
    pictures = {f"input_{number}.png": image for number, image in enumerate(stack.images, start=1)}
    pictures |= {"truth.png": stack.truth, "fused.png": result.fused, "side_by_side.png": side_by_side(stack, result)}
    for name, picture in pictures.items():
        write_image(folder / name, picture, overwrite=True)
    names = ("source_index", "base_map", "detail_map", "confidence")
    write_maps(folder / "maps", {name: getattr(result, name) for name in names}, overwrite=True)
    for line in _summary(stack, result, folder):
        print(line)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"the folder {str(folder)!r} cannot be made ({error.strerror}); a writable place is needed: choose another one"
        raise OutputError(msg) from error


def _summary(stack: SyntheticStack, result: FusionResult, folder: Path) -> list[str]:
    scores = evaluate(list(stack.images), result.fused, truth=stack.truth)
    is_far = stack.edge_distance_px > EDGE_DISTANCE_PX
    share = float(np.mean(result.source_index[is_far] == stack.depth_index[is_far]))
    single = [measure_signal_to_noise(image.astype(np.uint8), stack.truth.astype(np.uint8)) for image in stack.images]
    return [
        f"fused image   {folder / 'fused.png'}",
        f"focus maps    {folder / 'maps'}",
        f"side by side  {folder / 'side_by_side.png'}  (inputs, then fused, truth and source index)",
        f"PSNR against the truth: {scores.signal_to_noise_db:.2f} dB; best single input {max(single):.2f} dB",
        f"right source for {share:.2%} of the pixels farther than {EDGE_DISTANCE_PX} px from a depth edge",
    ]


def side_by_side(stack: SyntheticStack, result: FusionResult) -> NDArray[np.uint8]:
    """Return one picture: the inputs in the upper row; fused image, truth and source index below."""
    grays = np.linspace(0, 255, len(stack.images)).astype(np.uint8)
    index = np.repeat(grays[result.source_index][..., None], 3, axis=-1)
    rows: list[list[NDArray[Any]]] = [list(stack.images), [result.fused, stack.truth, index]]
    return np.concatenate([np.concatenate(row, axis=1) for row in rows], axis=0)
