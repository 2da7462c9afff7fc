"""Fuse lazily: dask arrays whose tiles are computed when, and only if, somebody asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask.delayed import delayed

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.stack.guide import settle_guide
from qmcif_engine.stack.noise import settle_range_and_noise
from qmcif_engine.stack.separate_channels import channel_planes, settle_channels
from qmcif_engine.stack.stack import check_number
from qmcif_engine.tiles.plan import plan_tiles
from qmcif_engine.tiles.task import TileTask

if TYPE_CHECKING:
    from qmcif_engine.stack.samples import GivenRanges
    from qmcif_engine.stack.stack import Stack
    from qmcif_engine.tiles.task import FusedTile


@dataclass(frozen=True, slots=True)
class LazyFusion:
    """Hold what `FusionResult` holds, not yet computed: one chunk a tile, all planes of a tile from one computation.

    Attributes
    ----------
    fused : dask array, shape (Y, X) or (Y, X, C)
    source_index, base_map, detail_map : dask array of uint16, shape (Y, X), or (Y, X, C) where each channel was decided on by itself
    confidence : dask array of float32, of the same shape
    """

    fused: da.Array
    source_index: da.Array
    base_map: da.Array
    detail_map: da.Array
    confidence: da.Array


def fuse_lazily(
    stack: Stack,
    config: FusionConfig | None = None,
    *,
    guide: Stack | None = None,
    focus_range: GivenRanges | None = None,
    channels: str | None = None,
) -> LazyFusion:
    """Return the fusion of a stack as dask arrays, for previews and pipelines.

    Only the samples that settle the focus range are read at once, and none where it is given. The bytes are those of
    `qmcif_engine.fuse`, whose `guide`, `focus_range` and `channels` these are, whatever scheduler computes them. A chunk that is asked
    for twice is computed twice: for a whole large result use `qmcif_engine.fuse_to_file`.
    """
    settings = FusionConfig() if config is None else config
    stack = settle_channels(stack, channels)
    check_number(stack)
    decided = settle_guide(guide, stack)
    bounds, noise_levels = settle_range_and_noise(stack if decided is None else decided, focus_range)
    plan = plan_tiles((stack.image_shape[0], stack.image_shape[1]), settings)
    task = delayed(TileTask(stack, settings, bounds, noise_levels=noise_levels, guide=decided), pure=False)
    results = [(tile, task(tile)) for tile in plan.tiles]

    def arranged(name: str, dtype: np.dtype[Any], channels: tuple[int, ...] = ()) -> da.Array:
        chunks = [da.from_delayed(delayed(_plane_of)(result, name), (*tile.core.shape, *channels), dtype=dtype) for tile, result in results]
        n_columns = plan.grid[1]
        rows = [da.concatenate(chunks[start : start + n_columns], axis=1) for start in range(0, len(chunks), n_columns)]
        whole: da.Array = da.concatenate(rows, axis=0)
        return whole

    index_type, planes = np.dtype(np.uint16), channel_planes(stack)
    return LazyFusion(
        arranged("fused", stack.dtype, stack.image_shape[2:]),
        arranged("source_index", index_type, planes),
        arranged("base_map", index_type, planes),
        arranged("detail_map", index_type, planes),
        arranged("confidence", np.dtype(np.float32), planes),
    )


def _plane_of(result: FusedTile, name: str) -> Any:  # noqa: ANN401 - one of the planes
    return getattr(result, name)
