"""Placement of an image where its source lies: the part of a layer's transform that concerns two of its axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from napari.layers import Layer
from napari.utils.transforms import CompositeAffine


def transform_of(layer: Layer) -> dict[str, Any]:
    """Return the keyword arguments that put a new layer of the same axes exactly where a layer lies."""
    names = ("scale", "translate", "rotate", "shear", "units", "axis_labels")
    return {**{name: getattr(layer, name) for name in names}, "affine": layer.affine.affine_matrix}


def compose_transform(layer: Layer) -> CompositeAffine:
    """Return what a layer does before its own affine: scale, shear, rotation and translation; napari's own is private."""
    names = ("scale", "translate", "rotate", "shear", "ndim", "units", "axis_labels")
    return CompositeAffine(**{name: getattr(layer, name) for name in names})


class Placement(NamedTuple):
    """Where the pixels of an image lie in the world: scale, translation, rotation and shear over two axes, and what comes on top of it."""

    transform: CompositeAffine
    affine: Any

    @classmethod
    def of_layer(cls, layer: Layer, axes: Sequence[int] = (-2, -1)) -> Placement:
        """Take two axes out of a layer's transform; the axis that is fused over is not among them."""
        chosen = [axis % layer.ndim for axis in axes]
        return cls(compose_transform(layer).set_slice(chosen), np.asarray(layer.affine.set_slice(chosen).affine_matrix))

    def is_close_to(self, other: Placement) -> bool:
        """Return whether both put the same pixel at the same place."""
        matrices = [place.affine @ place.transform.affine_matrix for place in (self, other)]
        return bool(np.allclose(*matrices)) and tuple(self.transform.units) == tuple(other.transform.units)

    def as_layer_arguments(self, corner_px: Sequence[float] = (0, 0)) -> dict[str, Any]:
        """Return the keyword arguments that put a new layer there: the whole, or a part whose first pixel is that (row, column) of it."""
        arguments = {name: np.asarray(getattr(self.transform, name)) for name in ("scale", "rotate", "shear")}
        names = {name: tuple(getattr(self.transform, name)) for name in ("units", "axis_labels")}
        return {**arguments, **names, "translate": self.transform(np.asarray(corner_px, dtype=float)), "affine": self.affine}

    def with_depth(self, step: float, *, start: float, unit: str, label: str) -> dict[str, Any]:
        """Return the keyword arguments that put a new layer there whose first axis is a depth of its own."""
        flat = self.as_layer_arguments()
        rotate, shear, affine = np.eye(3), np.eye(3), np.eye(4)
        rotate[1:, 1:], affine[1:, 1:] = flat["rotate"], flat["affine"]
        # napari gives the shear of two axes as one number
        shear[1:, 1:] = flat["shear"] if np.ndim(flat["shear"]) == 2 else [[1, np.ravel(flat["shear"])[0]], [0, 1]]
        before = {"scale": step, "translate": start, "units": unit, "axis_labels": label}
        return {**{name: (value, *flat[name]) for name, value in before.items()}, "rotate": rotate, "shear": shear, "affine": affine}
