"""Layers of focus stacks, read lazily, and of what the engine wrote."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np

from napari_qmcif.own_outputs import describe_axes, list_own_images, read_own_images
from napari_qmcif.provenance import METADATA_KEY
from qmcif_engine import FileStack, InvalidConfigError, QmcifError, open_stack

if TYPE_CHECKING:
    from napari.types import LayerDataTuple

logger = logging.getLogger(__name__)

CHANNEL_COLORS = ("#00ff00", "#ff00ff", "#00ffff", "#ffff00", "#ff0000", "#0000ff")
"""For channels recorded one by one whose file says no colors."""

SAMPLED_SIDE_PX = 1024
"""Contrast limits come from so much of the middle of an image: to find its own, a layer would read whole images on the GUI thread."""

Reader = Callable[[str], "list[LayerDataTuple]"]


def get_reader(path: str | Sequence[str]) -> Reader | None:
    """Return what reads a folder with a result of ours or with images of one size; None for any other.

    napari asks which reader to take wherever several claim a name, so no file is claimed: images open as they do without us, and
    stacks in files are opened with `open_files`.
    """
    if not isinstance(path, str) or not Path(path).is_dir():
        return None
    try:
        layers = open_files([Path(path)])
    except QmcifError:
        return None
    # opened already to know whether it is one, and napari asks for the layers at once
    return lambda _: layers


def open_files(paths: Sequence[Path], *, remark: Callable[[str], None] = logger.warning) -> list[LayerDataTuple]:
    """Return the layers of a stack or of a result; nothing is read of a stack but headers and a sample for the contrast.

    Parameters
    ----------
    paths : sequence of Path
        One folder of images, OME-TIFF, OME-Zarr or other file with a stack, or with several, of which all become layers; several files
        with one image each; or images or folders that the engine wrote.
    remark : callable
        Takes what is left out, and why: images of a file with several that are no stack.

    Raises
    ------
    QmcifError
        In the words of the engine, when it is no stack.
    """
    own: list[Path] = []
    for path in paths:
        found = list_own_images(path)
        if not found:
            return _read_all_images(paths[0] if len(paths) == 1 else list(paths), remark)
        own += found
    return read_own_images(own)


def _read_all_images(inputs: Path | list[Path], remark: Callable[[str], None]) -> list[LayerDataTuple]:
    """Return the stack of an input, or every stack where it holds several images: a viewer shows what there is, and people choose."""
    try:
        return read_stack(inputs)
    except QmcifError as error:
        if not error.choices:
            raise
        refused, layers = error, list["LayerDataTuple"]()
    for number, name in enumerate(refused.choices, 1):
        try:
            layers += read_stack(inputs, image=number, image_name=name)
        except QmcifError as error:
            refused = error
            # one image of a file may be a label or a thumbnail, which hinders no other
            remark(f"left out: {_shorten(error, inputs)}")
    if not layers:
        raise refused
    return layers


def _shorten(error: QmcifError, inputs: Path | list[Path]) -> str:
    """Return what is wrong and what would be needed, without the folder of the file and without advice for the command line."""
    words = str(error).rpartition(": ")[0] or str(error)
    return words.replace(str(inputs), inputs.name) if isinstance(inputs, Path) else words


def read_stack(inputs: Path | list[Path], *, image: int | None = None, image_name: str = "") -> list[LayerDataTuple]:
    """Return a stack as a lazy layer, or one for each channel that was recorded by itself; time points come before the images."""
    stacks = _open_channels(inputs, image)
    name = inputs.name if isinstance(inputs, Path) else f"{inputs[0].stem} + {len(inputs) - 1}"
    name += f": {image_name}" if image_name else ""
    described = [_describe(stack, name=name) for stack in stacks]
    if len(stacks) > 1:
        metadata = stacks[0].metadata
        names = metadata.channel_names or [f"channel {number}" for number in range(1, len(stacks) + 1)]
        for number, attributes in enumerate(described):
            color = (metadata.channel_colors or CHANNEL_COLORS)[number % (len(metadata.channel_colors) or len(CHANNEL_COLORS))]
            attributes |= {"name": f"{name}: {names[number]}", "blending": "additive", "colormap": color}
            if metadata.channel_limits:
                attributes["contrast_limits"] = metadata.channel_limits[number]
    return [(_join_times(stack), attributes, "image") for stack, attributes in zip(stacks, described, strict=True)]


def _open_channels(inputs: Path | list[Path], image: int | None) -> list[FileStack]:
    """Return one stack, or one per channel where they were recorded one by one: each of them then reads its own samples only."""
    try:
        stack = open_stack(inputs, image=image)
    except InvalidConfigError:  # more channels than can decide together
        stack = open_stack(inputs, image=image, channels="each")
    n_channels = stack.image_shape[2] if stack.decides_each else stack.n_separate_channels
    return [open_stack(inputs, image=image, channels=[number]) for number in range(1, n_channels + 1)] or [stack]


def _describe(stack: FileStack, *, name: str) -> dict[str, Any]:
    """Return name, axes, scale, units and contrast of a layer, and the names of the files for whoever chooses among the images."""
    is_color = len(stack.image_shape) == 3
    axes = describe_axes((*["t"] * (stack.n_times > 1), "z" if stack.metadata.z_step else "focus", "y", "x"), stack.metadata)
    files = [str(path) for path in stack.sources]
    attributes: dict[str, Any] = {"name": name, "rgb": is_color, "metadata": {METADATA_KEY: {"files": files}}, **axes}
    return attributes if is_color else attributes | {"contrast_limits": _sample_contrast(stack)}


def _sample_contrast(stack: FileStack) -> tuple[float, float]:
    height, width = stack.image_shape
    top, left = max(0, (height - SAMPLED_SIDE_PX) // 2), max(0, (width - SAMPLED_SIDE_PX) // 2)
    # in the middle of a stack something is in focus, most likely
    samples = np.asarray(stack.to_dask()[stack.n_images // 2, top : top + SAMPLED_SIDE_PX, left : left + SAMPLED_SIDE_PX])
    low, high = float(samples.min()), float(samples.max())
    return low, high if high > low else low + 1


def _join_times(stack: FileStack) -> da.Array:
    times = [_take_samples(stack.at_time(time)) for time in range(stack.n_times)]
    return da.stack(times) if len(times) > 1 else times[0]


def _take_samples(stack: FileStack) -> da.Array:
    """Return the images with their opacity as the last channel, where they have both colors and opacity."""
    samples: da.Array = stack.to_dask()
    if stack.alpha is None or samples.ndim != 4:
        return samples
    joined: da.Array = da.concatenate([samples, stack.alpha.to_dask()[..., None]], axis=-1)
    return joined
