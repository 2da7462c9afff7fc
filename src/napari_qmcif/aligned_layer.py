"""The images of a stack as they are fused, aligned and evened out, as one lazy layer to look at."""

from __future__ import annotations

from typing import Any

from napari.types import LayerDataTuple

from napari_qmcif.aligning import WorkerTalk, align_images
from napari_qmcif.chosen_stack import ChosenStack, name_axis
from napari_qmcif.layers import describe_fused
from qmcif_engine import open_stack, prepare_stack, stack_to_dask


def make_aligned_layer(stack: ChosenStack, *, job: WorkerTalk) -> list[LayerDataTuple]:
    """Return the layer; what moved is estimated here, samples are moved where one looks. Runs in a worker thread."""
    images = stack.cut_images()
    found = align_images(images, stack, job=job)
    # opened again: the job that could be asked whether to go on will be over
    prepared = prepare_stack(open_stack(_drop_opacity(images, stack)), transforms=found.transforms, correction=found.correction)
    look = describe_fused(stack, part="aligned", record={"n_images": stack.n_images, "align": stack.align})
    return [LayerDataTuple((stack_to_dask(prepared), {**look, **_place(stack)}, "image"))]


def _drop_opacity(images: list[Any], stack: ChosenStack) -> list[Any]:
    return [image[..., :3] for image in images] if stack.n_channels > 3 else images


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
