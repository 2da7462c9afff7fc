"""Show how many decisions change because work is saved: the default beside a full solve of every image, on the shared pairs and stacks.

Run as ``python benchmarks/decisions.py`` beside ``../shared``. The full solve takes exact base layers instead of relaxed ones and leaves no
image of a deep stack out (`qmcif_engine.tiles.contenders`). Textured is a pixel around which some image has a standard deviation of
`TEXTURE_LEVELS` gray levels or more over `WINDOW_PX` pixels a side. Stacks are cut to their middle, `MIDDLE_PX` a side.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np
from result_files import save_result
from scipy import ndimage

from qmcif_engine import fuse, open_stack
from qmcif_engine.comparison.datasets import find_dataset
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"
PAIRS = ("lytro", "mffw", "mfi_whu", "nyu_d", "lytro_triple", "mffw3")
STACKS = ("stacks/aligned_32", "stacks/exposure_6", "stacks/macro_focus_breathing", "stacks/pcb_10", "stacks/pcb_7", "stacks/photo_10")
MIDDLE_PX, TEXTURE_LEVELS, WINDOW_PX = 1024, 4.0, 9
FULL = {
    "exact solve": {"qmcif_engine.method.focus_measures.decomposition_measure.MOST_ITERATIONS": 0},
    "no image left out": {"qmcif_engine.tiles.cell_stages.FEWEST_IMAGES": 10**6},
}


def main() -> None:
    """Print and keep a row per set and kind of saved work."""
    sets = [(name, [[str(path) for path in one.sources] for one in find_dataset(SHARED_DATA / name).sets]) for name in PAIRS]
    sets += [(name, [[str(SHARED_DATA / name)]]) for name in STACKS]
    rows: list[list[str | int | float]] = []
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as workers:
        for name, stacks in sets:
            found = np.array(list(workers.map(compare, stacks)))
            for number, kind in enumerate(FULL):
                rows.append([name, len(stacks), kind, *found[:, number].mean(axis=0).tolist()])
                print(rows[-1], flush=True)
    columns = ("set", "stacks", "compared with", "equal, all pixels", "equal, textured", "equal or next image, textured")
    save_result("decisions", columns=columns, rows=rows, formats=dict.fromkeys(columns[3:], ".5f"))


def compare(paths: list[str]) -> list[list[float]]:
    """Return the shares of equal decisions for each kind of full solve."""
    with open_stack(paths if len(paths) > 1 else paths[0]) as stack:
        height, width = stack.image_shape[:2]
        top, left = max(0, height - MIDDLE_PX) // 2, max(0, width - MIDDLE_PX) // 2
        window = Window(top, left, min(top + MIDDLE_PX, height), min(left + MIDDLE_PX, width))
        images = [np.array(stack.read(number, window)) for number in range(stack.n_images)]
    saved, is_textured = fuse(images).source_index.astype(int), find_texture(images)
    shares = []
    for changes in FULL.values():
        with ExitStack() as changed:
            for name, value in changes.items():
                changed.enter_context(mock.patch(name, value))
            distance = np.abs(fuse(images).source_index.astype(int) - saved)
        shares.append([(distance == 0).mean(), (distance[is_textured] == 0).mean(), (distance[is_textured] <= 1).mean()])
    return shares


def find_texture(images: Sequence[np.ndarray]) -> np.ndarray:
    """Return where some image has texture, in gray levels of eight bits."""
    found = np.zeros(images[0].shape[:2], bool)
    for image in images:
        gray = image.mean(axis=2) if image.ndim == 3 else image.astype(float)
        gray = gray * (255 / np.iinfo(image.dtype).max if image.dtype.kind == "u" else 1)
        variance = ndimage.uniform_filter(gray**2, WINDOW_PX) - ndimage.uniform_filter(gray, WINDOW_PX) ** 2
        found |= variance >= TEXTURE_LEVELS**2
    return found


if __name__ == "__main__":
    main()
