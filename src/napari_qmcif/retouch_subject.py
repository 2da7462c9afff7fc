"""A result and what it was made from, for a person to correct."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from napari.layers import Layer

from napari_qmcif.chosen_stack import ChosenStack
from napari_qmcif.result_parts import prepare_alike, read_settings
from qmcif_engine import FusionConfig, InvalidImageError


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
    config, focus_range = read_settings(fused)
    return RetouchSubject(stack=prepare_alike(stack, fused), fused=fused, index=index, config=config, focus_range=focus_range)
