"""Lazy fusion: dask arrays whose tiles are computed when, and only if, they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import dask.array as da
from dask.highlevelgraph import HighLevelGraph
from numpy.typing import DTypeLike

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.pipeline.pipeline import Pipeline
from qmcif_engine.run.execution import new_name, tile_graph
from qmcif_engine.stack.samples import FocusRanges, GivenRanges
from qmcif_engine.stack.stack import Stack
from qmcif_engine.tiles.output_maps import OUTPUT_MAPS, MapPlanes
from qmcif_engine.tiles.plan import Tile, TilePlan
from qmcif_engine.tiles.task import FusedTile, TileTask


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyFusion(MapPlanes[da.Array, da.Array]):
    """What `FusionResult` holds, not yet computed: one chunk per tile, all planes of a tile from one computation.

    All maps of `qmcif_engine.tiles.output_maps.MapPlanes` are there, the position where it was asked for.

    Attributes
    ----------
    fused : dask array, shape (Y, X) or (Y, X, C)
    config : FusionConfig
        The settings used.
    focus_range : FocusRange, or tuple of one per channel
        The samples that stand for 0 and 255 in the decisions.
    companions : dask array, shape (Y, X) or (Y, X, c), or None
        Alpha or further channels of the stack, composed by the same decisions; None for a stack without.
    """

    fused: da.Array
    config: FusionConfig
    focus_range: FocusRanges
    companions: da.Array | None = None


def fuse_lazily(
    stack: Stack,
    config: FusionConfig | None = None,
    *,
    guide: Stack | None = None,
    focus_range: GivenRanges | None = None,
    with_position: bool = False,
    channels: str | None = None,
) -> LazyFusion:
    """Return the fusion of a stack as dask arrays, for previews and pipelines.

    What is measured of the whole stack is measured at once, for which the default reads every sample. The bytes are those of
    `qmcif_engine.fuse`, whose `guide`, `focus_range`, `with_position` and `channels` these are, whatever scheduler computes them; alpha
    and further channels of the stack are composed too. A chunk that is asked for twice is computed twice: for a whole large result use
    `qmcif_engine.fuse_to_file`.
    """
    pipeline = Pipeline.prepare(stack, config, guide=guide, channels=channels)
    task = pipeline.measure(focus_range, with_position=with_position, with_maps=True)
    stack, companions = task.stack, task.companions
    arrange = _Arrangement(pipeline.plan, task)
    maps: dict[str, Any] = {name: arrange(name, OUTPUT_MAPS[name].dtype, stack.decision_channels) for name in task.wanted_maps}
    return LazyFusion(
        fused=arrange("fused", stack.dtype, stack.image_shape[2:]),
        **maps,
        config=task.config,
        focus_range=task.focus_range,
        companions=None if companions is None else arrange("companions", companions.dtype, companions.image_shape[2:]),
    )


class _Arrangement:
    """The graph of a plan's tiles, and how a plane of them becomes an array."""

    def __init__(self, plan: TilePlan, task: TileTask) -> None:
        self._plan, self._name = plan, new_name()
        held = f"{self._name}-task"  # once in the graph, whatever it holds
        tiles = tile_graph(plan, _compute, held, name=self._name)
        self._keys = list(tiles)
        self._graph: dict[Any, Any] = {held: task, **tiles}

    def __call__(self, plane: str, dtype: DTypeLike, channels: tuple[int, ...]) -> da.Array:
        """Return one plane as an array with a chunk for each tile."""
        name, rows, columns = f"{self._name}-{plane}", self._plan.rows, self._plan.columns
        # row by row, as the tiles of a plan are ordered
        places = product(range(len(rows)), range(len(columns)))
        # one chunk along channels, hence the zeros; the planes of a tile are taken from one key, which is computed once per request
        layer: dict[Any, Any] = {
            (name, *place, *(0 for _ in channels)): (getattr, key, plane) for place, key in zip(places, self._keys, strict=True)
        }
        graph = HighLevelGraph({self._name: self._graph, name: layer}, {self._name: set(), name: {self._name}})
        sides = (tuple(stop - start for start, stop in spans) for spans in (rows, columns))
        return da.Array(graph, name, (*sides, *((length,) for length in channels)), dtype=dtype)


def _compute(task: TileTask, tile: Tile) -> FusedTile:
    return task(tile)
