"""Make a surface of a map of depths: its corners lie where the pixels lie, its height is the depth."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from napari.layers import Layer

from napari_qmcif.layer_placement import Placement

LARGEST_N_CORNERS = 250_000
"""More would make turning the surface slow; larger maps are thinned out."""


class HeightSurface(NamedTuple):
    """Corners (V, 3) in pixels and images, triangles (F, 3), and by how much the map was thinned out."""

    corners: Any
    triangles: Any
    stride: int


def make_surface(depth: Any) -> HeightSurface:  # noqa: ANN401 - any array
    """Return the surface of a map.

    Parameters
    ----------
    depth : ndarray or dask array, shape (Y, X)
        Numbers of images, whole or between them.
    """
    stride = 1
    while -(-depth.shape[0] // stride) * -(-depth.shape[1] // stride) > LARGEST_N_CORNERS:
        stride += 1
    thinned = np.asarray(depth[::stride, ::stride], np.float32)
    n_rows, n_columns = thinned.shape
    rows, columns = np.mgrid[:n_rows, :n_columns] * stride
    corners = np.stack([thinned.ravel(), rows.ravel(), columns.ravel()], axis=1).astype(np.float32)
    number = np.arange(n_rows * n_columns).reshape(n_rows, n_columns)
    first, right, below, across = (part.ravel() for part in (number[:-1, :-1], number[:-1, 1:], number[1:, :-1], number[1:, 1:]))
    triangles = np.concatenate([np.stack([first, right, below], 1), np.stack([right, across, below], 1)])
    return HeightSurface(corners, triangles, stride)


def place_surface(layer: Layer, *, z_step: float) -> dict[str, Any]:
    """Return the layer arguments that put a surface over a map, neighboring images `z_step` apart in the unit of its pixels."""
    place = Placement.of_layer(layer, (0, 1))
    flat = place.as_layer_arguments()
    rotate, shear, affine = np.eye(3), np.eye(3), np.eye(4)
    rotate[1:, 1:], shear[1:, 1:], affine[1:, 1:] = flat["rotate"], _as_matrix(flat["shear"]), flat["affine"]
    return {
        "scale": (z_step, *flat["scale"]),
        "translate": (0.0, *flat["translate"]),
        "rotate": rotate,
        "shear": shear,
        "affine": affine,
        "units": (flat["units"][0], *flat["units"]),
        "axis_labels": ("z", *flat["axis_labels"]),
    }


def _as_matrix(shear: Any) -> Any:  # noqa: ANN401 - an array
    """Return a shear as a matrix; napari gives that of two axes as one number."""
    if np.ndim(shear) == 2:
        return shear
    matrix = np.eye(2)
    matrix[0, 1] = np.ravel(shear)[0]
    return matrix


def color_surface(layer: Layer | None, stride: int, *, depths: tuple[float, float]) -> dict[str, Any]:
    """Return the layer arguments that paint a surface like a picture, or by depth where there is none.

    Parameters
    ----------
    layer : napari.layers.Image or None
        A picture that lies on the map.
    stride : int
        By how much the surface is thinned out.
    depths : tuple of float
        The least and the largest of the map.
    """
    if layer is None:
        return {"colormap": "turbo", "contrast_limits": (depths[0], max(depths[1], depths[0] + 1e-6)), "shading": "smooth"}
    array: Any = layer.data[0] if layer.multiscale else layer.data
    samples = np.asarray(array[::stride, ::stride])
    if not layer.rgb:
        return {"colormap": layer.colormap, "contrast_limits": tuple(layer.contrast_limits), "shading": "none"}
    white = np.iinfo(samples.dtype).max if samples.dtype.kind == "u" else 1
    return {"vertex_colors": samples[..., :3].reshape(-1, 3) / np.float32(white), "shading": "none"}
