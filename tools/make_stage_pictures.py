"""Make the pictures of the stages in docs/method.md, from one generated stack: ``python tools/make_stage_pictures.py``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from qmcif_engine import PRESETS, decompose, fuse, make_focus_stack, write_image
from qmcif_engine.method.focus import detail_focus

FOLDER = Path(__file__).parents[1] / "docs" / "images" / "stages"
GAP_PX = 6
MAP_COLORS = np.array([(68, 1, 84), (33, 145, 140), (253, 231, 37)], np.uint8)
DETAIL_PATCH_PX = 11
LEAST_CONFIDENCE = 0.5
"""Black in the picture."""


def main() -> None:
    """Write one picture per stage."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    images = list(make_focus_stack(n_images=3, shape=(180, 240), seed=1).images)
    config = PRESETS["paper"]
    result, maps = fuse(images), fuse(images, config, with_maps=True)
    layers = [decompose(image, config) for image in images]
    focus = [detail_focus(part.detail, detail_patch_px=DETAIL_PATCH_PX, radius_px=config.method.amplification_radius_px) for part in layers]
    largest = max(float(level.max()) for level in focus)
    pictures = {
        "1_images": images,
        "2_layers": [to_color(layers[1].base), brighten(layers[1].detail), brighten(layers[1].noise)],
        "3_focus": [shade(level / largest) for level in focus],
        "4_maps": [MAP_COLORS[maps.base_map], MAP_COLORS[maps.detail_map]],
        "5_result": [MAP_COLORS[result.source_index], shade((result.confidence - LEAST_CONFIDENCE) / (1 - LEAST_CONFIDENCE)), result.fused],
    }
    for name, parts in pictures.items():
        write_image(FOLDER / f"{name}.png", put_side_by_side(parts), overwrite=True)


def to_color(block: np.ndarray) -> np.ndarray:
    """Return a quaternion block, shape (4, h, w) or (3, h, w), as a color image."""
    return np.clip(np.rint(np.moveaxis(block[-3:], 0, -1)), 0, 255).astype(np.uint8)


def brighten(block: np.ndarray) -> np.ndarray:
    """Return the modulus of a layer, its 99th percentile light gray: most of the noise layer has that value."""
    modulus = np.sqrt((block.astype(np.float64) ** 2).sum(axis=0))
    return shade(0.7 * modulus / max(float(np.percentile(modulus, 99)), 1e-6))


def shade(values: np.ndarray) -> np.ndarray:
    """Return values from 0 to 1 as a gray image of three channels."""
    return np.repeat(np.clip(np.rint(values * 255), 0, 255).astype(np.uint8)[..., None], 3, axis=-1)


def put_side_by_side(parts: list[np.ndarray]) -> np.ndarray:
    """Return images in a row, with a white gap between them."""
    gap = np.full((parts[0].shape[0], GAP_PX, 3), 255, np.uint8)
    row = [piece for part in parts for piece in (part, gap)][:-1]
    return np.concatenate(row, axis=1)


if __name__ == "__main__":
    main()
