"""Layers of focus stacks, read lazily, and of what the engine wrote, with scale, units, channels and record."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from napari.types import LayerDataTuple

from napari_qmcif.layers_out import MAP_NAMES, METADATA_KEY, PART_NAMES, choose_colors
from qmcif_engine import FileStack, ImageMetadata, InvalidConfigError, QmcifError, WrittenImage, open_stack

logger = logging.getLogger(__name__)

CLAIMED = (".czi", ".lif", ".nd2", ".ome.tif", ".ome.tiff")
"""Names of files that the manifest claims, too."""

CHANNEL_COLORS = ("#00ff00", "#ff00ff", "#00ffff", "#ffff00", "#ff0000", "#0000ff")
"""For channels recorded one by one whose file has no colors."""

SAMPLED_SIDE_PX = 1024
"""Contrast limits come from so much of the middle of an image: to find its own, a layer would read whole images on the GUI thread."""

LARGEST_LOADED_SAMPLES = 3 * 2**24
"""Results up to this size are loaded whole, so that they can be retouched; larger ones stay on disk."""

Reader = Callable[[str], list[LayerDataTuple]]


def get_reader(path: str | Sequence[str]) -> Reader | None:
    """Return what reads a stack of a microscope, an OME-TIFF, or a folder with a result or with images of one size.

    napari asks only for the names that the manifest claims, which others do not read, or without channels, scale and units. A file that
    is refused is taken nevertheless, so that the reason is shown; a folder is left to other readers.
    """
    if not isinstance(path, str) or not Path(path).is_dir():
        paths = [Path(path)] if isinstance(path, str) else [Path(one) for one in path]
        return (lambda _: open_files(paths)) if all(one.name.lower().endswith(CLAIMED) for one in paths) else None
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
        refused, layers = error, list[LayerDataTuple]()
    for number, name in enumerate(refused.choices, 1):
        try:
            layers += read_stack(inputs, image=number, image_name=name)
        except QmcifError as error:
            refused = error
            # one image of a file may be a label or a thumbnail, which hinders no other: without the folder and advice for the command line
            words, file = str(error).rpartition(": ")[0] or str(error), inputs.name if isinstance(inputs, Path) else inputs[0].name
            remark(f"left out: image {name!r} of {file!r}: {words.replace(str(inputs), file)}")
    if not layers:
        raise refused
    return layers


def read_stack(inputs: Path | list[Path], *, image: int | None = None, image_name: str = "") -> list[LayerDataTuple]:
    """Return a stack as a lazy layer, or one for each channel that was recorded by itself; time points come before the images."""
    stacks = _open_channels(inputs, image)
    name = inputs.name if isinstance(inputs, Path) else f"{inputs[0].stem} + {len(inputs) - 1}"
    name += f": {image_name}" if image_name else ""
    record = {"files": [str(path) for path in stacks[0].sources], **({"image": image_name} if image_name else {})}
    described = [_describe_stack(stack, name=name, record=record) for stack in stacks]
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


def _describe_stack(stack: FileStack, *, name: str, record: dict[str, Any]) -> dict[str, Any]:
    """Return name, axes, scale, units and contrast of a layer."""
    axes = describe_axes((*["t"] * (stack.n_times > 1), "z" if stack.metadata.z_step else "focus", "y", "x"), stack.metadata)
    attributes: dict[str, Any] = {"name": name, "rgb": len(stack.image_shape) == 3, "metadata": {METADATA_KEY: dict(record)}, **axes}
    return attributes if attributes["rgb"] else attributes | {"contrast_limits": _sample_contrast(stack)}


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


def list_own_images(path: Path) -> list[Path]:
    """Return the images of ours that a path stands for, in the order of layers: the fused image, then its maps, hidden above it.

    That is a file or store with a record, or a folder of them: one with maps of ours, beside which there may be anything, or one that
    holds nothing but images of ours. Maps may lie in a folder of their own.
    """
    if _is_image_name(path):
        return [path] if WrittenImage.find_record(path) is not None else []
    if not path.is_dir():
        return []
    folders = sorted(found for found in path.iterdir() if found.is_dir() and not found.name.lower().endswith(".zarr"))
    maps = [found for folder in (path, *folders) for found in _list_maps(folder)]
    images = sorted(found for found in path.iterdir() if _is_image_name(found) and found not in maps)
    if not maps and not all(WrittenImage.find_record(found) is not None for found in images):
        return []
    return [*(found for found in images if WrittenImage.find_record(found) is not None), *maps]


def read_own_images(paths: Sequence[Path]) -> list[Any]:
    """Return one layer per image; maps are named after the folder of the result, and hidden unless there is nothing else."""
    layers = [_read_own_image(path) for path in paths]
    if all(attributes.get("visible") is False for _, attributes, _ in layers):
        # a folder of maps alone would leave the canvas empty
        layers[-1][1]["visible"] = True
    return layers


def _read_own_image(path: Path) -> tuple[Any, dict[str, Any], str]:
    stem = path.name.split(".")[0]
    part, image = re.sub(r"_\d+$", "", stem), WrittenImage.open(path)
    is_map = part in (*MAP_NAMES, "height")
    name = f"{path.parent.name}: {PART_NAMES.get(stem, stem.replace('_', ' '))}" if is_map else stem
    part, levels = part if is_map else "fused", list[Any](image.levels)
    if levels[0].size <= LARGEST_LOADED_SAMPLES:
        levels = [np.asarray(levels[0])]
    metadata, before = image.metadata, image.has_time
    attributes: dict[str, Any] = {
        "name": name,
        "metadata": {METADATA_KEY: {**image.record, "part": part}},
        **describe_axes((*["t"] * before, "y", "x"), metadata),
        "rgb": levels[0].ndim == before + 3 and not metadata.has_separate_channels,
        "multiscale": len(levels) > 1,
    }
    if metadata.has_separate_channels:
        looks: dict[str, Any] = {"name": [f"{name}: {dye}" for dye in metadata.channel_names], "colormap": list(metadata.channel_colors)}
        looks["contrast_limits"] = list(metadata.channel_limits)
        attributes |= {"channel_axis": before + 2, **{key: values for key, values in looks.items() if values and part == "fused"}}
        attributes["metadata"][METADATA_KEY] |= {"n_channels": levels[0].shape[before + 2], "of_result": str(path)}
    if is_map:
        # the number of images decides the colors; those in use may be fewer
        last = float(max(int(image.record.get("images", 2)) - 1, 1))
        attributes |= {"visible": False, **({"colormap": "viridis"} if part == "height" else choose_colors(part, (0.0, last)))}
    return (levels if len(levels) > 1 else levels[0], attributes, "image")


def _list_maps(folder: Path) -> list[Path]:
    """Return the maps of ours in a folder, source index and heights last so that they are on top."""
    found = [path for name in (*reversed(MAP_NAMES), "height") for path in sorted(folder.glob(f"{name}*.tif"))]
    return [path for path in found if WrittenImage.find_record(path) is not None]


def _is_image_name(path: Path) -> bool:
    return path.name.lower().endswith((".tif", ".tiff", ".zarr")) and not path.name.startswith(".")


def describe_axes(labels: Sequence[str], metadata: ImageMetadata) -> dict[str, Any]:
    """Return names of axes, rows and columns last, with the scale and units of those in space where the file has them."""
    if metadata.pixel_size is None or metadata.unit is None:
        return {"axis_labels": labels}
    before = [(metadata.z_step or 1.0, metadata.unit) if label == "z" else (1.0, "pixel") for label in labels[:-2]]
    scale, units = zip(*before, *((size, metadata.unit) for size in metadata.pixel_size), strict=True)
    return {"axis_labels": labels, "scale": scale, "units": units}
