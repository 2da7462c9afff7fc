"""Make the real sample stacks of the plugin from the development images: reduced copies, small enough to ship.

Run as ``python tools/make_samples.py`` beside ``../shared``; the origin and license of each stack are in the folder that it writes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tifffile

from qmcif_engine import Stack, Window, open_stack, prepare_stack, write_image

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
SAMPLES = ROOT / "src" / "napari_qmcif" / "samples"
PLANE_STEP = 2
STEPS = 8
"""The floats are multiples of an eighth: times eight, they are whole numbers without a loss."""
REDUCTION = 2


def make_neuron() -> Path:
    """Keep every second plane of the confocal neuron, as 16-bit samples of the same steps."""
    planes = tifffile.imread(DATA / "microscopy" / "neuron_confocal_float32.tif")[::PLANE_STEP]
    path = SAMPLES / "neuron" / "neuron.tif"
    samples = np.rint(planes * STEPS).astype(np.uint16)
    tifffile.imwrite(path, samples, imagej=False, metadata={"axes": "ZYX"}, compression="zlib", predictor=2, photometric="minisblack")
    return path


def make_board() -> list[Path]:
    """Align the circuit board, keep what all images show, and halve its size."""
    paths = []
    with open_stack(DATA / "stacks" / "pcb_7") as stack:
        aligned = prepare_stack(stack, align="similarity")
        top, left, bottom, right = find_common_area(aligned)
        for number in range(aligned.n_images):
            image = aligned.read(number, Window(top, left, bottom, right))
            height, width = (side // REDUCTION * REDUCTION for side in image.shape[:2])
            blocks = image[:height, :width].reshape(height // REDUCTION, REDUCTION, width // REDUCTION, REDUCTION, 3)
            paths.append(SAMPLES / "board" / f"board_{number + 1}.jpg")
            write_image(paths[-1], np.rint(blocks.mean(axis=(1, 3))).astype(np.uint8), overwrite=True)
    return paths


def find_common_area(stack: Stack) -> tuple[int, int, int, int]:
    """Return a rectangle that every image has whole, found by cutting off rows and columns with missing pixels."""
    whole = Window(0, 0, *stack.image_shape[:2])
    is_valid = np.logical_and.reduce([stack.valid(number, whole) for number in range(stack.n_images)])
    top, left, bottom, right = 0, 0, *is_valid.shape
    while not (part := is_valid[top:bottom, left:right]).all():
        missing = {"top": ~part[0], "bottom": ~part[-1], "left": ~part[:, 0], "right": ~part[:, -1]}
        worst = max(missing, key=lambda side: missing[side].mean())
        top, bottom = top + (worst == "top"), bottom - (worst == "bottom")
        left, right = left + (worst == "left"), right - (worst == "right")
    return top, left, bottom, right


if __name__ == "__main__":
    for name in ("neuron", "board"):
        (SAMPLES / name).mkdir(parents=True, exist_ok=True)
    for written in (make_neuron(), *make_board()):
        print(f"{written.relative_to(ROOT)}: {written.stat().st_size / 1e3:.0f} kB")
