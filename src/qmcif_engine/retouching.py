"""Fusion anew where a person says which image to take, and only there.

A person paints names of images over the decisions; what the stroke touches is blended as the fusion blends, and every other pixel stays
as it was, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from qmcif_engine.arrays import IndexArray, SampleArray
from qmcif_engine.compiled import single_thread
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.decision import energy
from qmcif_engine.decision.composition import composition_reach_px
from qmcif_engine.decision.validity import ALONG_PX, border_sight_px
from qmcif_engine.errors import InvalidImageError
from qmcif_engine.rules import Decision
from qmcif_engine.stack.deciding import choose_focus_range
from qmcif_engine.stack.samples import FocusRanges, GivenRanges, check_number
from qmcif_engine.stack.stack import Stack, as_stack, sample_stack
from qmcif_engine.stack.window import Window
from qmcif_engine.tiles.companions import compose_companions, measure_companion_noise, shown_channels
from qmcif_engine.tiles.planes import WindowPlanes, hold_window


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
    stack = as_stack(images)
    if stack.decides_each:
        msg = (
            "a stack whose channels are decided on one by one was given; one decision is needed to correct: retouch each channel by itself"
        )
        raise InvalidImageError(msg)
    settings = FusionConfig() if config is None else config
    asked = _check_arguments(stack, labels, fused=fused, source_index=source_index, window=window)
    bounds = choose_focus_range(stack, focus_range)
    shape = (stack.image_shape[0], stack.image_shape[1])
    reach_px = composition_reach_px(settings.decision)
    outer = asked.grown(reach_px, shape)
    seen = outer.grown(reach_px, shape)  # what a blend looks at
    decided = source_index[seen.slices].astype(np.uint16)
    index = _corrected(decided, labels[seen.slices], stack=stack, window=seen, focus_range=bounds, config=settings)
    result = RetouchedWindow(outer, fused[outer.slices].copy(), source_index[outer.slices].astype(np.uint16), bounds)
    # painted pixels count even where the engine had chosen the same image: it may have blended another one in
    is_near_change = ndimage.maximum_filter(index != decided, 2 * reach_px + 1, mode="constant")
    is_touched = is_near_change | (labels[seen.slices] > 0)
    if not is_touched.any():
        return result
    inner = outer.relative_to(seen)
    decision = Decision(window=seen, index=index, confidence=np.ones(index.shape, np.float32))
    blended = _compose(stack, decision, inner=inner, has_companions=fused.shape != stack.image_shape, config=settings)
    is_touched = is_touched[inner.slices]
    return replace(
        result,
        fused=np.where(is_touched.reshape(*outer.shape, *[1] * (fused.ndim - 2)), blended, result.fused),
        source_index=np.where(is_touched, index[inner.slices], result.source_index),
    )


def _check_arguments(
    stack: Stack, labels: NDArray[Any], *, fused: SampleArray, source_index: IndexArray, window: tuple[int, int, int, int] | None
) -> Window:
    """Return the window once everything is known to belong together."""
    check_number(stack.n_images)
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
    shape, companions = tuple(stack.image_shape), stack.further_planes
    if companions is None:
        return [shape]
    further = tuple(companions.image_shape)
    return [shape, further if len(further) == 3 else (*shape[:2], (*shape, 1)[2] + 1)]


def _corrected(
    decided: IndexArray, labels: NDArray[Any], *, stack: Stack, window: Window, focus_range: FocusRanges, config: FusionConfig
) -> IndexArray:
    """Return the decisions with those of a person in their place, where the image may give the pixel."""
    n_images = stack.n_images
    if labels.min() < 0 or labels.max() > n_images or decided.max() >= n_images:
        msg = (
            f"labels from {labels.min()} to {labels.max()} and a source index up to {decided.max()} were given for {n_images} images; "
            f"labels from 0 to {n_images} and an index below {n_images} are needed: use the images that were fused"
        )
        raise InvalidImageError(msg)
    index: IndexArray = np.where(labels > 0, labels - np.ones((), labels.dtype), decided).astype(np.uint16)
    shape = (stack.image_shape[0], stack.image_shape[1])
    if not labels.any() or not (stack.has_validity or any(window.ends_of(shape))):
        return index
    # so much of the image around it that what is found does not depend on the window
    outer = window.grown(max(2 * ALONG_PX, border_sight_px(config.decision.dark_border_px)), shape)
    planes = WindowPlanes(stack, hold_window(stack, outer), outer, focus_range=focus_range, config=config)
    for label in np.unique(labels[labels > 0]):
        choosable = planes.choosable(int(label) - 1, window.relative_to(outer))
        if choosable is not None:
            is_refused = (labels == label) & ~choosable
            index[is_refused] = decided[is_refused]
    return index


def _compose(stack: Stack, decision: Decision, *, inner: Window, has_companions: bool, config: FusionConfig) -> SampleArray:
    """Return the inner window: the image, all channels where only some decided, or the image with its opacity as the last channel."""
    images = hold_window(stack, decision.window)
    with single_thread():
        (noise,) = _noise_of(stack, config, shown=())
        fused = energy.RULE.compose(images, decision, inner=inner, noise=noise, config=config)
        if not has_companions:
            return fused
        companions: Any = stack.further_planes
        shown = shown_channels(stack, companions)
        further = compose_companions(
            hold_window(companions, decision.window),
            decision,
            rule=energy.RULE,
            fused=fused,
            shown=shown,
            inner=inner,
            noise=_noise_of(companions, config, shown=shown),
            config=config,
        )
    if further.ndim == 3:
        return further
    joined: Any = np.dstack([fused, further])
    samples: SampleArray = joined
    return samples


_noises: WeakKeyDictionary[Stack, dict[tuple[FusionConfig, tuple[int, ...]], tuple[float, ...]]] = WeakKeyDictionary()
"""Noise of stacks, which every stroke asks for again; a few numbers for each stack that is still open."""


def _noise_of(stack: Stack, config: FusionConfig, *, shown: tuple[int, ...]) -> tuple[float, ...]:
    known = _noises.setdefault(stack, {})
    if (config, shown) not in known:
        known[config, shown] = measure_companion_noise(sample_stack(stack), config, shown=shown)
    return known[config, shown]
