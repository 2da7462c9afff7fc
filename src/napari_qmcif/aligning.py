"""Images of layers as stacks of the engine: read, aligned and evened out, and advice on that. What takes a worker runs in its thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

import numpy as np
from napari.layers import Layer
from napari.types import LayerDataTuple
from numpy.typing import NDArray

from napari_qmcif.layers_in import N_COLORS, ChosenStack, list_axes, stack_arrays
from napari_qmcif.layers_out import describe_fused
from napari_qmcif.worker import EngineWorker
from qmcif_engine import FusionProgress, QmcifError, Stack, open_stack, prepare_stack, suggest_alignment, suggest_even_exposure


def drop_opacity(image: Any) -> Any:  # noqa: ANN401 - any array
    """Return an image without its opacity, lazy where it is lazy."""
    return image[..., :N_COLORS] if image.ndim == 3 else image


def read_samples(image: Any, *, job: EngineWorker) -> NDArray[Any]:  # noqa: ANN401 - any array
    """Return an image in memory; of a lazy one, no further block is begun once the job is cancelled."""
    job.check_cancelled()
    if isinstance(image, np.ndarray):
        return image

    def go_on(block: NDArray[Any]) -> NDArray[Any]:
        job.check_cancelled()
        return block

    # Dask's threads: a client that is active elsewhere could not ask this job
    # meta is given, else dask would try the function on an empty block
    samples: NDArray[Any] = image.map_blocks(go_on, meta=np.empty((0,) * image.ndim, image.dtype)).compute(scheduler="threads")
    return samples


def _open_images(images: Sequence[Any], *, n_channels: int, job: EngineWorker) -> Stack:
    """Return images as a stack that is read by window, until the job is cancelled."""
    # four channels are colors and opacity: the colors decide, opacity follows
    options: dict[str, Any] = {"axes": "YXS", "channels": list(range(1, N_COLORS + 1))} if n_channels > N_COLORS else {}
    # the job is asked at every window that is read, so that Cancel is noticed while a disk is slow
    return open_stack(images, **options).watched(job.check_cancelled)


def open_channels(stacks: Sequence[ChosenStack], decided_by: int, *, job: EngineWorker) -> Stack:
    """Return several channels of one scene as a stack in which one of them decides and all of them follow."""
    channels = [stack.cut_images() for stack in stacks]
    joined = [stack_arrays(images, -1) for images in zip(*channels, strict=True)]
    return open_stack(joined, axes="YXC", channels=[decided_by + 1]).watched(job.check_cancelled)


def align_images(images: Sequence[Any], stack: ChosenStack, *, job: EngineWorker) -> Stack:
    """Return the images of a chosen stack, or what was read of them, aligned and evened out as its fields specify."""
    return prepare(_open_images(images, n_channels=stack.n_channels, job=job), stack, job=job)


def prepare(opened: Stack, stack: ChosenStack, *, job: EngineWorker) -> Stack:
    """Return a stack aligned and evened out as the chosen stack specifies; movement and brightness are estimated once."""

    def report(done: int, total: int) -> None:
        job.report(FusionProgress(done, total))

    def estimate(words: str, **wanted: Any) -> Stack:  # noqa: ANN401 - what is wanted of the engine
        job.note(f"{words} {stack.n_images} images")
        known: dict[str, Any] = {"reference": stack.reference, "on_progress": report, "check_cancelled": job.check_cancelled}
        return prepare_stack(opened, **known, **wanted)

    transforms, correction = stack.transforms, None
    if transforms is None and stack.align != "none":
        # previews and runs share the estimate, which takes longer than a preview
        transforms = _once(stack, stack.align, lambda: estimate("aligning", align=stack.align).transforms)
    if stack.even_exposure:
        # compared once they coincide: an edge that moved would count as a difference of brightness
        compare = partial(estimate, "comparing the brightness of", transforms=transforms, even_exposure=True)
        correction = _once(stack, f"exposure, {stack.align}", lambda: compare().correction)
    return prepare_stack(opened, transforms=transforms, correction=correction)


def make_aligned_layer(stack: ChosenStack, *, job: EngineWorker) -> list[LayerDataTuple]:
    """Return the images as they are fused as a layer: what moved is estimated here, samples are moved where one looks."""
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
    label = list_axes(layer)[stack.axis]
    place: dict[str, Any] = {"start": float(layer.translate[stack.axis]), "unit": str(layer.units[stack.axis])}
    return stack.placement.with_depth(stack.z_step[0], **place, label="focus" if label.isdigit() else label)


class Advice(NamedTuple):
    """What should be done before a stack is fused, in words, and the options that do it."""

    text: str
    changes: dict[str, Any]


def advise(stack: ChosenStack, *, job: EngineWorker) -> Advice:
    """Return advice for a stack whose images visibly moved or differ in brightness, as far as nothing is done about it."""
    opened = _open_images(stack.cut_images(), n_channels=stack.n_channels, job=job)
    moved = stack.align == "none" and stack.transforms is None and _once(stack, "hint", lambda: _suggest(suggest_alignment, opened))
    differs = not stack.even_exposure and _once(stack, "exposure hint", lambda: _suggest(suggest_even_exposure, opened))
    # an interrupted suggestion is empty, which must not be taken for none
    job.check_cancelled()
    words = [f"neighboring images moved by about {moved.movement_px:.0f} px"] if moved else []
    words += [f"brightness or color differ by about {100 * differs.difference:.0f} %"] if differs else []
    changes = {"align": moved.model.value} if moved else {}
    return Advice("; ".join(words), changes | ({"even_exposure": True} if differs else {}))


def _suggest(find: Callable[[Stack], Any], opened: Stack) -> Any:  # noqa: ANN401 - a suggestion, or None
    try:
        return find(opened)
    except QmcifError:  # the fusion itself will report what is wrong
        return None


_found: WeakKeyDictionary[Layer, dict[str, tuple[list[ref[Any]], tuple[Any, ...], Any]]] = WeakKeyDictionary()
"""What was found out stays known while the layers hold the same arrays, so that previews and runs share it."""


def _once(stack: ChosenStack, kind: str, find: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever is looked for
    """Return what was found before for the same images, else find it."""
    known = _found.setdefault(stack.layers[0], {})
    cut = (stack.axis, stack.index, stack.left_out, stack.reference, stack.transforms)
    # weakly: what is known of an array must not keep it in memory
    arrays = [ref(array) for array in stack.arrays]
    # of one array there is one such reference, so that these can be compared where arrays cannot
    if kind not in known or known[kind][1] != cut or list(map(id, known[kind][0])) != list(map(id, arrays)):
        known[kind] = arrays, cut, find()
    return known[kind][2]
