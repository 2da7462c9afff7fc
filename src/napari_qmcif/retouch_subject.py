"""Find what a result was made from, so that a person can correct it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from napari.layers import Layer

from napari_qmcif.aligning import ALIGNMENTS
from napari_qmcif.chosen_stack import ChosenStack, choose_pictures, choose_planes, name_axis
from napari_qmcif.layer_box import part_of
from napari_qmcif.provenance import METADATA_KEY
from qmcif_engine import FusionConfig, InvalidImageError, QmcifError


@dataclass(frozen=True, slots=True, kw_only=True)
class RetouchSubject:
    """A result and what it was made from.

    Attributes
    ----------
    stack : ChosenStack
    fused, index : napari.layers.Layer
        The picture and the source index, both with arrays in memory, which are changed in place.
    config : FusionConfig
        The settings of the fusion, as far as they are known.
    focus_range : tuple of float or None
        None where it is not known.
    """

    stack: ChosenStack
    fused: Any
    index: Any
    config: FusionConfig
    focus_range: tuple[float, float] | None


def assemble_subject(stack: ChosenStack, *, fused: Layer | None, index: Layer | None) -> RetouchSubject:
    """Return what is to be retouched, once everything is known to belong together.

    Raises
    ------
    InvalidImageError
        With the reason and the remedy.
    """
    if fused is None or index is None:
        missing = "fused picture" if fused is None else "source index"
        msg = f"no {missing} is chosen; both layers of a result are needed: fuse a stack first, or choose them"
        raise InvalidImageError(msg)
    for layer in (fused, index):
        if layer.multiscale or not isinstance(layer.data, np.ndarray):
            msg = f"{layer.name!r} lies on disk; retouching changes samples in memory: run the fusion with Keep set to In memory"
            raise InvalidImageError(msg)
        if layer.data.shape[:2] != stack.picture_shape:
            msg = (
                f"{layer.name!r} has {layer.data.shape[:2]} pixels and the sources {stack.picture_shape}; equal ones are needed: "
                "choose the images it was fused from"
            )
            raise InvalidImageError(msg)
    record = _record_of(fused)
    if record.get("align") in ALIGNMENTS:
        stack = replace(stack, align=record["align"], even_exposure=record.get("even_exposure") is True)
    try:
        config = FusionConfig.from_dict(record["settings"])
        low, high = record["focus_range"]
    except (QmcifError, KeyError, TypeError, ValueError):  # no record, or one of another version
        return RetouchSubject(stack=stack, fused=fused, index=index, config=FusionConfig(), focus_range=None)
    return RetouchSubject(stack=stack, fused=fused, index=index, config=config, focus_range=(float(low), float(high)))


def find_sources(fused: Layer, layers: Sequence[Layer]) -> ChosenStack | None:
    """Return the stack that a result says it was made from, where those layers are still there."""
    record = _record_of(fused)
    try:
        names = [entry["layer"] for entry in record["inputs"]]
        axis_name, position = record["axis"], dict(record["position"])
        found = [next(layer for layer in layers if layer.name == name) for name in names]
        if axis_name is None:
            return choose_pictures(found)
        axes = {name_axis(found[0], axis): axis for axis in range(found[0].ndim)}
        steps = [position.get(name, 0) for name in axes]
        return choose_planes(found[0], axes[axis_name], point=found[0].data_to_world(steps))
    except (QmcifError, KeyError, TypeError, ValueError, StopIteration):
        return None


def find_index(fused: Layer, layers: Sequence[Layer]) -> Layer | None:
    """Return the source index that was added with a result."""
    record = _record_of(fused)
    for layer in reversed(layers):
        if part_of(layer) == "source_index" and {**_record_of(layer), "part": ""} == {**record, "part": ""}:
            return layer
    return None


def _record_of(layer: Layer) -> dict[str, Any]:
    record = dict(layer.metadata).get(METADATA_KEY)
    return record if isinstance(record, dict) else {}
