"""Chosen layers as the engine takes them: watched for Cancel, cut, aligned and evened out; everything here runs in a worker thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

import numpy as np
from napari.layers import Layer
from napari.types import LayerDataTuple

from napari_qmcif.chosen_stack import N_COLORS, ChosenStack, drop_opacity, name_axis
from napari_qmcif.layers import describe_fused
from napari_qmcif.worker import EngineWorker
from qmcif_engine import FusionProgress, QmcifError, Stack, Transforms, open_stack, prepare_stack, suggest_alignment, suggest_even_exposure

ALIGNMENTS = ("none", "translation", "similarity", "affine", "homography")


def open_images(images: Sequence[Any], *, n_channels: int, job: EngineWorker) -> Stack:
    """Return images as a stack that is read by window, until the job is cancelled."""
    # four channels are colors and opacity: the colors decide, opacity follows
    options: dict[str, Any] = {"axes": "YXS", "channels": list(range(1, N_COLORS + 1))} if n_channels > N_COLORS else {}
    # the job is asked at every window that is read, so that Cancel is heard while a disk is slow
    return open_stack(images, **options).watched(job.check_cancelled)


def open_channels(stacks: Sequence[ChosenStack], decided_by: int, *, job: EngineWorker) -> Stack:
    """Return several channels of one scene as a stack in which one of them decides and all of them follow."""
    channels = [stack.cut_images() for stack in stacks]
    # dask is imported only where a layer is lazy
    if all(isinstance(image, np.ndarray) for images in channels for image in images):
        join: Callable[..., Any] = np.stack
    else:
        from dask.array import stack as join
    joined = [join(images, axis=-1) for images in zip(*channels, strict=True)]
    return open_stack(joined, axes="YXC", channels=[decided_by + 1]).watched(job.check_cancelled)


def align_images(images: Sequence[Any], stack: ChosenStack, *, job: EngineWorker) -> Stack:
    """Return the images of a chosen stack, or what was read of them, aligned and evened out as it says."""
    return prepare(open_images(images, n_channels=stack.n_channels, job=job), stack, job=job)


def prepare(opened: Stack, stack: ChosenStack, *, job: EngineWorker) -> Stack:
    """Return a stack aligned and evened out as the chosen stack says; what moved, and how bright images are, is estimated once."""
    if not stack.is_prepared:
        return opened

    def tell(done: int, total: int) -> None:
        job.report(FusionProgress(done, total))

    def estimate() -> Transforms | None:
        job.note(f"aligning {stack.n_images} images")
        return prepare_stack(
            opened, align=stack.align, reference=stack.reference, on_progress=tell, check_cancelled=job.check_cancelled
        ).transforms

    transforms = stack.transforms
    if transforms is None and stack.align != "none":
        # previews and runs share the estimate, which takes longer than a preview
        transforms = _once(stack, stack.align, estimate)
    if not stack.even_exposure:
        return prepare_stack(opened, transforms=transforms)

    # compared once they coincide: an edge that moved would count as a difference of brightness
    def compare() -> Any:  # noqa: ANN401 - a correction of the engine
        job.note(f"comparing the brightness of {stack.n_images} images")
        return prepare_stack(opened, transforms=transforms, reference=stack.reference, even_exposure=True).correction

    return prepare_stack(opened, transforms=transforms, correction=_once(stack, f"exposure, {stack.align}", compare))


def make_aligned_layer(stack: ChosenStack, *, job: EngineWorker) -> list[LayerDataTuple]:
    """Return the layer; what moved is estimated here, samples are moved where one looks. Runs in a worker thread."""
    images = stack.cut_images()
    found = align_images(images, stack, job=job)
    # opened again: the job that could be asked whether to go on will be over
    opened = open_stack([drop_opacity(image) for image in images])
    prepared = prepare_stack(opened, transforms=found.transforms, correction=found.correction)
    look = describe_fused(stack, part="aligned", record={"n_images": stack.n_images, "align": stack.align})
    return [LayerDataTuple((prepared.to_dask(), {**look, **_place_behind(stack)}, "image"))]


def _place_behind(stack: ChosenStack) -> dict[str, Any]:
    """Return the layer arguments that put the images over the fused image, one behind the other."""
    if stack.axis is None:
        return stack.placement.with_depth(1.0, start=0.0, unit="pixel", label="focus")
    layer = stack.layers[0]
    label = name_axis(layer, stack.axis).removeprefix("axis ")
    start = float(layer.translate[stack.axis])
    return stack.placement.with_depth(
        stack.z_step[0], start=start, unit=str(layer.units[stack.axis]), label="focus" if label.isdigit() else label
    )


def hint_at_preparation(stack: ChosenStack, *, job: EngineWorker) -> str:
    """Return advice for a stack whose images visibly moved or differ in brightness, as far as nothing is done about it."""
    opened = open_images(stack.cut_images(), n_channels=stack.n_channels, job=job)

    def find_movement() -> str:
        job.note("looking whether the images moved")
        found = suggest_alignment(opened)
        if found is None:
            return ""
        return f"neighboring images look misaligned by about {found.movement_px:.0f} px: set Align to {found.model.value}"

    def find_difference() -> str:
        job.note("looking whether the images are equally bright")
        found = suggest_even_exposure(opened)
        return (
            "" if found is None else f"the images differ in brightness or color by about {100 * found.difference:.0f} %: set Even exposure"
        )

    is_moved = stack.align != "none" or stack.transforms is not None
    hints = ["" if is_moved else _judge(stack, "hint", find_movement)]
    hints.append("" if stack.even_exposure else _judge(stack, "exposure hint", find_difference))
    # a judgment that was cut short is empty, which must not pass for a good sign
    job.check_cancelled()
    return "; ".join(hint for hint in hints if hint)


def _judge(stack: ChosenStack, kind: str, judge: Callable[[], str]) -> str:
    try:
        text: str = _once(stack, kind, judge)
    except QmcifError:  # the fusion itself will say what is wrong, or that it was cancelled
        return ""
    return text


class _Found(NamedTuple):
    """Something found out about a stack, and what it was found from."""

    arrays: tuple[ref[Any], ...]
    cut: tuple[Any, ...]
    value: Any


_found: WeakKeyDictionary[Layer, dict[str, _Found]] = WeakKeyDictionary()
"""What was found out stays known while the layers hold the same arrays, so that previews and runs share it."""


def _once(stack: ChosenStack, kind: str, find: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever is looked for
    """Return what was found before for the same images, else find it."""
    known = _found.setdefault(stack.layers[0], {})
    cut = (stack.axis, stack.index, stack.left_out, stack.reference, stack.transforms)
    last = known.get(kind)
    # a new array may get the address of one that is gone, but then the reference is dead and matches nothing
    if last is not None and last.cut == cut and [id(array()) for array in last.arrays] == [id(array) for array in stack.arrays]:
        return last.value
    value = find()
    # weakly: what is known of an array must not keep it in memory
    known[kind] = _Found(tuple(ref(array) for array in stack.arrays), cut, value)
    return value
