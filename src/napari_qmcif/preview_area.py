"""The part of an image to preview: what the viewer shows, or a drawn rectangle."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from napari.layers import Layer
from numpy.typing import NDArray

from napari_qmcif.chosen_stack import ChosenStack
from qmcif_engine import InvalidImageError, Window

LARGEST_PREVIEW_PX = 2**20
"""A preview that takes longer than a glance is none."""

SMALLEST_SIDE_PX = 2


def find_middle(area: Window, largest_px: int) -> Window:
    """Return a rectangle, or its middle part of the same proportions where it has more pixels than that."""
    share = min(1.0, (largest_px / max(math.prod(area.shape), 1)) ** 0.5)
    height, width = (max(int(side * share), min(side, SMALLEST_SIDE_PX)) for side in area.shape)
    top, left = area.top + (area.shape[0] - height) // 2, area.left + (area.shape[1] - width) // 2
    return Window(top, left, top + height, left + width)


def find_visible_area(stack: ChosenStack, *, displayed_axes: tuple[int, ...], n_viewer_axes: int) -> Window:
    """Return what the viewer shows of the first layer; refuse other axes than rows and columns, and an image that lies outside.

    Axes are counted in the dimensions of the viewer; a layer of fewer takes part in the last ones.
    """
    layer = stack.layers[0]
    shown = sorted(axis - (n_viewer_axes - layer.ndim) for axis in displayed_axes)
    if tuple(shown) != stack.image_axes:
        msg = "the viewer shows other axes than rows and columns; the image itself is needed: go back to the 2-D view of it"
        raise InvalidImageError(msg)
    axes = list(stack.image_axes)
    # corners are counted in pixels of the level that is drawn, and name the last pixel of it
    factors = layer.downsample_factors[layer.data_level][axes] if layer.multiscale else np.ones(2)
    first, last = np.asarray(layer.corner_pixels)[:, axes]
    return _clip(first * factors, (last + 1) * factors, stack)


def find_drawn_area(stack: ChosenStack, shapes: Layer) -> Window:
    """Return the box around the selected shape of a layer, or around its last one; refuse a layer without any, or one outside the image."""
    if len(shapes.data) == 0:
        msg = f"{shapes.name!r} holds no shape; a rectangle is needed: draw one over the part to preview"
        raise InvalidImageError(msg)
    number = max(shapes.selected_data) if shapes.selected_data else len(shapes.data) - 1
    # both layers may be scaled, moved and turned in their own ways
    corners = np.array([stack.layers[0].world_to_data(shapes.data_to_world(corner)) for corner in shapes.data[number]])
    on_image = corners[:, list(stack.image_axes)]
    return _clip(on_image.min(axis=0), on_image.max(axis=0), stack)


def _clip(first: NDArray[Any], end: NDArray[Any], stack: ChosenStack) -> Window:
    sides = stack.size_px
    top, left = (int(side) for side in np.clip(np.floor(first), 0, sides))
    bottom, right = (int(side) for side in np.clip(np.ceil(end), 0, sides))
    area = Window(top, left, bottom, right)
    if min(area.shape) < SMALLEST_SIDE_PX:
        height, width = area.shape
        msg = f"the area to preview covers {height} x {width} pixels of the image; more is needed: move it over the image"
        raise InvalidImageError(msg)
    return area
