"""Focus stacks under File > Open Sample: two real ones that are shipped, and generated ones whose truth is known."""

from pathlib import Path

import numpy as np
from napari.types import LayerDataTuple

from qmcif_engine import make_focus_stack, make_lazy_focus_stack, open_stack, read_image

SAMPLES = Path(__file__).parent / "samples"
"""Real stacks, each in a folder with its license."""

LARGE_SHAPE = (8192, 8192)
N_LARGE_LEVELS = 4


def read_board_layers() -> list[LayerDataTuple]:
    """Read seven photographs of a circuit board, aligned, from the front to the back."""
    paths = sorted((SAMPLES / "board").glob("*.jpg"))
    images = np.stack([read_image(path).samples for path in paths])
    return [(images, {"name": "circuit board", "rgb": True, "axis_labels": ("focus", "y", "x")}, "image")]


def read_neuron_layers() -> list[LayerDataTuple]:
    """Read a confocal stack of a neuron; its file holds no pixel sizes, so that the layer has none."""
    with open_stack(SAMPLES / "neuron" / "neuron.tif") as stack:
        planes = np.asarray(stack.to_dask())
    # the soma is many times as bright as the dendrites: shown up to its own level, they would be black
    limits = tuple(float(level) for level in np.percentile(planes, (1, 99.8)))
    look = {"rgb": False, "colormap": "gray", "contrast_limits": limits}
    return [(planes, {"name": "neuron", **look, "axis_labels": ("z", "y", "x")}, "image")]


def make_color_stack_layers() -> list[LayerDataTuple]:
    """Generate five images of one scene, each sharp at another depth, and the scene sharp everywhere.

    The truth comes hidden, since it is there to compare a fusion with, and first, since the viewer selects the last layer.
    """
    scene = make_focus_stack(n_images=5, shape=(512, 768), seed=0)
    stack = {"name": "focus stack", "rgb": True, "axis_labels": ("focus", "y", "x")}
    truth = {"name": "focus stack truth", "rgb": True, "axis_labels": ("y", "x"), "visible": False}
    return [(scene.truth, truth, "image"), (scene.images, stack, "image")]


def make_gray_stack_layers() -> list[LayerDataTuple]:
    """Generate a z-stack as a microscope gives it: seven gray planes of 16 bits, 4 micrometers apart, and their truth, hidden."""
    scene = make_focus_stack(n_images=7, shape=(512, 512), seed=4, dtype=np.uint16, is_color=False)
    space = {"units": ("micrometer",) * 3, "scale": (4.0, 0.5, 0.5), "axis_labels": ("z", "y", "x")}
    flat = {name: values[1:] for name, values in space.items()}
    look = {"rgb": False, "colormap": "gray", "contrast_limits": (0, 65535)}
    stack = {"name": "z-stack", **look, **space}
    truth = {"name": "z-stack truth", "visible": False, **look, **flat}
    return [(scene.truth, truth, "image"), (scene.images, stack, "image")]


def make_large_stack_layers() -> list[LayerDataTuple]:
    """Describe two images of 67 megapixels that are generated where one looks."""
    # each level is generated at its own size: a coarse view computes no fine pixels
    levels = [make_lazy_focus_stack(shape=LARGE_SHAPE, n_images=2, step=2**level) for level in range(N_LARGE_LEVELS)]
    return [(levels, {"name": "large focus stack", "rgb": True, "multiscale": True, "axis_labels": ("focus", "y", "x")}, "image")]
