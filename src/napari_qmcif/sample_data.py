"""Offer generated focus stacks under File > Open Sample."""

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine import make_focus_stack, make_lazy_focus_stack

if TYPE_CHECKING:
    from napari.types import LayerDataTuple

LARGE_SHAPE = (8192, 8192)
N_LARGE_LEVELS = 4


def make_color_stack_layers() -> "list[LayerDataTuple]":
    """Generate five pictures of one scene, each sharp at another depth, and the scene sharp everywhere.

    The truth comes hidden: it is there to compare a fusion with, not to look at first.

    Returns
    -------
    list of LayerDataTuple
        The truth, shape (512, 768, 3), then the stack, shape (5, 512, 768, 3): the viewer selects the last.
    """
    scene = make_focus_stack(n_images=5, shape=(512, 768), seed=0)
    stack = {"name": "focus stack", "rgb": True, "axis_labels": ("focus", "y", "x")}
    truth = {"name": "focus stack truth", "rgb": True, "axis_labels": ("y", "x"), "visible": False}
    return [(scene.truth, truth, "image"), (scene.images, stack, "image")]


def make_gray_stack_layers() -> "list[LayerDataTuple]":
    """Generate a z-stack as a microscope gives it: seven gray planes of 16 bits, 4 micrometers apart, and their truth, hidden.

    Returns
    -------
    list of LayerDataTuple
        The truth, shape (512, 512), then the stack, shape (7, 512, 512): the viewer selects the last.
    """
    scene = make_focus_stack(n_images=7, shape=(512, 512), seed=4, dtype=np.uint16, is_color=False)
    space = {"units": ("micrometer",) * 3, "scale": (4.0, 0.5, 0.5), "axis_labels": ("z", "y", "x")}
    flat = {name: values[1:] for name, values in space.items()}
    look = {"rgb": False, "colormap": "gray", "contrast_limits": (0, 65535)}
    stack = {"name": "z-stack", **look, **space}
    truth = {"name": "z-stack truth", "visible": False, **look, **flat}
    return [(scene.truth, truth, "image"), (scene.images, stack, "image")]


def make_large_stack_layers() -> "list[LayerDataTuple]":
    """Describe two pictures of 67 megapixels that are generated where one looks.

    Returns
    -------
    list of LayerDataTuple
        One layer with four levels, the finest of shape (2, 8192, 8192, 3).
    """
    levels = [make_lazy_focus_stack(shape=LARGE_SHAPE, n_images=2, step=2**level) for level in range(N_LARGE_LEVELS)]
    return [(levels, {"name": "large focus stack", "rgb": True, "multiscale": True, "axis_labels": ("focus", "y", "x")}, "image")]
