"""Fusion anew where a person says which image to take, and only there.

A person paints names of images over the decisions; what the stroke touches is blended as the fusion blends, and every other pixel stays
as it was, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import ndimage

from qmcif_engine.cleanup.blend_reach import reach_of_blend
from qmcif_engine.cleanup.blending import blend_along_edges
from qmcif_engine.cleanup.dark_border import REACH_PX, find_dark_borders, sight_across
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import InvalidImageError
from qmcif_engine.kernels.boxes import TEXTURE_PX
from qmcif_engine.method.focus import Borders
from qmcif_engine.method.fusion import LOW_PASS_REACH_PX, Blend, compose, crop_blend, select_samples, without_invalid
from qmcif_engine.method.patches import cells_of, edge_band
from qmcif_engine.stack.samples import FULL_SCALE, PlaneStack, as_stack, to_planes
from qmcif_engine.stack.stack import ArrayStack, Stack, check_number, companions_of, settle_range
from qmcif_engine.stack.window import Window
from qmcif_engine.tiles.window_images import WindowImages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray, SampleArray
    from qmcif_engine.stack.samples import FocusRanges, GivenRanges


@dataclass(frozen=True, slots=True)
class RetouchedWindow:
    """What a stroke may have changed: the stroke's window grown by how far a blend reaches.

    Attributes
    ----------
    window : Window
        Where the arrays belong; ``window.slices`` cuts the place out of the whole image.
    fused : ndarray, shape (h, w) or (h, w, c)
    source_index : ndarray of uint16, shape (h, w)
    focus_range : FocusRange, or tuple of one per channel
        The range that was used, to be handed to the next call.
    """

    window: Window
    fused: SampleArray
    source_index: IndexArray
    focus_range: FocusRanges


def retouch(
    images: Sequence[SampleArray] | SampleArray | Stack,
    labels: NDArray[Any],
    *,
    fused: SampleArray,
    source_index: IndexArray,
    window: tuple[int, int, int, int] | None = None,
    focus_range: GivenRanges | None = None,
    config: FusionConfig | None = None,
) -> RetouchedWindow:
    """Fuse one window again, with the images that a person chose.

    The answer depends on the labels alone, not on the order of the strokes: pass the image and the decisions as the fusion gave them,
    every time. Where the labels say nothing new within the reach of a blend, the image comes back bit for bit; so taking a stroke
    back restores it.

    Parameters
    ----------
    images : sequence of ndarray, one ndarray of shape (N, Y, X) or (N, Y, X, 3), or Stack
        What was fused. Only the window is read of a stack, such as `qmcif_engine.open_stack` gives; images in memory are checked as
        `qmcif_engine.fuse` checks them, which takes time for large ones.
    labels : ndarray of int, shape (Y, X)
        0 leaves the decision as it was; k takes image k, counted from 1.
    fused : ndarray, shape (Y, X) or (Y, X, c)
        The fused image before any retouching; it may have the stack's opacity as a last channel, or all channels where only some decided.
    source_index : ndarray of uint16, shape (Y, X)
        The decisions before any retouching, counted from 0.
    window : tuple of int, optional
        Top, left, bottom and right of the pixels whose labels changed; the whole image where it is left out.
    focus_range : tuple of float, optional
        `FusionResult.focus_range` of the fusion; settled again, from many samples, where it is left out.
    config : FusionConfig, optional
        The settings of the fusion, of which the blend matters here.

    Returns
    -------
    RetouchedWindow

    Raises
    ------
    InvalidImageError
        When the arrays do not belong together.
    """
    stack = images if isinstance(images, Stack) else ArrayStack(as_stack(images))
    if stack.decides_each:
        msg = (
            "a stack whose channels are decided on one by one was given; one decision is needed to correct: retouch each channel by itself"
        )
        raise InvalidImageError(msg)
    settings = FusionConfig() if config is None else config
    asked = _check_arguments(stack, labels, fused=fused, source_index=source_index, window=window)
    bounds = settle_range(stack, focus_range)
    reach = reach_of_blend(settings.decision)
    shape = (stack.image_shape[0], stack.image_shape[1])
    outer = asked.grown(reach, shape)
    seen = outer.grown(reach + TEXTURE_PX // 2, shape)  # what a blend looks at
    decided = source_index[seen.slices].astype(np.uint16)
    index = _corrected(decided, labels[seen.slices], n_images=stack.n_images)
    result = RetouchedWindow(outer, fused[outer.slices].copy(), source_index[outer.slices].astype(np.uint16), bounds)
    # painted pixels count even where the engine had chosen the same image: it may have blended another one in
    is_near_change = ndimage.maximum_filter(index != decided, 2 * reach + 1, mode="constant")
    is_touched = is_near_change | (labels[seen.slices] > 0)
    if not is_touched.any():
        return result
    sources = WindowImages(stack, seen)
    near_edges = edge_band(index, reach_px=2 * settings.decision.blend_radius_px)
    guide = _mean_brightness(sources, near_edges & is_touched, focus_range=bounds, settings=settings)
    blocks = PlaneStack(sources, bounds, representation=settings.focus.representation)
    ends = sources.find_frame_ends(settings.decision)
    is_copied = None if fused.shape != stack.image_shape else _find_copied(sources, decided, fused[seen.slices]) & ~is_near_change
    is_end = None if ends is None else ends.find(index)
    blend = blend_along_edges(index, blocks, guide, settings.decision, is_end=is_end, is_exact=is_copied)
    validity = sources.validity or _outside_dark_borders(stack, seen, focus_range=bounds, settings=settings)
    if validity is not None:
        blend = without_invalid(blend, validity if ends is None else ends.fade)
    inner = outer.relative_to(seen)
    cropped, is_touched = crop_blend(blend, inner), is_touched[inner.slices]
    blended = compose(sources, cropped, inner=inner)
    if fused.shape != stack.image_shape:
        blended = _with_companions(blended, stack, blend=cropped, window=outer)
    return replace(
        result,
        fused=np.where(is_touched.reshape(*outer.shape, *[1] * (fused.ndim - 2)), blended, result.fused),
        source_index=np.where(is_touched, cropped.source_index, result.source_index),
    )


def _check_arguments(
    stack: Stack, labels: NDArray[Any], *, fused: SampleArray, source_index: IndexArray, window: tuple[int, int, int, int] | None
) -> Window:
    """Return the window once everything is known to belong together."""
    check_number(stack)
    shape = tuple(stack.image_shape[:2])
    for name, plane in (("labels", labels), ("source_index", source_index)):
        if plane.shape != shape or plane.dtype.kind not in "iu":
            msg = f"{name} is {plane.dtype} of shape {plane.shape}; whole numbers of the images' shape {shape} are needed: pass those"
            raise InvalidImageError(msg)
    if fused.dtype != stack.dtype or tuple(fused.shape) not in _possible_shapes(stack):
        msg = (
            f"the fused image is {fused.dtype} of shape {fused.shape}; {stack.dtype} of shape {tuple(stack.image_shape)} as the images "
            "are is needed: pass the images it was fused from"
        )
        raise InvalidImageError(msg)
    asked = Window.whole(shape) if window is None else Window(*(int(side) for side in window))
    if not (0 <= asked.top < asked.bottom <= shape[0] and 0 <= asked.left < asked.right <= shape[1]):
        msg = f"the window {tuple(asked)} was given; top, left, bottom and right inside {shape} are needed: cut it to the image"
        raise InvalidImageError(msg)
    return asked


def _possible_shapes(stack: Stack) -> list[tuple[int, ...]]:
    """Return the shapes that a fused image of the stack may have: with the channels that decided, with opacity, with all channels."""
    shape, companions = tuple(stack.image_shape), companions_of(stack)
    if companions is None:
        return [shape]
    further = tuple(companions.image_shape)
    return [shape, further if len(further) == 3 else (*shape[:2], (*shape, 1)[2] + 1)]


def _corrected(decided: IndexArray, labels: NDArray[Any], *, n_images: int) -> IndexArray:
    """Return the decisions with those of a person in their place."""
    if labels.min() < 0 or labels.max() > n_images or decided.max() >= n_images:
        msg = (
            f"labels from {labels.min()} to {labels.max()} and a source index up to {decided.max()} were given for {n_images} images; "
            f"labels from 0 to {n_images} and an index below {n_images} are needed: use the images that were fused"
        )
        raise InvalidImageError(msg)
    index: IndexArray = np.where(labels > 0, labels - np.ones((), labels.dtype), decided).astype(np.uint16)
    return index


def _find_copied(images: WindowImages, decided: IndexArray, fused: SampleArray) -> BoolArray:
    """Return which pixels the fusion took whole from the image it chose: they stay whole where nobody decided otherwise."""
    is_equal = select_samples(images, decided, window=Window.whole(decided.shape)) == fused
    return np.asarray(is_equal if is_equal.ndim == 2 else is_equal.all(axis=2))


def _mean_brightness(images: WindowImages, is_wanted: BoolArray, *, focus_range: FocusRanges, settings: FusionConfig) -> FloatArray:
    """Return the guide of the blend, the mean over images and channels on the 0-1 scale, as far as the wanted pixels need it.

    A stroke has a long edge but touches little ground: of many images, most samples need not be looked at.
    """
    guide = np.zeros(is_wanted.shape, np.float32)
    for cell in cells_of(is_wanted):
        near = cell.grown(2 * settings.decision.blend_radius_px, (is_wanted.shape[0], is_wanted.shape[1]))
        total = np.zeros(near.shape)
        for image in images.cropped(near):
            total += to_planes(image, focus_range, representation=settings.focus.representation).mean(axis=0, dtype=np.float64)
        guide[near.slices] = total / (len(images) * FULL_SCALE)
    return guide


def _outside_dark_borders(
    stack: Stack, window: Window, *, focus_range: FocusRanges, settings: FusionConfig
) -> Callable[[int], BoolArray] | None:
    """Return what tells which pixels of a window belong to no dark border; None where it lies within the image or there are none.

    Borders are looked for in so much more of the image that they do not depend on the window.
    """
    shape, depth = (stack.image_shape[0], stack.image_shape[1]), settings.focus.dark_border_px
    if not any(window.ends_of(shape)):
        return None
    seen = window.grown(max(2 * REACH_PX, sight_across(depth)), shape)
    blocks = PlaneStack(WindowImages(stack, seen), focus_range, representation=settings.focus.representation)
    found = find_dark_borders(blocks, depth_px=depth, borders=Borders(*seen.ends_of(shape)))
    return None if found is None else lambda number: found.validity(number)[window.relative_to(seen).slices]


def _with_companions(blended: SampleArray, stack: Stack, *, blend: Blend, window: Window) -> SampleArray:
    """Return all channels of the window where only some decided, or the image with its opacity as the last channel."""
    companions: Any = companions_of(stack)
    seen = window.grown(LOW_PASS_REACH_PX, (stack.image_shape[0], stack.image_shape[1]))
    planes: Any = [blended, compose(WindowImages(companions, seen), blend, inner=window.relative_to(seen))]
    joined: SampleArray = planes[1] if planes[1].ndim == 3 else np.dstack(planes)
    return joined
