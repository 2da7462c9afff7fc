"""Layers as the readers of microscope files make them: lazy, with their own axes, scale and colors."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from napari.layers import Image

from napari_qmcif.layers_in import choose_planes, guess_focus_axis
from qmcif_engine import fuse
from qmcif_engine.stack.synthetic import make_focus_stack

czi = pytest.importorskip("pylibCZIrw.czi", reason="the extra microscopes is not installed")


def read_plane(path, z):
    with czi.open_czi(str(path)) as file:
        return file.read(plane={"Z": z, "C": 0, "T": 0})[..., 0]


def test_lazy_layer_of_a_czi_is_fused_along_its_focus_axis(tmp_path):
    images = make_focus_stack(n_images=3, shape=(48, 56), is_color=False, dtype=np.uint16).images
    path = tmp_path / "cells.czi"
    with czi.create_czi(str(path)) as file:
        for z, image in enumerate(images):
            file.write(np.ascontiguousarray(image[..., np.newaxis]), plane={"Z": z, "C": 0, "T": 0})
    lazy = da.map_blocks(
        lambda block_info: read_plane(path, block_info[None]["chunk-location"][0])[np.newaxis],
        chunks=((1, 1, 1), (48,), (56,)),
        dtype=np.uint16,
    )
    layer = Image(lazy, rgb=False, name="cells.czi", scale=(0.5, 0.1, 0.1), units="um", axis_labels=("z", "y", "x"), colormap="green")

    stack = choose_planes(layer, guess_focus_axis(layer), point=(0, 0, 0))

    assert (stack.n_images, stack.dtype) == (3, np.uint16)
    np.testing.assert_allclose(stack.placement.transform.scale, (0.1, 0.1))
    computed = [np.asarray(image) for image in stack.cut_images()]
    np.testing.assert_array_equal(fuse(computed).fused, fuse(list(images)).fused)
