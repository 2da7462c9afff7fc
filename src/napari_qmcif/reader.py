"""Read focus stacks lazily, and what the engine wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.array as da

from napari_qmcif.own_outputs import TIFF_SUFFIXES, find_record, list_maps, read_maps, read_picture
from qmcif_engine import QmcifError, open_stack

if TYPE_CHECKING:
    from napari.types import LayerDataTuple

    from qmcif_engine import FileStack

STORE_SUFFIX = ".zarr"
Reader = Callable[..., "list[LayerDataTuple]"]


def get_reader(path: str | Sequence[str]) -> Reader | None:
    """Return what reads a path, or None where it is nothing of ours: single pictures are left to other readers.

    Parameters
    ----------
    path : str or sequence of str
        A folder of images of one size, several image files, an OME-Zarr with several planes, or a picture or folder of maps that the
        engine wrote.
    """
    if not isinstance(path, str):
        return _find_stack_reader([Path(name) for name in path])
    given = Path(path)
    if given.is_dir():
        if given.name.lower().endswith(STORE_SUFFIX) and find_record(given) is not None:
            return lambda _: read_picture(given)
        maps = list_maps(given)
        if maps and all(find_record(found) is not None for found in maps):
            return lambda _: read_maps(given)
        return _find_stack_reader(given)
    if given.name.lower().endswith(TIFF_SUFFIXES) and find_record(given) is not None:
        return lambda _: read_picture(given)
    return None


def read_stack(inputs: Path | list[Path], *_: object) -> list[LayerDataTuple]:
    """Return a stack as one lazy layer; points in time come before the images."""
    stack = open_stack(inputs)
    times = [_take_samples(stack.at_time(time)) for time in range(stack.n_times)]
    metadata, before = stack.metadata, len(times) > 1
    name = inputs.name if isinstance(inputs, Path) else f"{inputs[0].stem} + {len(inputs) - 1}"
    axes = (*["t"] * before, "z" if metadata.z_step else "focus", "y", "x")
    attributes: dict[str, Any] = {"name": name, "rgb": len(stack.image_shape) == 3, "axis_labels": axes}
    if metadata.pixel_size is not None and metadata.unit is not None:
        depth_unit = metadata.unit if metadata.z_step else "pixel"
        attributes["scale"] = (*[1.0] * before, metadata.z_step or 1.0, *metadata.pixel_size)
        attributes["units"] = (*["pixel"] * before, depth_unit, metadata.unit, metadata.unit)
    return [(da.stack(times) if before else times[0], attributes, "image")]


def _take_samples(stack: FileStack) -> da.Array:
    """Return the images with their opacity as the last channel, where they have both colors and opacity."""
    samples: da.Array = stack.to_dask()
    if stack.alpha is None or samples.ndim != 4:
        return samples
    joined: da.Array = da.concatenate([samples, stack.alpha.to_dask()[..., None]], axis=-1)
    return joined


def _find_stack_reader(inputs: Path | list[Path]) -> Reader | None:
    """Return a reader where the engine can open the stack, which looks at headers only."""
    if isinstance(inputs, list) and len(inputs) < 2:
        return None
    try:
        open_stack(inputs)
    except QmcifError:
        return None
    return partial(read_stack, inputs)
