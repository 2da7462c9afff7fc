"""The images of a stack as they are fused, aligned and evened out, as one lazy layer to look at."""

from __future__ import annotations

from typing import Any

import numpy as np
from napari.types import LayerDataTuple
from numpy.typing import NDArray

from napari_qmcif.aligning import WorkerTalk, align_images
from napari_qmcif.chosen_stack import ChosenStack, name_axis
from napari_qmcif.layers import describe_fused
from qmcif_engine import Stack, Window, open_stack, prepare_stack

CHUNK_PX = 1024


def make_aligned_layer(stack: ChosenStack, *, job: WorkerTalk) -> list[LayerDataTuple]:
    """Return the layer; what moved is estimated here, samples are moved where one looks. Runs in a worker thread."""
    images = stack.cut_images()
    found = align_images(images, stack, job=job)
    # opened again: the job that could be asked whether to go on will be over
    prepared = prepare_stack(open_stack(_drop_opacity(images, stack)), transforms=found.transforms, correction=found.correction)
    look = describe_fused(stack, part="aligned", record={"n_images": stack.n_images, "align": stack.align})
    return [LayerDataTuple((to_lazy_array(prepared), {**look, **_place(stack)}, "image"))]


def _drop_opacity(images: list[Any], stack: ChosenStack) -> list[Any]:
    return [image[..., :3] for image in images] if stack.n_channels > 3 else images


def to_lazy_array(stack: Stack) -> Any:  # noqa: ANN401 - a dask array
    """Return all images as one array whose blocks are read when they are shown."""
    import dask.array as da

    shape = (stack.n_images, *stack.image_shape)
    chunks = da.core.normalize_chunks((1, CHUNK_PX, CHUNK_PX, *shape[3:]), shape, dtype=stack.dtype)

    def read_block(*, block_info: dict[Any, Any]) -> NDArray[Any]:
        place = block_info[None]["array-location"]
        window = Window(place[1][0], place[2][0], place[1][1], place[2][1])
        return stack.read(place[0][0], window)[np.newaxis]

    return da.map_blocks(read_block, chunks=chunks, dtype=stack.dtype, meta=np.empty((0,) * len(shape), stack.dtype))


def _place(stack: ChosenStack) -> dict[str, Any]:
    """Return the layer arguments that put the images over the fused image, one behind the other."""
    if stack.axis is None:
        return stack.placement.with_depth(1.0, start=0.0, unit="pixel", label="focus")
    layer = stack.layers[0]
    label = name_axis(layer, stack.axis).removeprefix("axis ")
    start = float(layer.translate[stack.axis])
    return stack.placement.with_depth(
        stack.z_step[0], start=start, unit=str(layer.units[stack.axis]), label="focus" if label.isdigit() else label
    )
