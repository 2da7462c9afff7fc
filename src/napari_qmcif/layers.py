"""Make layers of a fusion's result that lie and look like their sources."""

from __future__ import annotations

from typing import Any

from napari.viewer import Viewer

from napari_qmcif.chosen_stack import ChosenStack
from napari_qmcif.provenance import METADATA_KEY

MAP_NAMES = ("source_index", "base_map", "detail_map", "confidence")


def describe_fused(stack: ChosenStack, *, part: str, record: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of the layer with the fused picture, or of another picture that looks like the sources.

    Contrast limits come from the sources: to find its own, a layer would go through the pixels on the GUI thread.
    """
    arguments = {
        "name": f"{stack.title}: {part}",
        "rgb": stack.is_color,
        "metadata": {METADATA_KEY: {**record, "part": part}},
        **stack.placement.as_layer_arguments(),
    }
    if stack.is_color:
        return arguments
    first = stack.layers[0]
    lows, highs = zip(*(layer.contrast_limits for layer in stack.layers), strict=True)
    return {**arguments, "contrast_limits": (min(lows), max(highs)), "colormap": first.colormap, "gamma": first.gamma}


def describe_map_layer(stack: ChosenStack, name: str, *, record: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of the layer with one map: images as colors from first to last, confidence from 0 to 1.

    The maps come hidden and see-through below the picture: one looks at them when one wants to know.
    """
    is_confidence = name == "confidence"
    return {
        "name": f"{stack.title}: {name.replace('_', ' ')}",
        "rgb": False,
        "visible": False,
        "metadata": {METADATA_KEY: {**record, "part": name}},
        "contrast_limits": (0.0, 1.0) if is_confidence else (0.0, float(stack.n_images - 1)),
        "colormap": "gray" if is_confidence else "turbo",
        "interpolation2d": "nearest",
        **stack.placement.as_layer_arguments(),
    }


def add_result(viewer: Viewer, stack: ChosenStack, pictures: dict[str, Any], *, record: dict[str, Any]) -> list[Any]:
    """Add the maps and, above them, the fused picture.

    Parameters
    ----------
    viewer : napari.Viewer
    stack : ChosenStack
    pictures : dict
        ``fused`` and the maps by name; arrays, or lists of arrays from fine to coarse.
    record : dict
        Provenance, for the metadata of each layer.

    Returns
    -------
    list of napari.layers.Image
        The fused picture last.
    """
    described = {name: describe_map_layer(stack, name, record=record) for name in reversed(MAP_NAMES)}
    described["fused"] = describe_fused(stack, part="fused", record=record)
    return [
        viewer.add_image(pictures[name], multiscale=isinstance(pictures[name], list), **arguments) for name, arguments in described.items()
    ]
