"""Make the pictures of the shipped stacks for README and documentation: ``python tools/make_sample_pictures.py``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from qmcif_engine import fuse, open_stack, write_image

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "src" / "napari_qmcif" / "samples"
IMAGES = ROOT / "docs" / "images"
BOARD_SHOWN = (1, 5)
NEURON_SHOWN = (8, 16)
NEURON_LEVELS = (180, 1200)
"""Black and white of the picture, chosen for the dendrites; the soma is brighter."""


def make_board() -> None:
    """Put two photographs and the fused image side by side, at half size."""
    stack = open_stack(SAMPLES / "board" / "board_*.jpg")
    images = np.asarray(stack.to_dask())
    parts = [*images[list(BOARD_SHOWN)], fuse(stack).fused]
    height, width = (side // 2 * 2 for side in parts[0].shape[:2])
    halved = [part[:height, :width].reshape(height // 2, 2, width // 2, 2, 3).mean(axis=(1, 3)) for part in parts]
    write_image(IMAGES / "board.jpg", np.rint(np.concatenate(halved, axis=1)).astype(np.uint8), overwrite=True)


def make_neuron() -> None:
    """Put two planes, the fused image and the maximum along the stack side by side."""
    stack = open_stack(SAMPLES / "neuron" / "neuron.tif")
    planes = np.asarray(stack.to_dask())
    parts = [*planes[list(NEURON_SHOWN)], fuse(stack).fused, planes.max(axis=0)]
    low, high = NEURON_LEVELS
    shades = np.clip((np.concatenate(parts, axis=1).astype(float) - low) / (high - low) * 255, 0, 255)
    write_image(IMAGES / "neuron.png", np.rint(shades).astype(np.uint8), overwrite=True)


if __name__ == "__main__":
    make_board()
    make_neuron()
