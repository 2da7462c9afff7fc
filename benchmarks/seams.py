"""Show that tiles leave no seams: compare fusion in tiles with one solve over the whole image.

Run as ``python benchmarks/seams.py`` beside ``../shared``; the table becomes ``benchmarks/results/seams.json``, from which
``python tools/write_figures.py`` writes docs/performance.md. For each set of images: on how many pixels the source index is equal
(least and mean), the step across tile borders minus the step across the same line of the whole-image result (median of the absolute
value, in gray levels), and how many borders lie outside the 1st to 99th percentile of that difference on all other lines.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from result_files import Cell, save_result
from scipy import ndimage

from qmcif_engine import FusionConfig, fuse, make_focus_stack, read_image
from qmcif_engine.comparison.datasets import find_dataset
from qmcif_engine.tiles.plan import plan_tiles

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"
PAIRS = ("lytro", "mffw", "mfi_whu", "nyu_d", "lytro_triple")
STACKS = ("macro_focus_breathing", "pcb_7")
"""Those of more than one tile; the others of that folder are not aligned, or of one tile."""
SMALL_TILE_PX = 208
WHOLE_IMAGE_PX = 16384
COLUMNS = ("images", "tile side", "index equal, least", "mean", "median step at borders", "borders outside")
FORMATS = {"index equal, least": ".5f", "mean": ".5f", "median step at borders": ".4f"}


class Comparison(NamedTuple):
    """How a tiled result compares with the whole-image one."""

    equal_share: float
    border_steps: np.ndarray
    is_outside: np.ndarray


def main() -> None:
    """Print one row per set, and keep all of them."""
    print(" | ".join(COLUMNS))
    rows = []
    for name, tile_px, comparisons in compare_all():
        rows.append(list_cells(name, tile_px, comparisons))
        print(*rows[-1], sep=" | ", flush=True)
    save_result("seams", columns=COLUMNS, rows=rows, formats=FORMATS)


def compare_all() -> Iterator[tuple[str, int, list[Comparison]]]:
    """Compare set by set: pairs in small tiles, stacks and generated scenes as they are by default."""
    for name in PAIRS:
        yield name, SMALL_TILE_PX, [compare(images, SMALL_TILE_PX) for images in read_sets(name)]
    tile_px = FusionConfig().tiling.tile_px
    for name in STACKS:
        images = [read_image(path).samples for path in sorted((SHARED_DATA / "stacks" / name).glob("[0-9]*.jpg"))]
        yield f"stacks/{name}", tile_px, [compare(images, tile_px)]
    yield "smooth, generated", tile_px, [compare(make_smooth_scene(), tile_px)]
    painted = list(make_focus_stack(n_images=3, shape=(1500, 2100), seed=2).images)
    yield "painted, generated", tile_px, [compare(painted, tile_px)]


def read_sets(name: str) -> Iterator[list[np.ndarray]]:
    for images in find_dataset(SHARED_DATA / name).sets:
        yield [read_image(path).samples for path in images.sources]


def make_smooth_scene() -> list[np.ndarray]:
    """Return two images whose focus changes slowly from left to right, with little texture: where a seam would show most."""
    shape = (1500, 2100)
    generator = np.random.default_rng(0)
    sharp = np.stack([ndimage.gaussian_filter(generator.normal(size=shape), 12) for _ in range(3)], axis=-1)
    sharp = 128 + 400 * sharp + 2 * ndimage.gaussian_filter(generator.normal(size=(*shape, 3)), (1, 1, 0))
    blurred = ndimage.gaussian_filter(sharp, (4, 4, 0))
    share = np.linspace(0, 1, shape[1])[None, :, None]
    pair = (share * sharp + (1 - share) * blurred, (1 - share) * sharp + share * blurred)
    return [np.clip(np.rint(image), 0, 255).astype(np.uint8) for image in pair]


def compare(images: list[np.ndarray], tile_px: int) -> Comparison:
    config = FusionConfig().replaced({"tile_px": tile_px})
    tiled, whole = fuse(images, config), fuse(images, config.replaced({"tile_px": WHOLE_IMAGE_PX}))
    plan = plan_tiles(images[0].shape[:2], config)
    steps, is_outside = [], []
    for axis in (0, 1):
        difference = line_steps(tiled.fused, axis) - line_steps(whole.fused, axis)
        borders = sorted({tile.core[axis] for tile in plan} - {0})
        others = np.delete(difference, [border - 1 for border in borders])
        low, high = np.percentile(others, (1, 99))
        at_borders = difference[[border - 1 for border in borders]]
        steps.append(at_borders)
        is_outside.append((at_borders < low) | (at_borders > high))
    return Comparison(float(np.mean(tiled.source_index == whole.source_index)), np.concatenate(steps), np.concatenate(is_outside))


def line_steps(picture: np.ndarray, axis: int) -> np.ndarray:
    """Return the mean absolute difference between neighboring lines."""
    difference = np.abs(np.diff(picture.astype(np.float64), axis=axis))
    return np.moveaxis(difference, axis, 0).reshape(difference.shape[axis], -1).mean(axis=1)


def list_cells(name: str, tile_px: int, comparisons: list[Comparison]) -> list[Cell]:
    """Return the row of one set."""
    shares = [comparison.equal_share for comparison in comparisons]
    steps = np.concatenate([comparison.border_steps for comparison in comparisons])
    outside = np.concatenate([comparison.is_outside for comparison in comparisons])
    counted = f"{outside.sum()} of {outside.size}"
    return [name, tile_px, min(shares), float(np.mean(shares)), float(np.median(np.abs(steps))), counted]


if __name__ == "__main__":
    main()
