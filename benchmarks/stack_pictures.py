"""Pictures to look at for the report of ``stacks.py``: fused scenes beside their truth, and the maps in color."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine import write_image

if TYPE_CHECKING:
    from pathlib import Path

    from scenes import Scene

    from qmcif_engine import FusionResult

GAP_PX, N_COLUMNS = 6, 3
PALETTE = np.array([(48, 18, 59), (65, 105, 225), (30, 200, 190), (160, 240, 60), (250, 180, 40), (220, 60, 10), (122, 4, 3)])


def write_scene(folder: Path, scene: Scene, result: FusionResult) -> None:
    """Write, in rows of three: truth, ours, the true depth, the source index, where it is wrong (white) in texture (gray), confidence."""
    n_images = len(scene.images)
    is_wrong = np.abs(result.source_index.astype(float) - scene.depth) > 1
    errors = np.where(scene.textured, np.where(is_wrong, 255, 70), 0).astype(np.uint8)
    panels = [scene.truth, result.fused, paint_index(scene.depth, n_images), paint_index(result.source_index, n_images), to_color(errors)]
    panels.append(to_color(np.clip(result.confidence * 255, 0, 255).astype(np.uint8)))
    save(folder / f"scene_{scene.name}_{n_images:03d}_{scene.noise.replace(' ', '_')}.png", panels)


def paint_index(index: np.ndarray, n_images: int) -> np.ndarray:
    place = index.astype(float) / max(n_images - 1, 1) * (len(PALETTE) - 1)
    return np.stack([np.interp(place, np.arange(len(PALETTE)), PALETTE[:, part]) for part in range(3)], axis=-1).astype(np.uint8)


def to_color(plane: np.ndarray) -> np.ndarray:
    return plane if plane.ndim == 3 else np.repeat(plane[..., None], 3, axis=-1)


def save(path: Path, panels: list[np.ndarray]) -> None:
    """Write panels of one size in rows of three."""
    height, width = (side + GAP_PX for side in panels[0].shape[:2])
    canvas = np.full((-(-len(panels) // N_COLUMNS) * height - GAP_PX, N_COLUMNS * width - GAP_PX, 3), 255, np.uint8)
    for number, panel in enumerate(panels):
        top, left = number // N_COLUMNS * height, number % N_COLUMNS * width
        canvas[top : top + height - GAP_PX, left : left + width - GAP_PX] = panel
    path.parent.mkdir(parents=True, exist_ok=True)
    write_image(path, canvas, overwrite=True)
