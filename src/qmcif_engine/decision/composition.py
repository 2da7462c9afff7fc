"""Composition: samples are copied, depth edges are feathered, and where brightness would jump visibly it is blended."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from qmcif_engine.decision.filters import reach_of, smooth, unit_of
from qmcif_engine.stack.samples import to_samples

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray, SampleArray
    from qmcif_engine.config.fusion_config import DecisionConfig

LOW_PASS_PX = 2.0
"""What is wider than this is brightness, what is finer is detail."""

DETAIL_WINDOW_PX = 2.0
"""Window of the energy of detail and of a step of brightness."""

TRUST_WINDOW_PX = 1.0

VISIBLE = 1.0
"""Steps of brightness below this many standard deviations of the noise are left as they are."""

FEATHER_SHARE = 2.5
"""Blends are written up to this many standard deviations of a feather from an edge."""


def composition_reach_px(config: DecisionConfig) -> int:
    """Return how far from a pixel its composition looks: the widest blend, the low pass, and the window of steps and detail."""
    widest = max(config.blend_px, config.feather_px) if config.blend_px else 0.0
    return reach_of(widest) + reach_of(LOW_PASS_PX) + reach_of(DETAIL_WINDOW_PX) + 1 if widest else 0


def compose_samples(
    images: Mapping[int, SampleArray],
    index: IndexArray,
    trust: FloatArray,
    *,
    noise: float,
    far: float,
    feather_px: float,
    wide_feather_px: float,
) -> SampleArray:
    """Return the samples that the labels choose.

    Parameters
    ----------
    images : mapping from label to ndarray, shape (h, w) or (h, w, C)
    index : ndarray of uint16, shape (h, w)
    trust : ndarray of float32, shape (h, w)
        How far a depth edge is trusted to lie where it is drawn.
    noise : float
        Standard deviation of the noise of the samples.
    far : float
        From how many images apart two labels are a depth edge.
    feather_px : float
        Standard deviation of the blend across depth edges; 0 cuts.
    wide_feather_px : float
        That of the blend of brightness; 0 for none.

    Notes
    -----
    Samples are copied bit for bit, with two exceptions near borders between labels: across a depth edge they are blended over
    `feather_px`; and where what is wider than `LOW_PASS_PX` would jump, it is spread over `wide_feather_px`, less `VISIBLE` standard
    deviations of the noise. An edge that is trusted keeps its step where the detail around it hides it. What is blended stays within the
    samples that the blended images have in the window of the low pass, so that no sample is brighter or darker than all around it.

    Departs: [QMCIF, Eqs. (20) to (22)] choose or average whole patches.
    """
    chosen = _copy_samples(images, index)
    labels = list_labels(index)
    if len(labels) == 1 or (feather_px == 0 and wide_feather_px == 0):
        return chosen
    spread = _label_range(index)
    reach = math.ceil(FEATHER_SHARE * max(feather_px, wide_feather_px))
    near = cv2.dilate((spread > 0).astype(np.uint8), np.ones((2 * reach + 1, 2 * reach + 1), np.uint8)) > 0
    # floats may be so large that their squares need double precision
    kind = np.float32 if chosen.dtype.itemsize <= 2 else np.float64
    unit = kind(unit_of(images.values()))
    total = _blend(images, labels, index, spread >= far, unit=unit, feather_px=feather_px, wide_feather_px=wide_feather_px)
    narrow, low, base, least, most = total
    step, detail = (smooth((plane**2).mean(axis=0), DETAIL_WINDOW_PX) for plane in (base - low, narrow - low))
    change = (1 - smooth(trust.astype(kind), TRUST_WINDOW_PX) * detail / np.maximum(detail + step, np.finfo(kind).tiny)) * (base - low)
    size = np.sqrt((change**2).mean(axis=0))
    mixed = narrow + change * (np.maximum(size - kind(VISIBLE * noise / unit), 0) / np.maximum(size, np.finfo(kind).tiny))
    # detail of one image on the brightness of another may leave the range of both
    mixed = np.clip(mixed, least, most) * unit
    samples = to_samples(np.moveaxis(mixed, 0, -1) if chosen.ndim == 3 else mixed[0], chosen.dtype)
    chosen[near] = samples[near]
    return chosen


def list_labels(index: IndexArray) -> NDArray[np.intp]:
    """Return the different labels in ascending order."""
    return np.flatnonzero(np.bincount(index.reshape(-1)))


def _copy_samples(images: Mapping[int, SampleArray], index: IndexArray) -> NDArray[Any]:
    labels = list_labels(index)
    chosen = np.array(images[int(labels[0])])
    for label in labels[1:]:
        mask = index == label
        chosen[mask] = images[int(label)][mask]
    return chosen


def _label_range(index: IndexArray) -> NDArray[np.int32]:
    """Return the range of labels within the eight neighbors of each pixel."""
    square = np.ones((3, 3), np.uint8)
    highest, lowest = (np.asarray(edge(index, square), np.int32) for edge in (cv2.dilate, cv2.erode))
    return highest - lowest


def _blend(
    images: Mapping[int, SampleArray],
    labels: NDArray[np.intp],
    index: IndexArray,
    is_deep: BoolArray,
    *,
    unit: np.floating[Any],
    feather_px: float,
    wide_feather_px: float,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return samples blended by narrow weights, their low pass by the same weights, that by wide ones, and the range of both, in a unit.

    Each has shape (C, h, w); the range is the least and the largest sample in the window of the low pass.
    """
    first, kind = images[int(labels[0])], type(unit)
    n_channels = 1 if first.ndim == 2 else first.shape[2]
    narrow, low, base = (np.zeros((n_channels, *index.shape), kind) for _ in range(3))
    weight, wide_weight = (np.zeros(index.shape, kind) for _ in range(2))
    least, most = np.full(narrow.shape, np.inf, kind), np.full(narrow.shape, -np.inf, kind)
    square = np.ones((2 * reach_of(LOW_PASS_PX) + 1,) * 2, np.uint8)
    margin = max(reach_of(feather_px), reach_of(wide_feather_px))
    for label in labels:
        mask = index == label
        box = _bounding_box(mask, margin)
        outer = tuple(slice(max(side.start - reach_of(LOW_PASS_PX), 0), side.stop + reach_of(LOW_PASS_PX)) for side in box)
        inner = tuple(slice(side.start - wide.start, side.stop - wide.start) for side, wide in zip(box, outer, strict=True))
        share = mask[box].astype(kind)
        wide = smooth(share, wide_feather_px) if wide_feather_px else share
        share = np.where(is_deep[box], smooth(share, feather_px), share) if feather_px else share
        weight[box] += share
        wide_weight[box] += wide
        is_blended = (share > 0) | (wide > 0)
        image = images[int(label)][outer]
        for q in range(n_channels):
            plane = np.ascontiguousarray(image if image.ndim == 2 else image[..., q], kind) / unit
            smoothed = smooth(plane, LOW_PASS_PX)[inner]
            narrow[q][box] += share * plane[inner]
            low[q][box] += share * smoothed
            base[q][box] += wide * smoothed
            np.minimum(least[q][box], cv2.erode(plane, square)[inner], out=least[q][box], where=is_blended)
            np.maximum(most[q][box], cv2.dilate(plane, square)[inner], out=most[q][box], where=is_blended)
    return narrow / weight, low / weight, base / wide_weight, least, most


def _bounding_box(mask: BoolArray, margin: int) -> tuple[slice, slice]:
    sides = []
    for axis, length in enumerate(mask.shape):
        used = np.flatnonzero(mask.any(axis=1 - axis))
        sides.append(slice(max(int(used[0]) - margin, 0), min(int(used[-1]) + margin + 1, length)))
    return sides[0], sides[1]
