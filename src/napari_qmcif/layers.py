"""Layers of a fusion's result that lie and look like their sources."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count
from typing import Any, NamedTuple

from napari.types import LayerDataTuple

from napari_qmcif.chosen_stack import ChosenStack
from napari_qmcif.provenance import METADATA_KEY
from napari_qmcif.stack_series import StackSeries
from qmcif_engine import OUTPUT_MAPS

MAP_NAMES = tuple(name for name, declared in OUTPUT_MAPS.items() if declared.is_written)


class Run(NamedTuple):
    """Which run of a stack a result comes from; the settings of the first go without saying."""

    number: int = 1
    settings: str = ""


FIRST_RUN = Run()


def describe_fused(stack: ChosenStack, *, part: str, record: dict[str, Any], name: str = "") -> dict[str, Any]:
    """Return how an image looks that looks like its sources, whatever its place; it is named after them unless it has a name."""
    arguments = {"name": name or name_part(stack.title, part), "rgb": stack.is_color, "metadata": {METADATA_KEY: {**record, "part": part}}}
    if stack.is_color:
        return arguments
    first = stack.layers[0]
    # to find limits of its own, a layer would go through all pixels on the GUI thread
    lows, highs = zip(*(layer.contrast_limits for layer in stack.layers), strict=True)
    look = {"colormap": first.colormap, "gamma": first.gamma, "blending": first.blending}
    return {**arguments, "contrast_limits": (min(lows), max(highs)), **look}


def describe_map(stack: ChosenStack, part: str, *, name: str, record: dict[str, Any], z_step: float = 1.0) -> dict[str, Any]:
    """Return how one map looks: images and heights as colors from first to last, shares such as confidence in gray from 0 to 1.

    The maps come hidden, above the image: whoever wants to know switches one on, and sees it.
    """
    low, high = sorted((0.0, (stack.n_images - 1) * (z_step if part == "height" else 1.0)))
    return {
        "name": name,
        "rgb": False,
        "visible": False,
        "metadata": {METADATA_KEY: {**record, "part": part}},
        # between image 2 and image 4 there is no image 3 to be shown
        "interpolation2d": "nearest",
        **choose_colors(part, (low, high)),
    }


def choose_colors(part: str, bounds: tuple[float, float]) -> dict[str, Any]:
    """Return colors and contrast of a map whose images, or heights, have these bounds."""
    is_share = part in OUTPUT_MAPS and not OUTPUT_MAPS[part].counts_images
    low, high = (0.0, 1.0) if is_share else bounds
    colormap = "gray" if is_share else "viridis" if part == "height" else "turbo"
    # napari takes no equal limits
    return {"contrast_limits": (low, high if high > low else low + 1), "colormap": colormap}


def describe_channel(
    series: StackSeries, number: int, parts: dict[str, Any], *, record: dict[str, Any], z_step: float = 1.0, run: Run = FIRST_RUN
) -> list[LayerDataTuple]:
    """Return the layers of one channel: the fused image and, above it, its maps, the source index on top.

    Parts are arrays, or lists of arrays from fine to coarse.
    """
    channel, place = series.channels[number], series.place(number)
    stack, described = channel.stacks[0], []
    for part in ("fused", *reversed([name for name in parts if name != "fused"])):
        name = name_part(channel.title, part, run)
        is_fused = part == "fused"
        look = (
            describe_fused(stack, name=name, part=part, record=record)
            if is_fused
            else describe_map(stack, part, name=name, record=record, z_step=z_step)
        )
        samples = parts[part]
        described.append(LayerDataTuple((samples, {**look, **place, "multiscale": isinstance(samples, list)}, "image")))
    return described


def name_part(title: str, part: str, run: Run = FIRST_RUN) -> str:
    """Return what a layer of a result is called: narrow lists leave out the middle, so that part and number stand at the end."""
    settings = f" ({run.settings})" if run.settings else ""
    return f"{title}{settings}: {part.replace('_', ' ')}{f' {run.number}' if run.number > 1 else ''}"


def number_run(titles: Collection[str], settings: str, *, taken: Collection[str]) -> Run:
    """Return what tells a run from earlier ones of the same stack, of whose layers these names are taken."""
    # a layer that was renamed does not count: its name is free
    ends = {name.rpartition(": ")[2] for name in taken if name.startswith(tuple(titles))}
    number = next(number for number in count(1) if name_part("", "fused", Run(number)).removeprefix(": ") not in ends)
    return FIRST_RUN if number == 1 else Run(number, settings)
