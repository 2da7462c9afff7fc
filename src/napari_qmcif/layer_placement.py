"""Placement of an image where its source lies: the part of a layer's transform that concerns two of its axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the pixels of an image lie in the world.

    Attributes
    ----------
    transform : napari.utils.transforms.CompositeAffine
        Scale, translation, rotation and shear over two axes, with their units and labels.
    affine : ndarray of float, shape (3, 3)
        What the layer applies on top of it.
    """

    transform: Any
    affine: Any

    @classmethod
    def of_layer(cls, layer: Layer, axes: Sequence[int]) -> Placement:
        """Take two axes out of a layer's transform; the axis that is fused over is not among them."""
        return cls(compose_transform(layer).set_slice(list(axes)), np.asarray(layer.affine.set_slice(list(axes)).affine_matrix))

    def shifted(self, corner_px: Sequence[float]) -> Placement:
        """Return the place of a part whose first pixel is the given (row, column) of the whole."""
        part = CompositeAffine(**{**self._composition(), "translate": self.transform(np.asarray(corner_px, dtype=float))})
        return Placement(part, self.affine)

    def is_close_to(self, other: Placement) -> bool:
        """Return whether both put the same pixel at the same place."""
        return bool(
            np.allclose(self.transform.affine_matrix, other.transform.affine_matrix)
            and np.allclose(self.affine, other.affine)
            and tuple(self.transform.units) == tuple(other.transform.units)
        )

    def as_layer_arguments(self) -> dict[str, Any]:
        """Return the keyword arguments that put a new layer there."""
        arguments = self._composition()
        return {**{key: value for key, value in arguments.items() if key != "ndim"}, "affine": self.affine}

    def with_depth(self, step: float, *, start: float, unit: str, label: str) -> dict[str, Any]:
        """Return the keyword arguments that put a new layer there whose first axis is a depth of its own."""
        flat = self.as_layer_arguments()
        rotate, shear, affine = np.eye(3), np.eye(3), np.eye(4)
        rotate[1:, 1:], affine[1:, 1:] = flat["rotate"], flat["affine"]
        # napari gives the shear of two axes as one number
        shear[1:, 1:] = flat["shear"] if np.ndim(flat["shear"]) == 2 else [[1, np.ravel(flat["shear"])[0]], [0, 1]]
        return {
            "scale": (step, *flat["scale"]),
            "translate": (start, *flat["translate"]),
            "rotate": rotate,
            "shear": shear,
            "affine": affine,
            "units": (unit, *flat["units"]),
            "axis_labels": (label, *flat["axis_labels"]),
        }

    def _composition(self) -> dict[str, Any]:
        parts = ("scale", "translate", "rotate", "shear")
        composition = {name: np.asarray(getattr(self.transform, name)) for name in parts}
        return {**composition, "units": tuple(self.transform.units), "axis_labels": tuple(self.transform.axis_labels), "ndim": 2}
