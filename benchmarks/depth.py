"""Measure heights against scenes whose depth is known, and what the settings for see-through scenes change.

Run as ``python benchmarks/depth.py``; ``--save`` keeps both tables as ``benchmarks/results/heights.json`` and ``see_through.json``, from
which ``python tools/write_figures.py`` writes docs/how-to/heights.md, and ``--pictures docs/images`` writes the pictures of that page.

Scenes are rendered with a disc of confusion that grows with the distance from the focus, and with noise. Errors are in z steps, over the
pixels that have texture: those where the gradient of the sharp picture, averaged over 9 x 9 pixels, exceeds 2 gray levels.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
from result_files import Cell, save_result
from scipy import fft, ndimage

from qmcif_engine import FusionConfig, fuse, write_image
from qmcif_engine.depth import height_map

SHAPE = (320, 400)
N_IMAGES = 12
BLUR_A_STEP_PX = 1.0
SHALLOW_BLUR_PX = 0.6
"""Of the see-through scene, where a background out of focus still has some texture."""

NOISE = 2.0
SMOOTHINGS_PX = (0, 4)
LEAST_TEXTURE = 2.0
FOREGROUND, BACKGROUND = 1, 6
HEIGHT_COLUMNS = ("scene", "heights", "within half a step", "95th percentile", "median")
PREFERENCE_COLUMNS = ("setting", "hairs from the front", "background from the back", "PSNR near hairs")
CROP = (slice(0, 160), slice(124, 304))


class Scene(NamedTuple):
    """Images, true depth in images, and the sharp image."""

    images: list[np.ndarray]
    depth: np.ndarray
    truth: np.ndarray


def main() -> None:
    """Print the tables, and write the pictures where asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--save", action="store_true", help="keep the tables for the documentation")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="write the pictures there")
    options = parser.parse_args()
    heights: list[list[Cell]] = []
    for steepness, name in ((1.0, "fine"), (1.5, "coarse")):
        heights += measure_errors(f"tilted plane, {name} texture", make_tilted_plane(steepness=steepness))
        heights += measure_errors(f"steps, {name} texture", make_steps(steepness=steepness))
    preferences, pictures = measure_preferences()
    for name, columns, rows in (("heights", HEIGHT_COLUMNS, heights), ("see_through", PREFERENCE_COLUMNS, preferences)):
        print(*(" | ".join(map(str, cells)) for cells in (columns, *rows)), sep="\n", flush=True)
        if options.save:
            save_result(name, columns=columns, rows=rows)
    if options.pictures is not None:
        write_pictures(options.pictures, pictures)


def make_texture(seed: int, *, steepness: float, contrast: float = 0.13) -> np.ndarray:
    """Return a picture (H, W, 3) with texture at every scale, its amplitude falling with the given power of the frequency."""
    frequency = np.hypot(fft.fftfreq(SHAPE[0])[:, None], fft.rfftfreq(SHAPE[1])[None])
    frequency[0, 0] = np.inf
    band = frequency**-steepness * np.exp(-((frequency / 0.42) ** 4))
    noise = np.random.default_rng(seed).standard_normal((4, *SHAPE))
    planes = fft.irfft2(fft.rfft2(noise) * band, s=SHAPE)
    planes /= planes.std()
    return 0.5 + contrast * np.moveaxis(0.7 * planes[:1] + 0.4 * planes[1:], 0, -1)


def blur(planes: np.ndarray, radius_px: float) -> np.ndarray:
    """Return (H, W, C) planes seen through a disc of this radius; the scene is periodic."""
    if radius_px < 0.25:
        return planes
    rows, columns = (fft.fftfreq(side, 1 / side) for side in SHAPE)
    disc = np.clip(radius_px + 0.5 - np.hypot(rows[:, None], columns[None]), 0, 1)
    spectrum = fft.rfft2(planes, axes=(0, 1)) * fft.rfft2(disc / disc.sum())[..., None]
    return fft.irfft2(spectrum, s=SHAPE, axes=(0, 1))


def to_samples(picture: np.ndarray, generator: np.random.Generator | None = None) -> np.ndarray:
    noise = 0 if generator is None else generator.normal(0, NOISE, picture.shape)
    return np.clip(np.rint(255 * picture + noise), 0, 255).astype(np.uint8)


def make_tilted_plane(*, steepness: float, seed: int = 0) -> Scene:
    """Return a plane that rises from left to right through the whole stack; blur changes from column to column."""
    sharp = make_texture(seed, steepness=steepness)
    depth = np.linspace(0.5, N_IMAGES - 1.5, SHAPE[1])[None] * np.ones(SHAPE)
    spacing = 0.25
    blurred = [blur(sharp, spacing * number) for number in range(int(N_IMAGES * BLUR_A_STEP_PX / spacing) + 2)]
    generator = np.random.default_rng(seed + 1)
    images = []
    for focus in range(N_IMAGES):
        place = np.abs(depth[0] - focus) * BLUR_A_STEP_PX / spacing
        image = np.empty_like(sharp)
        for column, (below, share) in enumerate(zip(place.astype(int), place % 1, strict=True)):
            image[:, column] = (1 - share) * blurred[below][:, column] + share * blurred[below + 1][:, column]
        images.append(to_samples(image, generator))
    return Scene(images, depth, to_samples(sharp))


def photograph(
    layers: list[tuple[np.ndarray, np.ndarray, float]], n_images: int, *, seed: int, blur_px: float = BLUR_A_STEP_PX
) -> list[np.ndarray]:
    """Return the images of layers (color, matte, depth) from back to front: a blurred layer in front spreads over those behind."""
    generator = np.random.default_rng(seed)
    images = []
    for focus in range(n_images):
        image = np.zeros((*SHAPE, 3))
        for color, matte, depth in layers:
            radius_px = blur_px * abs(depth - focus)
            image = image * (1 - blur(matte[..., None], radius_px)) + blur(color * matte[..., None], radius_px)
        images.append(to_samples(image, generator))
    return images


def make_steps(*, steepness: float, seed: int = 3) -> Scene:
    """Return three boards at different depths before a ground."""
    rows, columns = np.mgrid[: SHAPE[0], : SHAPE[1]]
    ground = make_texture(seed, steepness=steepness)
    layers = [(ground, np.ones(SHAPE), 1.3)]
    depth, truth = np.full(SHAPE, 1.3), ground.copy()
    for number, board in enumerate((4.6, 8.2, 9.4)):
        is_board = (np.abs(rows - SHAPE[0] * (0.3 + 0.2 * number)) < 60) & (np.abs(columns - SHAPE[1] * (0.2 + 0.3 * number)) < 50)
        color = make_texture(seed + 1 + number, steepness=steepness)
        layers.append((color, is_board.astype(float), board))
        depth[is_board], truth[is_board] = board, color[is_board]
    return Scene(photograph(layers, N_IMAGES, seed=seed), depth, to_samples(truth))


def make_hairs(seed: int = 5) -> tuple[Scene, np.ndarray]:
    """Return long and short hairs before a textured background, and which pixels are hair."""
    generator = np.random.default_rng(seed)
    rows, columns = np.mgrid[: SHAPE[0], : SHAPE[1]].astype(float)
    matte = np.zeros(SHAPE)
    for number in range(12):
        top = 0.0 if number < 5 else generator.uniform(0, SHAPE[0] - 60)
        bottom = SHAPE[0] if number < 5 else top + 60
        slope = generator.uniform(-0.5, 0.5)
        middle = generator.uniform(0.05, 0.95) * SHAPE[1] + slope * (rows - SHAPE[0] / 2) + generator.uniform(-1, 1) * (rows / 40) ** 2
        is_beside = (rows >= top) & (rows < bottom)
        matte = np.maximum(matte, 0.9 * is_beside * np.clip(1.7 - np.abs(columns - middle) / np.hypot(1, slope), 0, 1))
    background = make_texture(seed, steepness=1.1)
    hair = np.ones((*SHAPE, 3)) * (0.12, 0.08, 0.05)
    layers = [(background, np.ones(SHAPE), float(BACKGROUND)), (hair, matte, float(FOREGROUND))]
    truth = background * (1 - matte[..., None]) + hair * matte[..., None]
    depth = np.where(matte > 0.5, FOREGROUND, BACKGROUND).astype(float)
    return Scene(photograph(layers, BACKGROUND + 2, seed=seed, blur_px=SHALLOW_BLUR_PX), depth, to_samples(truth)), matte > 0.5


def find_texture(truth: np.ndarray) -> np.ndarray:
    gray = truth.mean(axis=-1)
    return ndimage.uniform_filter(np.hypot(*np.gradient(gray)), 9) > LEAST_TEXTURE


def measure_errors(name: str, scene: Scene) -> list[list[Cell]]:
    """Return a row for each kind of heights of one scene."""
    is_textured = find_texture(scene.truth)
    result = fuse(scene.images, with_position=True)
    heights = {"whole images": result.source_index.astype(float)}
    for smoothing in SMOOTHINGS_PX:
        label = "between images" if smoothing == 0 else f"smoothed, {smoothing} px"
        heights[label] = height_map(
            result.position, z_step=1, confidence=result.confidence, guide=result.fused, smoothing_px=smoothing
        ).height
    rows: list[list[Cell]] = []
    for label, height in heights.items():
        error = np.abs(height - scene.depth)[is_textured]
        rows.append([name, label, f"{np.mean(error <= 0.5):.2%}", f"{np.percentile(error, 95):.2f}", f"{np.median(error):.2f}"])
    return rows


def measure_preferences() -> tuple[list[list[Cell]], dict[str, np.ndarray]]:
    """Return how each setting treats the hairs, and the fused pictures."""
    scene, is_hair = make_hairs()
    is_near = ndimage.binary_dilation(is_hair, iterations=6)
    changes = {
        "default": {},
        "smoothness=0": {"smoothness": 0.0},
        "preference=front": {"preference": "front"},
        "preference=back": {"preference": "back"},
    }
    pictures = {"focus on the hairs": scene.images[FOREGROUND], "focus on the background": scene.images[BACKGROUND]}
    rows: list[list[Cell]] = []
    for name, change in changes.items():
        result = fuse(scene.images, FusionConfig().replaced(change))
        index = result.source_index.astype(int)
        front, back = np.abs(index[is_hair] - FOREGROUND) <= 1, np.abs(index[~is_near] - BACKGROUND) <= 1
        error = np.mean((result.fused[is_near].astype(float) - scene.truth[is_near]) ** 2)
        rows.append([name, f"{front.mean():.1%}", f"{back.mean():.1%}", f"{10 * np.log10(255**2 / error):.1f} dB"])
        pictures[name] = result.fused
    return rows, pictures


def write_pictures(folder: Path, pictures: dict[str, np.ndarray]) -> None:
    """Write the see-through pictures side by side, and the height map of the steps as grays."""
    names = ("focus on the hairs", "focus on the background", "default", "preference=front")
    row = np.concatenate([np.repeat(np.repeat(pictures[name][CROP], 2, 0), 2, 1) for name in names], axis=1)
    write_image(folder / "depth-see-through.png", row, overwrite=True)
    scene = make_steps(steepness=1.0)
    result = fuse(scene.images, with_position=True)
    heights = height_map(result.position, z_step=1, confidence=result.confidence, guide=result.fused, smoothing_px=4).height
    grays = [np.repeat(to_samples(plane / N_IMAGES)[..., None], 3, -1) for plane in (result.source_index, heights, scene.depth)]
    write_image(folder / "depth-steps.png", np.concatenate([result.fused, *grays], axis=1), overwrite=True)


if __name__ == "__main__":
    main()
