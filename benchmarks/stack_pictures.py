"""Pictures to look at for the report of ``stacks.py``: fused images beside their sources, and the maps in color."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

from qmcif_engine import write_image

if TYPE_CHECKING:
    from pathlib import Path

    from scenes import Scene

    from qmcif_engine.types import FusionResult

LARGEST_PANEL_PX = 900
DETAIL_PX = 360
GAP_PX, N_COLUMNS = 6, 3
PALETTE = np.array([(48, 18, 59), (65, 105, 225), (30, 200, 190), (160, 240, 60), (250, 180, 40), (220, 60, 10), (122, 4, 3)])


def write_stack(
    folder: Path,
    name: str,
    frames: list[np.ndarray],
    *,
    result: FusionResult,
    pictures: dict[str, np.ndarray | None],
    counted: np.ndarray,
) -> None:
    """Write one picture of the whole, reduced where it is large, and one of the busiest detail in full size.

    In rows of three: ours, the best single image, the pictures of the other programs that are installed, the source index in color
    (dark blue is the first image), the confidence as a gray.
    """
    planes = [pictures["ours"], frames[find_best_frame(frames, counted)], *(fused for key, fused in pictures.items() if key != "ours")]
    panels = [to_color(plane) for plane in planes if plane is not None]
    panels += [paint_index(result.source_index, len(frames)), to_color(np.clip(result.confidence * 255, 0, 255).astype(np.uint8))]
    detail = find_detail(counted)
    factor = -(-max(frames[0].shape[:2]) // LARGEST_PANEL_PX)
    save(folder / f"{name.replace(', ', '_').replace(' ', '_')}.png", [reduce(panel, factor) for panel in panels])
    save(folder / f"{name.replace(', ', '_').replace(' ', '_')}_detail.png", [panel[detail] for panel in panels])


def write_scene(folder: Path, scene: Scene, result: FusionResult) -> None:
    """Write, in rows of three: truth, ours, the true depth, the source index, where it is wrong (white) in texture (gray), confidence."""
    n_images = len(scene.images)
    is_wrong = np.abs(result.source_index.astype(float) - scene.depth) > 1
    errors = np.where(scene.textured, np.where(is_wrong, 255, 70), 0).astype(np.uint8)
    panels = [scene.truth, result.fused, paint_index(scene.depth, n_images), paint_index(result.source_index, n_images), to_color(errors)]
    panels.append(to_color(np.clip(result.confidence * 255, 0, 255).astype(np.uint8)))
    save(folder / f"scene_{scene.name}_{n_images:03d}_{scene.noise.replace(' ', '_')}.png", panels)


def find_best_frame(frames: list[np.ndarray], counted: np.ndarray) -> int:
    """Return the image with the most fine detail where it counts."""
    grays = [to_color(frame).mean(axis=-1) for frame in frames]
    return int(np.argmax([(ndimage.gaussian_laplace(gray, 1.0) ** 2)[counted].sum() for gray in grays]))


def find_detail(counted: np.ndarray) -> tuple[slice, slice]:
    """Return the window in which the most pixels count."""
    side = min(DETAIL_PX, *counted.shape)
    density = ndimage.uniform_filter(counted.astype(np.float32), side, mode="constant")
    row, column = np.unravel_index(int(np.argmax(density)), density.shape)
    top, left = (int(np.clip(middle - side // 2, 0, whole - side)) for middle, whole in zip((row, column), counted.shape, strict=True))
    return slice(top, top + side), slice(left, left + side)


def paint_index(index: np.ndarray, n_images: int) -> np.ndarray:
    place = index.astype(float) / max(n_images - 1, 1) * (len(PALETTE) - 1)
    return np.stack([np.interp(place, np.arange(len(PALETTE)), PALETTE[:, part]) for part in range(3)], axis=-1).astype(np.uint8)


def to_color(plane: np.ndarray) -> np.ndarray:
    return plane if plane.ndim == 3 else np.repeat(plane[..., None], 3, axis=-1)


def reduce(panel: np.ndarray, factor: int) -> np.ndarray:
    """Return the means of square blocks."""
    if factor == 1:
        return panel
    height, width = (side // factor for side in panel.shape[:2])
    blocks = panel[: height * factor, : width * factor].reshape(height, factor, width, factor, 3)
    return blocks.mean(axis=(1, 3)).astype(np.uint8)


def save(path: Path, panels: list[np.ndarray]) -> None:
    """Write panels of one size in rows of three."""
    height, width = (side + GAP_PX for side in panels[0].shape[:2])
    canvas = np.full((-(-len(panels) // N_COLUMNS) * height - GAP_PX, N_COLUMNS * width - GAP_PX, 3), 255, np.uint8)
    for number, panel in enumerate(panels):
        top, left = number // N_COLUMNS * height, number % N_COLUMNS * width
        canvas[top : top + height - GAP_PX, left : left + width - GAP_PX] = panel
    path.parent.mkdir(parents=True, exist_ok=True)
    write_image(path, canvas, overwrite=True)
