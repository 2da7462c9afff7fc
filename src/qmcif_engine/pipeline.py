"""Fuse a stack of images: the one function people call."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qmcif_engine.config import FusionConfig
from qmcif_engine.errors import Cancelled, InvalidImageError
from qmcif_engine.fusion import compose
from qmcif_engine.samples import SUPPORTED_DTYPES, PlaneStack, as_stack, check_focus_range, settle_focus_range
from qmcif_engine.single_thread import single_thread
from qmcif_engine.tile import decide, measure_focus, plan_geometry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qmcif_engine.array_types import FloatArray, IndexArray, SampleArray
    from qmcif_engine.decomposition import Decomposition
    from qmcif_engine.samples import FocusRange

logger = logging.getLogger(__name__)


class FusionProgress(NamedTuple):
    """Say how much of a fusion is done: one step an image, and one for the decision."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class FusionResult:
    """Hold the fused picture and how it came about.

    Attributes
    ----------
    fused : ndarray
        Dtype and shape of one input.
    source_index : ndarray of uint16, shape (Y, X)
        Which image, 0-based, gave each pixel, or the largest share of it.
    base_map, detail_map : ndarray of uint16, shape (Y, X)
        What the base scale and the detail scale chose.
    confidence : ndarray of float32, shape (Y, X)
        ``(best - second) / (best + second)`` of the detail-scale focus level; 0 where both are 0.
    config : FusionConfig
        The settings used.
    focus_range : FocusRange
        The samples that stood for 0 and 255 in the decisions.
    companions : ndarray or None
        The companion planes, composed by the same decisions.
    layers : tuple of Decomposition
        Base, detail, noise and coefficients of each image where they were asked for, else empty.
    """

    fused: SampleArray
    source_index: IndexArray
    base_map: IndexArray
    detail_map: IndexArray
    confidence: FloatArray
    config: FusionConfig
    focus_range: FocusRange
    companions: SampleArray | None
    layers: tuple[Decomposition, ...]


def fuse(
    images: Sequence[SampleArray] | SampleArray,
    config: FusionConfig | None = None,
    *,
    focus_range: tuple[float, float] | None = None,
    companions: Sequence[SampleArray] | None = None,
    keep_layers: bool = False,
    on_progress: Callable[[FusionProgress], None] | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> FusionResult:
    """Fuse images of one scene, each sharp somewhere else, into one that is sharp everywhere.

    Parameters
    ----------
    images : sequence of ndarray, or one ndarray of shape (N, Y, X) or (N, Y, X, 3)
        At least two, gray or RGB; uint8, uint16, float32 or float64.
    config : FusionConfig, optional
        The ``default`` preset where it is left out.
    focus_range : tuple of float, optional
        Samples that count as black and white for the decisions; the 0.1 and 99.9 percentiles of the stack where it is left out. Needed
        only where a few extreme samples mislead those.
    companions : sequence of ndarray, optional
        One array an image, shape (Y, X) or (Y, X, c), such as alpha planes or further channels, composed by the same decisions.
    keep_layers : bool
        Return the layers of every image too; they take some 40 bytes a pixel and image.
    on_progress : callable, optional
        Receives a `FusionProgress` after each step.
    is_cancelled : callable, optional
        Asked before each iteration; when it returns true the fusion ends with `Cancelled`.

    Returns
    -------
    FusionResult

    Notes
    -----
    One thread in the linear algebra, because with several the rounding, and so the last byte, would depend on their number.
    """
    settings = FusionConfig() if config is None else config
    stack = as_stack(images)
    extras = None if companions is None else _checked_companions(companions, stack)
    bounds = settle_focus_range(stack) if focus_range is None else check_focus_range(focus_range)
    steps = _Steps(len(stack) + 1, on_progress, is_cancelled)
    logger.info("fusing %d images of shape %s, focus range %g to %g", len(stack), stack[0].shape, *bounds)
    blocks = PlaneStack(stack, bounds, representation=settings.focus.representation)
    geometry = plan_geometry(stack[0].shape[:2], settings)
    with single_thread():
        levels = measure_focus(
            blocks,
            settings,
            geometry=geometry,
            keep_layers=keep_layers,
            check_cancelled=steps.check_cancelled,
            report_image=steps.report,
        )
        steps.check_cancelled()
        tile = decide(blocks, levels, geometry=geometry, config=settings)
    fused = compose(stack, tile.blend)
    composed = None if extras is None else compose(extras, tile.blend)
    steps.report()
    return FusionResult(
        fused, tile.blend.source_index, tile.base_map, tile.detail_map, tile.confidence, settings, bounds, composed, levels.layers
    )


def _checked_companions(companions: Sequence[SampleArray], stack: Sequence[SampleArray]) -> Sequence[SampleArray]:
    planes: list[Any] = [np.asarray(companion) for companion in companions]
    kinds = {(plane.shape, plane.dtype.name) for plane in planes}
    shapes, dtypes = {shape for shape, _ in kinds}, {dtype for _, dtype in kinds}
    if len(planes) != len(stack) or len(kinds) != 1 or next(iter(shapes))[:2] != stack[0].shape[:2] or not dtypes <= set(SUPPORTED_DTYPES):
        msg = (
            f"{len(planes)} companions of shape {sorted(shapes)} and type {', '.join(sorted(dtypes))} were given; one for each of the "
            f"{len(stack)} images, all of height and width {stack[0].shape[:2]} and of one type out of {', '.join(SUPPORTED_DTYPES)}, "
            "is needed: pass matching arrays"
        )
        raise InvalidImageError(msg)
    return planes


class _Steps:
    """Count steps for the progress callback and ask whether to go on."""

    def __init__(self, total: int, on_progress: Callable[[FusionProgress], None] | None, is_cancelled: Callable[[], bool] | None) -> None:
        self._done, self._total = 0, total
        self._on_progress, self._is_cancelled = on_progress, is_cancelled

    def report(self) -> None:
        self._done += 1
        if self._on_progress is not None:
            self._on_progress(FusionProgress(self._done, self._total))

    def check_cancelled(self) -> None:
        if self._is_cancelled is not None and self._is_cancelled():
            msg = f"the fusion was cancelled after {self._done} of {self._total} steps; nothing was returned: start it again"
            raise Cancelled(msg)
