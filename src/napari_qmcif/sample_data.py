"""Offer a generated focus stack under File > Open Sample."""

from typing import TYPE_CHECKING

from qmcif_engine import make_focus_stack

if TYPE_CHECKING:
    from napari.types import LayerDataTuple


def make_color_stack_layers() -> "list[LayerDataTuple]":
    """Generate five pictures of one scene, each sharp at another depth, and the scene sharp everywhere.

    The truth comes hidden: it is there to compare a fusion with, not to look at first.

    Returns
    -------
    list of LayerDataTuple
        The stack, shape (5, 512, 768, 3), then the truth, shape (512, 768, 3).
    """
    scene = make_focus_stack(n_images=5, shape=(512, 768), seed=0)
    stack = {"name": "focus stack", "rgb": True, "axis_labels": ("focus", "y", "x")}
    truth = {"name": "focus stack truth", "rgb": True, "axis_labels": ("y", "x"), "visible": False}
    return [(scene.images, stack, "image"), (scene.truth, truth, "image")]
