"""How a result came about, in plain values that survive any file format."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from napari.layers import Layer

from napari_qmcif.chosen_stack import ChosenStack, name_axis
from qmcif_engine import FusionConfig, __version__

METADATA_KEY = "qmcif"
"""Under this name a layer's metadata holds the record."""


def record_provenance(
    stack: ChosenStack, config: FusionConfig, *, focus_range: tuple[float, float], path: Path | None = None
) -> dict[str, Any]:
    """Return what one needs to make the result again: version, settings, inputs and the range the decisions looked at."""
    return {
        "version": __version__,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": config.to_dict(),
        # by name and by file: layers are found again in this session, files in the next
        "inputs": [
            {"layer": str(layer.name), "path": None if layer.source.path is None else str(layer.source.path)} for layer in stack.layers
        ],
        "n_images": stack.n_images,
        "axis": None if stack.axis is None else name_axis(stack.layers[0], stack.axis),
        "position": {
            name_axis(stack.layers[0], axis): step
            for axis, step in enumerate(stack.index)
            if isinstance(step, int) and axis not in (stack.axis, *stack.image_axes)
        },
        "z_step": list(stack.z_step) if stack.z_step[1] else None,
        "align": stack.align,
        "even_exposure": stack.even_exposure,
        "reference": stack.reference,
        "left_out": list(stack.left_out),
        "has_transforms": stack.transforms is not None,
        "transforms_file": None if stack.transforms_file is None else str(stack.transforms_file),
        "focus_range": [float(bound) for bound in focus_range],
        "path": None if path is None else str(path),
    }


def note_channels(n_channels: int, result: str) -> dict[str, Any]:
    """Return what the records of channels say that are layers of their own: how many there are, and of which result."""
    return {"n_channels": n_channels, "of_result": result}


def read_record(layer: Layer) -> dict[str, Any]:
    """Return what a layer of ours says about itself; nothing for any other layer."""
    record = dict(layer.metadata).get(METADATA_KEY)
    return record if isinstance(record, dict) else {}
