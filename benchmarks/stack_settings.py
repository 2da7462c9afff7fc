"""Measure what the order of a stack, the adaptation to its noise and consistent decisions are worth, on scenes whose depth is known.

Run as ``python benchmarks/stack_settings.py``; the tables become ``benchmarks/results/stack_order.json`` and ``stack_noise.json``, from
which ``python tools/write_figures.py`` writes docs/how-to/stacks.md. Each cell is the share of textured pixels that are taken from an image
within one of the true depth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from result_files import Cell, save_result
from scenes import SHAPE, Scene, make_scene, measure_right_share

from qmcif_engine import FusionConfig, fuse

if TYPE_CHECKING:
    from collections.abc import Iterable

N_IMAGES = 12
TITLES = {"dome": "dome", "plane": "tilted plane"}
NOISES = {"none": "no noise", "gaussian 10": "Gaussian noise of 10 gray levels", "photons 10": "10 photons"}
ORDER_CASES = (("dome", "none"), ("dome", "gaussian 10"), ("dome", "photons 10"), ("plane", "photons 10"))
NOISE_CASES = (("dome", "gaussian 10"), ("dome", "photons 10"), ("plane", "gaussian 10"), ("plane", "photons 10"))
ORDERS = ("ordered", "none")
NOISE_SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "`noise=off`": {"noise": "off"},
    "`smoothness=0`": {"smoothness": 0.0},
}
FIRST_COLUMN = f"{N_IMAGES} images, within one image of the truth"


def main() -> None:
    """Print both tables and keep them."""
    orders = [f"{kind}, `{order}`" for kind in ("in order", "shuffled") for order in ORDERS]
    keep("stack_order", orders, (measure_orders(name, noise) for name, noise in ORDER_CASES))
    keep("stack_noise", list(NOISE_SETTINGS), (measure_noise_settings(name, noise) for name, noise in NOISE_CASES))


def keep(name: str, columns: list[str], rows: Iterable[list[Cell]]) -> None:
    """Print one table row by row, and keep it."""
    print(FIRST_COLUMN, *columns, sep=" | ")
    kept = []
    for row in rows:
        print(*row, sep=" | ", flush=True)
        kept.append(row)
    save_result(name, columns=(FIRST_COLUMN, *columns), rows=kept)


def measure_orders(name: str, noise: str) -> list[Cell]:
    """Return the row of one scene: its images in order and shuffled, taken as ordered and as not ordered."""
    scene = make_scene(name, N_IMAGES, noise=noise, shape=SHAPE)
    shuffled = np.random.default_rng(0).permutation(N_IMAGES)
    cells = [measure(scene, {"order": order}, taken=taken) for taken in (np.arange(N_IMAGES), shuffled) for order in ORDERS]
    return [describe(name, noise), *cells]


def measure_noise_settings(name: str, noise: str) -> list[Cell]:
    """Return the row of one scene: with each setting."""
    scene = make_scene(name, N_IMAGES, noise=noise, shape=SHAPE)
    return [describe(name, noise), *(measure(scene, changes, taken=np.arange(N_IMAGES)) for changes in NOISE_SETTINGS.values())]


def measure(scene: Scene, changes: dict[str, Any], *, taken: np.ndarray) -> str:
    """Fuse the images of a scene, taken in some order, and return the share that is right."""
    result = fuse([scene.images[number] for number in taken], FusionConfig().replaced(changes))
    return f"{measure_right_share(scene, taken[result.source_index]):.1%}"


def describe(name: str, noise: str) -> str:
    return f"{TITLES[name]}, {NOISES[noise]}"


if __name__ == "__main__":
    main()
