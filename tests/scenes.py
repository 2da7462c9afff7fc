"""Small scenes and stand-ins that several files of tests use."""

from __future__ import annotations

from functools import partial
from string import ascii_lowercase

import numpy as np
from scipy import ndimage

from qmcif_engine.io.output.formats import write_image
from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.stack.synthetic import make_focus_stack
from qmcif_engine.stack.window import Window

SINGLE_EPS = float(np.finfo(np.float32).eps)


def texture(shape, *, seed=0, sigma=0.8, contrast=30.0, level=120.0):
    """Texture on the 0-255 scale, float32, sharp to about a pixel."""
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).normal(size=shape), sigma)
    return np.clip(level + contrast * noise / max(noise.std(), 1e-9), 0, 255).astype(np.float32)


def quantized(images, dtype="uint8"):
    """Images on the 0-255 scale as samples of a type."""
    planes = np.asarray(images)
    if np.dtype(dtype).kind == "f":
        return (planes / 255).astype(dtype)
    scale = np.iinfo(dtype).max / 255
    return np.clip(np.rint(planes * scale), 0, np.iinfo(dtype).max).astype(dtype)


def stack_of_bands(n_images, shape, *, seed=0, blur=2.0, noise=0.0, contrast=30.0):
    """Gray images on the 0-255 scale, each sharp in one vertical band, and which one is sharp, shape (h, w)."""
    sharp = texture(shape, seed=seed, contrast=contrast)
    depth = np.broadcast_to(np.arange(shape[1]) * n_images // shape[1], shape)
    width = blur if n_images == 2 else blur / 2
    blurred = np.stack([sharp, *(ndimage.gaussian_filter(sharp, width * step) for step in range(1, n_images))])
    images = np.stack([np.take_along_axis(blurred, np.abs(depth - number)[None], 0)[0] for number in range(n_images)])
    return images + noise * np.random.default_rng(seed + 1).normal(size=images.shape), depth


def reach_of_change(function, planes, place):
    """How far from the place of one changed sample, along rows or columns, results differ; planes have the shape (..., h, w).

    The function returns an array, shape (..., h, w).
    """
    changed = planes.copy()
    changed[..., place[0], place[1]] += 40
    differs = function(planes) != function(changed)
    differs = differs.any(axis=tuple(range(differs.ndim - 2)))
    return np.abs(np.argwhere(differs) - place).max(initial=0)


def centered_windows(plane, side_px):
    """The window around each pixel of a plane that continues by reflection, shape (h, w, side, side)."""
    padded = np.pad(plane, side_px // 2, mode="symmetric")
    return np.lib.stride_tricks.sliding_window_view(padded, (side_px, side_px))


class ReadLog:
    """Reads windows of arrays and notes which; fails after so many reads."""

    def __init__(self, images, *, fail_after=10**9):
        self.images, self.fail_after, self.places = list(images), fail_after, []

    def __call__(self, number, window):
        self.places.append((number, window))
        if len(self.places) > self.fail_after:
            msg = "lost the disk"
            raise OSError(msg)
        return self.images[number][window.slices]


def logged_stack(images, **options):
    """Arrays as a stack whose `read` is a `ReadLog`."""
    log = ReadLog(images, **options)
    return stack_arrays(log.images).replaced(read=log)


def lacking_stack(images, n_missing, **attributes):
    """Arrays as a stack in which each image lacks so many of the left columns."""
    return stack_arrays(list(images)).replaced(find_valid=partial(_has_columns, tuple(n_missing)), **attributes)


def _has_columns(n_missing, number, window):
    return np.broadcast_to(np.arange(window.left, window.right) >= n_missing[number], window.shape)


class ArrayPlanes:
    """Images, shape (N, c, h, w) on the 0-255 scale, as rules are given them; masks of what each may give, shape (N, h, w), or None."""

    def __init__(self, images, *, masks=None, highest=None):
        self._images, self._masks = np.asarray(images, np.float32), masks
        self.n_images, self.n_planes = self._images.shape[:2]
        self.image_shape = self._images.shape[2:]
        self.window = Window.whole(self.image_shape)
        self.highest = highest

    def block(self, image, part=None):
        return self._images[image] if part is None else self._images[image][:, *part.slices]

    def choosable(self, image, part=None):
        if self._masks is None:
            return None
        return self._masks[image] if part is None else self._masks[image][part.slices]

    def has_clipped(self):
        return self.highest is not None and bool((self._images >= self.highest * 254 / 255).any())


def write_set(folder, name, *, n_images=2, shape=(48, 64), has_truth=True, seed=1):
    """Write one scene as `qmcif benchmark` takes it: NAME_a.png, NAME_b.png, … and NAME_truth.png."""
    stack = make_focus_stack(n_images=n_images, shape=shape, seed=seed)
    names = [*ascii_lowercase[:n_images], *(["truth"] if has_truth else [])]
    for role, image in zip(names, [*stack.images, stack.truth], strict=False):
        write_image(folder / f"{name}_{role}.png", image, overwrite=True)
