"""Training patches from freely licensed color images, the same ones on every machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from qmcif_engine.errors import InvalidImageError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray

TRAINING_IMAGES = ("astronaut", "chelsea", "coffee")
"""Functions of `skimage.data`: public domain (NASA), CC0 (Stefan van der Walt), CC0 (Rachel Michetti).

All three lie inside the scikit-image wheel, which checks them by hash, and are PNG: unlike JPEG, it decodes to the same samples with
every library. A face and a space suit, fur, wood and porcelain: smooth shading, fine texture and sharp edges.
"""

SMALLEST_CONTRAST = 4
"""Patches whose samples deviate less from their mean (root mean square color distance, gray levels of 0-255) teach only noise."""


def load_training_images() -> list[NDArray[np.uint8]]:
    """Read the training images from the installed scikit-image, without network.

    Returns
    -------
    list of ndarray of uint8, shape (H, W, 3)

    Raises
    ------
    MissingExtraError
        If scikit-image is not installed.
    """
    try:
        from skimage import data
    except ImportError as error:
        message = "Learning a dictionary needs scikit-image, which is not installed: run pip install 'napari-qmcif[dictionary]'."
        raise MissingExtraError(message) from error
    return [getattr(data, name)() for name in TRAINING_IMAGES]


def sample_patches(images: Sequence[NDArray[np.uint8]], *, patch_px: int, n_patches: int, generator: np.random.Generator) -> FloatArray:
    """Draw different patches at random, equally many from each image, leaving out the flat ones.

    Parameters
    ----------
    images : sequence of ndarray of uint8, shape (H, W, 3)
    patch_px : int
        Side of a patch in pixels.
    n_patches : int
        A multiple of the number of images, or rounded down to one.
    generator : numpy.random.Generator
        Only the raw stream of its bit generator is used: NumPy promises never to change that, unlike the methods of a generator.

    Returns
    -------
    ndarray of float64, shape (4, d, P)
        Pure quaternions (0, R, G, B) on the 0-255 scale; ``d = patch_px**2`` rows in row-major order.

    Raises
    ------
    InvalidImageError
        If an image has too few patches that are not flat.
    """
    share = n_patches // len(images)
    drawn = []
    for image in images:
        candidates = np.flatnonzero(_has_contrast(image, patch_px=patch_px))
        if len(candidates) < share:
            message = f"A training image has {len(candidates)} textured patches, {share} are needed: ask for fewer patches."
            raise InvalidImageError(message)
        # sorting by random keys draws without repetition; a stable sort settles equal keys
        keys = np.asarray(generator.bit_generator.random_raw(len(candidates)))
        positions = candidates[np.argsort(keys, kind="stable")[:share]]
        # views: only the patches that were drawn are copied
        windows = sliding_window_view(image, (patch_px, patch_px), axis=(0, 1))
        drawn.append(windows[np.unravel_index(positions, windows.shape[:2])])
    colors = np.concatenate(drawn).reshape(-1, 3, patch_px**2).transpose(1, 2, 0)
    return np.concatenate((np.zeros_like(colors[:1]), colors)).astype(np.float64)


def _has_contrast(image: NDArray[np.uint8], *, patch_px: int) -> BoolArray:
    """Return at which positions a patch is not flat; in exact integers, so that no rounding decides."""
    samples = image.astype(np.int64)
    sums, squares = (_sum_windows(planes, patch_px=patch_px) for planes in (samples, samples**2))
    n_pixels = patch_px**2
    # n times the sum of squared deviations, in whole numbers
    deviation: NDArray[np.int64] = (n_pixels * squares - sums**2).sum(axis=2)
    return deviation >= (SMALLEST_CONTRAST * n_pixels) ** 2


def _sum_windows(samples: NDArray[np.int64], *, patch_px: int) -> NDArray[np.int64]:
    """Sum (H, W, 3) over every window that lies inside, giving (H - patch_px + 1, W - patch_px + 1, 3)."""
    rows: NDArray[np.int64] = sliding_window_view(samples, patch_px, axis=0).sum(axis=-1)
    total: NDArray[np.int64] = sliding_window_view(rows, patch_px, axis=1).sum(axis=-1)
    return total
