"""Generated focus stacks whose depth and sharp truth are known, with the noise of cameras: for the report of ``stacks.py``.

Five scenes of any number of images: a dome and a tilted plane (surfaces without a step), a pyramid of steps, threads and hairs before a
far background, and beads of 3 to 15 px at random depths. Image 0 focuses on the farthest plane. The blur is Gaussian, its standard
deviation grows by 0.7 px for each image of distance between a pixel's depth and the image. On surfaces every pixel takes the texture
blurred by its own distance; the other scenes are layers, each blurred together with its matte and laid over those behind it, so that
blurred things in front spread over sharp things behind, as in a camera. There the image of the true depth is not always the one nearest
to the truth: beside a thread, the blurred thread veils the background in the image that focuses on it. The ``simple`` variants of these
scenes have no such veil: as on surfaces, every pixel takes the sharp scene blurred by its own distance.

Every scene is periodic: what leaves it on one side enters on the other, so no border is special. Equal arguments give equal stacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scene_textures import BRIGHTEST, DARKEST, make_texture, measure_frequencies
from scipy import fft, ndimage

SURFACES = ("dome", "plane")
LAYERED = ("steps", "threads", "beads")
SIMPLE = tuple(f"simple {name}" for name in LAYERED)
SCENES = (*SURFACES, *LAYERED, *SIMPLE)
NOISES = ("none", "gaussian 10", "photons 30", "photons 10")
HOT = "hot pixels"
N_IMAGES = (5, 12, 40, 100)
SHAPE = (320, 320)
BLUR_AN_IMAGE_PX = 0.7
HOT_SHARE = 2e-4
LEAST_HOT = 250
"""Gray level from which a pixel counts as hot; the scenes stay below ``BRIGHTEST``."""

TEXTURE_WINDOW_PX, LEAST_TEXTURE = 9, 3.0
SMALLEST_KEPT_BEAD_PX, LEAST_BEAD_CONTRAST = 5.0, 0.7
N_STEPS, N_THREADS, N_HAIRS, N_BEAD_PLANES, N_BEADS = 4, 2, 3, 12, 30
LUMA = np.array([0.299, 0.587, 0.114], np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Bead:
    """One bead: its place, its size, and what would be seen of the sharp scene without it.

    Attributes
    ----------
    center : tuple of float
        Row and column.
    diameter_px : float
    depth : float
        In images.
    box : tuple of slice
        The rows and columns around its disc.
    disc : ndarray of bool, shape (h, w)
        Within the box.
    without : ndarray of float32, shape (h, w, 3)
        The sharp scene in the box, had the bead been left out.
    """

    center: tuple[float, float]
    diameter_px: float
    depth: float
    box: tuple[slice, slice]
    disc: np.ndarray
    without: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """A generated focus stack with everything that is known about it.

    Attributes
    ----------
    name, noise : str
    images : ndarray of uint8, shape (N, H, W, 3)
    truth : ndarray of uint8, shape (H, W, 3)
        Everything in focus, without noise.
    depth : ndarray of float32, shape (H, W)
        In images: that of the front-most layer that covers more than half of the pixel.
    textured : ndarray of bool, shape (H, W)
        Where the standard deviation of the truth's gray values over 9 px exceeds 3 levels.
    beads : tuple of Bead
    """

    name: str
    noise: str
    images: np.ndarray
    truth: np.ndarray
    depth: np.ndarray
    textured: np.ndarray
    beads: tuple[Bead, ...]


class Layer(NamedTuple):
    """One plane of a scene: colors (3, H, W) already multiplied by the matte, the matte (H, W), and the depth in images."""

    color: np.ndarray
    matte: np.ndarray
    depth: float


class CleanStack(NamedTuple):
    """A stack before noise, on the 0-255 scale: images (N, 3, H, W), truth (3, H, W), depth (H, W) and beads."""

    images: np.ndarray
    truth: np.ndarray
    depth: np.ndarray
    beads: tuple[Bead, ...]


def make_scene(name: str, n_images: int, *, noise: str = "none", seed: int = 0, shape: tuple[int, int] = SHAPE) -> Scene:
    """Make one scene.

    Parameters
    ----------
    name : str
        One of `SCENES`.
    n_images : int
    noise : str, optional
        One of `NOISES`, or `HOT`: white pixels at places of their own in every image.
    seed : int, optional
        Of the scene and of the noise.
    shape : tuple of int, optional
        Height and width.

    Returns
    -------
    Scene
    """
    clean = photograph(name, n_images, seed=seed, shape=shape)
    generator = np.random.default_rng((seed, n_images, (*NOISES, HOT).index(noise)))
    truth = to_samples(clean.truth)
    images = np.stack([to_samples(add_noise(image, noise, generator=generator)) for image in clean.images])
    if noise == HOT:
        images[generator.random(images.shape[:3]) < HOT_SHARE] = 255
    return Scene(name, noise, images, truth, clean.depth, find_texture(truth), clean.beads)


def add_noise(image: np.ndarray, noise: str, *, generator: np.random.Generator) -> np.ndarray:
    """Return an image of the 0-255 scale as a camera with this noise records it."""
    kind, _, level = noise.partition(" ")
    if kind == "gaussian":
        return image + generator.normal(0, float(level), image.shape)
    if kind == "photons":
        return generator.poisson(image * (float(level) / 255)) * (255 / float(level))
    return image


def to_samples(planes: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(np.clip(np.rint(planes), 0, 255).astype(np.uint8), 0, -1))


def find_texture(truth: np.ndarray) -> np.ndarray:
    gray = truth.astype(np.float64) @ LUMA
    mean = ndimage.uniform_filter(gray, TEXTURE_WINDOW_PX)
    return ndimage.uniform_filter(gray**2, TEXTURE_WINDOW_PX) - mean**2 > LEAST_TEXTURE**2


def find_right(scene: Scene, source_index: np.ndarray) -> np.ndarray:
    """Return where the chosen image is within one image of the true depth, (H, W)."""
    return np.abs(source_index.astype(np.float64) - scene.depth) <= 1


def measure_right_share(scene: Scene, source_index: np.ndarray) -> float:
    """Return the share of the textured pixels whose chosen image is within one image of the true depth."""
    return float(find_right(scene, source_index)[scene.textured].mean())


def find_nearest_to_truth(scene: Scene) -> np.ndarray:
    """Return which image is nearest to the truth around each pixel (Gaussian, 0.5 px), (H, W): what one who knows it would choose."""
    truth = scene.truth.astype(np.float32)
    nearest, least = np.zeros(scene.depth.shape, np.uint16), np.full(scene.depth.shape, np.inf, np.float32)
    for number, image in enumerate(scene.images):
        error = ndimage.gaussian_filter(((image - truth) ** 2).sum(axis=-1), 0.5)
        nearest[error < least] = number
        least = np.minimum(least, error)
    return nearest


def measure_bead_contrast(scene: Scene, bead: Bead, fused: np.ndarray) -> float:
    """Return the share of a bead's contrast against what lies behind it that the fused image has.

    The least-squares factor of the bead's difference from what would be seen without it, over the pixels of its disc and all channels:
    about 1 where the sharp bead is shown, about 0 where it was left out or is blurred away; noise averages out.
    """
    own = (scene.truth[bead.box].astype(np.float64) - bead.without)[bead.disc]
    shown = (fused[bead.box].astype(np.float64) - bead.without)[bead.disc]
    return float((own * shown).sum() / (own**2).sum())


def find_kept_beads(scene: Scene, fused: np.ndarray) -> list[bool]:
    """Return for each bead of at least 5 px whether the fused image shows at least 0.7 of its contrast."""
    beads = [bead for bead in scene.beads if bead.diameter_px >= SMALLEST_KEPT_BEAD_PX]
    return [measure_bead_contrast(scene, bead, fused) >= LEAST_BEAD_CONTRAST for bead in beads]


def measure_hot_share(image: np.ndarray) -> float:
    """Return the share of white pixels, of which the scenes have none of their own."""
    return float((image.min(axis=-1) >= LEAST_HOT).mean())


@lru_cache(maxsize=1)
def photograph(name: str, n_images: int, *, seed: int, shape: tuple[int, int]) -> CleanStack:
    """Return a scene without noise; the last one is kept, so that its noises cost little."""
    kind = name.removeprefix("simple ")
    generator = np.random.default_rng((seed, SCENES.index(kind)))
    if kind in SURFACES:
        return photograph_surface(make_texture(generator, shape), {"dome": make_dome, "plane": make_plane}[kind](n_images, shape), n_images)
    layers, beads = {"steps": make_steps, "threads": make_threads, "beads": make_beads}[kind](generator, n_images, shape)
    if name == kind:
        return photograph_layers(layers, n_images)._replace(beads=beads)
    return photograph_surface(*flatten(layers), n_images)._replace(beads=beads)


# --- surfaces --------------------------------------------------------------------------------------------------------------------


def make_dome(n_images: int, shape: tuple[int, int]) -> np.ndarray:
    rows, columns = (np.linspace(-1, 1, side) for side in shape)
    return ((n_images - 1) * (1 - (rows[:, None] ** 2 + columns[None] ** 2) / 2)).astype(np.float32)


def make_plane(n_images: int, shape: tuple[int, int]) -> np.ndarray:
    ramp = np.linspace(0, 0.4, shape[0])[:, None] + np.linspace(0, 1, shape[1])[None]
    return ((n_images - 1) * ramp / ramp.max()).astype(np.float32)


def photograph_surface(texture: np.ndarray, depth: np.ndarray, n_images: int) -> CleanStack:
    """Return the images of a surface: every pixel lies between two of a ladder of blurred textures, by its distance from the focus."""
    largest_px = BLUR_AN_IMAGE_PX * n_images
    ladder_px = np.concatenate([np.arange(0, 4, 0.1), np.geomspace(4, max(largest_px, 4.1), 40)])
    spectra = fft.rfft2(texture)
    ladder = np.stack([blur(spectra, sigma_px, shape=depth.shape) for sigma_px in ladder_px])
    rows, columns = np.indices(depth.shape)
    images = []
    for number in range(n_images):
        sigma_px = BLUR_AN_IMAGE_PX * np.abs(depth - number)
        below = np.searchsorted(ladder_px, sigma_px, side="right") - 1
        share = ((sigma_px - ladder_px[below]) / (ladder_px[below + 1] - ladder_px[below]))[..., None]
        image = (1 - share) * ladder[below, :, rows, columns] + share * ladder[below + 1, :, rows, columns]
        images.append(np.moveaxis(image, -1, 0).astype(np.float32))
    return CleanStack(np.stack(images), texture, depth, ())


def blur(spectra: np.ndarray, sigma_px: float, *, shape: tuple[int, int]) -> np.ndarray:
    """Return planes, given by their Fourier transforms, blurred by a Gaussian; they are periodic."""
    transfer = np.exp(-2 * (np.pi * sigma_px * measure_frequencies(shape)) ** 2).astype(np.float32)
    return fft.irfft2(spectra * transfer, s=shape)


# --- layers ----------------------------------------------------------------------------------------------------------------------


def flatten(layers: list[Layer]) -> tuple[np.ndarray, np.ndarray]:
    """Return the sharp scene, (3, H, W), and its depth, (H, W), of layers given from back to front."""
    truth, depth = layers[0].color, np.full(layers[0].matte.shape, layers[0].depth, np.float32)
    for layer in layers[1:]:
        truth = truth * (1 - layer.matte) + layer.color
        depth[layer.matte > 0.5] = layer.depth
    return truth, depth


def photograph_layers(layers: list[Layer], n_images: int) -> CleanStack:
    """Return the images of layers given from back to front, each blurred with its matte and laid over those behind it."""
    shape = layers[0].matte.shape
    images = np.zeros((n_images, 3, *shape), np.float32)
    for layer in layers:
        spectra = fft.rfft2(np.concatenate([layer.color, layer.matte[None]]))
        for number in range(n_images):
            blurred = blur(spectra, BLUR_AN_IMAGE_PX * abs(layer.depth - number), shape=shape)
            images[number] = images[number] * (1 - np.clip(blurred[3], 0, 1)) + blurred[:3]
    return CleanStack(images, *flatten(layers), ())


def make_steps(generator: np.random.Generator, n_images: int, shape: tuple[int, int]) -> tuple[list[Layer], tuple[Bead, ...]]:
    """Return a pyramid of turned boards, each smaller and nearer than the one below it."""
    rows, columns = np.indices(shape, np.float32)
    layers = [make_ground(generator, shape)]
    n_steps = min(N_STEPS, n_images)
    for number in range(1, n_steps):
        half = 0.5 * (1 - number / n_steps) * np.array(shape)
        angle, center = generator.uniform(-0.15, 0.15), (0.5 + generator.uniform(-0.02, 0.02, 2)) * shape
        down, right = rows - center[0], columns - center[1]
        across, along = down * np.cos(angle) - right * np.sin(angle), right * np.cos(angle) + down * np.sin(angle)
        matte = np.clip(np.minimum(half[0] - np.abs(across), half[1] - np.abs(along)) + 0.5, 0, 1).astype(np.float32)
        depth = round(number * (n_images - 1) / (n_steps - 1))
        layers.append(Layer(make_texture(generator, shape) * matte, matte, float(depth)))
    return layers, ()


def make_ground(generator: np.random.Generator, shape: tuple[int, int]) -> Layer:
    return Layer(make_texture(generator, shape), np.ones(shape, np.float32), 0.0)


def make_threads(generator: np.random.Generator, n_images: int, shape: tuple[int, int]) -> tuple[list[Layer], tuple[Bead, ...]]:
    """Return two twisted threads, 4 to 6 px wide, and three hairs, 1.5 to 2.5 px wide, the last one short, before a far ground."""
    layers = []
    rows, columns = np.indices(shape, np.float32)
    depths = generator.permutation(np.linspace(0.4, 1, N_THREADS + N_HAIRS)) * (n_images - 1)
    for number, depth in enumerate(depths):
        is_hair = number >= N_THREADS
        width_px = generator.uniform(1.5, 2.5) if is_hair else generator.uniform(4, 6)
        slope, bend = generator.uniform(-0.4, 0.4), generator.uniform(-0.06, 0.06) * shape[1]
        down, right = (rows, columns) if number % 2 else (columns, rows)
        middle = (
            (number + 0.5) / (N_THREADS + N_HAIRS) * shape[1] + slope * (down - shape[0] / 2) + bend * np.sin(2 * np.pi * down / shape[0])
        )
        distance = (right - middle + shape[1] / 2) % shape[1] - shape[1] / 2
        matte = np.clip(width_px / 2 + 0.5 - np.abs(distance) / np.hypot(1, slope), 0, 1)
        if number == N_THREADS + N_HAIRS - 1:
            matte *= np.clip(0.2 * shape[0] + 0.5 - np.abs(down - generator.uniform(0.3, 0.7) * shape[0]), 0, 1)
        tone = generator.uniform(15, 60, 3) if number % 3 else generator.uniform(190, 235, 3)
        twist = 0 if is_hair else 35 * np.cos(2 * np.pi * (down + 0.8 * distance) / 7)
        color = np.clip(tone[:, None, None] + twist, DARKEST, BRIGHTEST)
        layers.append(Layer((color * matte).astype(np.float32), matte.astype(np.float32), float(depth)))
    layers.sort(key=lambda layer: layer.depth)
    return [make_ground(generator, shape), *layers], ()


def make_beads(generator: np.random.Generator, n_images: int, shape: tuple[int, int]) -> tuple[list[Layer], tuple[Bead, ...]]:
    """Return beads of 3 to 15 px that do not overlap, in planes at random depths before a far ground."""
    ground = make_ground(generator, shape)
    depths = np.sort(generator.uniform(0.3, 1.0, N_BEAD_PLANES)) * (n_images - 1)
    places = place_beads(generator, shape)
    planes = [[np.zeros((3, *shape), np.float32), np.zeros(shape, np.float32)] for _ in depths]
    beads = []
    for number, (row, column, diameter_px) in enumerate(places):
        plane = number % N_BEAD_PLANES
        reach = int(np.ceil(diameter_px / 2)) + 2
        box = (slice(int(row) - reach, int(row) + reach + 1), slice(int(column) - reach, int(column) + reach + 1))
        color, matte = paint_bead(generator, box, (row, column, diameter_px), behind=ground.color[:, *box])
        planes[plane][0][:, *box] += color * matte
        planes[plane][1][box] += matte
        without = np.moveaxis(ground.color[:, *box], 0, -1)
        beads.append(Bead((row, column), diameter_px, float(depths[plane]), box, matte > 0.5, without))
    layers = [ground, *(Layer(color, matte, float(depth)) for (color, matte), depth in zip(planes, depths, strict=True))]
    return layers, tuple(beads)


def place_beads(generator: np.random.Generator, shape: tuple[int, int]) -> list[tuple[float, float, float]]:
    """Return rows, columns and diameters of beads that stay apart from one another and from the border; as many as fit, up to 30."""
    places: list[tuple[float, float, float]] = []
    for _ in range(40 * N_BEADS):
        diameter_px = float(generator.uniform(3, 15))
        row, column = (float(generator.uniform(14, side - 15)) for side in shape)
        is_apart = all(np.hypot(row - y, column - x) > (diameter_px + other) / 2 + 8 for y, x, other in places)
        if is_apart and len(places) < N_BEADS:
            places.append((row, column, diameter_px))
    return places


def paint_bead(
    generator: np.random.Generator, box: tuple[slice, slice], place: tuple[float, float, float], *, behind: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return colors (3, h, w) of a lit ball that stands out from what is behind it, and its matte (h, w)."""
    rows, columns = np.mgrid[box]
    row, column, diameter_px = place
    radius = np.hypot(rows - row, columns - column)
    relative = np.clip(radius / (diameter_px / 2), 0, 1)
    light = 0.55 + 0.45 * np.sqrt(1 - relative**2) * np.clip(1 - (rows - row + columns - column) / (1.6 * diameter_px), 0, 1)
    tone = generator.uniform(200, 255, 3) if behind.mean() < 128 else generator.uniform(20, 80, 3)
    glint = 90 * np.exp(-((np.hypot(rows - row + diameter_px / 6, columns - column + diameter_px / 6) / (diameter_px / 8)) ** 2))
    color = np.clip(tone[:, None, None] * light + glint, DARKEST, BRIGHTEST)
    return color.astype(np.float32), np.clip(diameter_px / 2 - radius + 0.5, 0, 1).astype(np.float32)
