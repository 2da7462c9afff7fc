"""Fusion in memory: the one function people call."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.arrays import FloatArray, IndexArray, SampleArray
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import InvalidConfigError, InvalidImageError
from qmcif_engine.pipeline.pipeline import Pipeline
from qmcif_engine.run.execution import FusionProgress, Steps
from qmcif_engine.stack.deciding import choose_deciding_channels
from qmcif_engine.stack.samples import SUPPORTED_DTYPES, FocusRanges, GivenRanges, list_bounds
from qmcif_engine.stack.stack import Stack, as_stack, stack_arrays
from qmcif_engine.tiles.output_maps import MapPlanes
from qmcif_engine.tiles.plan import Tile, TilePlan
from qmcif_engine.tiles.task import TILE_PLANES, FusedTile, TileTask

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionResult(MapPlanes[IndexArray, FloatArray]):
    """The fused image and how it came about, with the maps of `qmcif_engine.tiles.output_maps.MapPlanes`.

    Attributes
    ----------
    fused : ndarray
        Dtype and shape of one input.
    config : FusionConfig
        The settings used.
    focus_range : FocusRange, or tuple of one per channel
        The samples that stood for 0 and 255 in the decisions.
    companions : ndarray or None
        The companion planes, composed by the same decisions.
    pixels_by_image : tuple of int
        How many pixels each image gave, in all channels together where these were decided on one by one; images with none could have
        been left out.
    """

    fused: SampleArray
    config: FusionConfig
    focus_range: FocusRanges
    companions: SampleArray | None = None
    pixels_by_image: tuple[int, ...]


def fuse(
    images: Sequence[SampleArray] | SampleArray | Stack,
    config: FusionConfig | None = None,
    *,
    guide: Sequence[SampleArray] | SampleArray | Stack | None = None,
    focus_range: GivenRanges | None = None,
    companions: Sequence[SampleArray] | None = None,
    with_position: bool = False,
    with_maps: bool = False,
    channels: str | None = None,
    memory_bytes: int | None = None,
    workers: int | None = None,
    client: Client | None = None,
    on_progress: Callable[[FusionProgress], None] | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> FusionResult:
    """Fuse images of one scene, each sharp somewhere else, into one that is sharp everywhere.

    Parameters
    ----------
    images : sequence of ndarray, one ndarray of shape (N, Y, X) or (N, Y, X, 3), or Stack
        At least two, gray or RGB: 8- or 16-bit integers, uint32, bool, float32 or float64. A stack, such as `qmcif_engine.open_stack`
        returns, is read tile by tile; its alpha and further channels take the place of `companions`.
    config : FusionConfig, optional
        The ``default`` preset where it is left out.
    guide : sequence of ndarray, ndarray or Stack, optional
        What decisions are made on instead of `images`, which still give every sample: the same images, for example denoised or without
        their background. As many of the same height and width are needed; type and, where channels decide together, channels may differ.
    focus_range : tuple of float, optional
        Samples that count as black and white for the decisions, or such a pair for each channel that decides; the 0.1 and 99.9
        percentiles of the stack, or of each channel that was recorded by itself, where it is left out. Needed only where a few extreme
        samples mislead those.
    companions : sequence of ndarray, optional
        One array per image, shape (Y, X) or (Y, X, c), such as alpha planes or further channels, composed by the same decisions.
    with_position : bool
        Return where between the images each pixel is sharpest too.
    with_maps : bool
        Return the focus maps of both scales too, by which was decided.
    channels : "each", optional
        Decide on every channel by itself and fuse it by itself: maps then have a plane for each channel. Where it is left out, channels
        decide together, unless the stack was opened for each.
    memory_bytes : int, optional
        Tiles in flight take no more than this, beside the images and the result; half of the free memory where it is left out.
    workers : int, optional
        Tiles computed at once on this machine; one for each core where it is left out. It changes no byte.
    client : distributed.Client, optional
        A Dask cluster that computes the tiles. Where it is left out, a client that is active computes, or the scheduler that
        ``dask.config`` names, or threads.
    on_progress : callable, optional
        Receives a `FusionProgress` after each step, one call at a time, mostly in a thread of Dask's.
    is_cancelled : callable, optional
        Asked many times a second, in the same threads; when it returns true the fusion ends with `Cancelled`.

    Returns
    -------
    FusionResult
    """
    stack = choose_deciding_channels(as_stack(images), channels)
    if companions is not None and stack.decides_each:
        msg = "companions were given and each channel is decided on by itself; one decision is needed to follow: leave one of the two out"
        raise InvalidConfigError(msg)
    pipeline = Pipeline.prepare(
        stack,
        config,
        guide=None if guide is None else as_stack(guide),
        companions=None if companions is None else stack_arrays(_checked_companions(companions, stack)),
        memory_bytes=memory_bytes,
        workers=workers,
    )
    tiles = pipeline.plan
    steps = Steps(n_tiles=len(tiles), steps_a_tile=pipeline.steps_a_tile, on_progress=on_progress, is_cancelled=is_cancelled)
    task = pipeline.measure(focus_range, with_position=with_position, with_maps=with_maps, client=client)
    logger.info(
        "fusing %d images of shape %s in %d tiles, focus range %s",
        stack.n_images,
        stack.image_shape,
        len(tiles),
        list_bounds(task.focus_range),
    )
    gathered = _GatheredTiles(pipeline.plan)
    pipeline.run(task, tiles, sink=gathered, steps=steps, client=client)
    return gathered.finish(task)


class _GatheredTiles:
    """Tiles put together in memory."""

    def __init__(self, plan: TilePlan) -> None:
        self._plan = plan
        self._planes: dict[str, Any] = {}
        self._lock = threading.Lock()

    def share(self, client: Client | None) -> None:
        """Return nothing: the arrays are in this process."""

    def write(self, tile: Tile, result: FusedTile) -> None:
        for name in TILE_PLANES:
            plane = getattr(result, name)
            if plane is None:
                continue
            # tiles come from several threads; the first of them makes the plane, each writes its own part
            with self._lock:
                if name not in self._planes:
                    self._planes[name] = np.empty((*self._plan.shape, *plane.shape[2:]), plane.dtype)
            self._planes[name][tile.core.slices] = plane

    def finish(self, task: TileTask) -> FusionResult:
        counts = np.bincount(self._planes["source_index"].reshape(-1), minlength=task.stack.n_images)
        return FusionResult(**self._planes, config=task.config, focus_range=task.focus_range, pixels_by_image=tuple(counts.tolist()))


def _checked_companions(companions: Sequence[SampleArray], stack: Stack) -> Sequence[SampleArray]:
    planes: list[Any] = [np.asarray(companion) for companion in companions]
    kinds = {(plane.shape, plane.dtype.name) for plane in planes}
    shapes, dtypes = {shape for shape, _ in kinds}, {dtype for _, dtype in kinds}
    is_matching = len(planes) == stack.n_images and len(kinds) == 1 and next(iter(shapes))[:2] == stack.image_shape[:2]
    if not is_matching or not dtypes <= set(SUPPORTED_DTYPES):
        msg = (
            f"{len(planes)} companions of shape {sorted(shapes)} and type {', '.join(sorted(dtypes))} were given; one for each of the "
            f"{stack.n_images} images, all of height and width {stack.image_shape[:2]} and of one type out of "
            f"{', '.join(SUPPORTED_DTYPES)}, is needed: pass matching arrays"
        )
        raise InvalidImageError(msg)
    return planes
