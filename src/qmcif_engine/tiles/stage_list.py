"""The numerical stages of a tile, in their order: what its overlap and its memory follow from, and the table of reaches in the document.

A new stage states its reach and its memory beside its code and takes its place here.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from qmcif_engine.cleanup.blending import BLENDING
from qmcif_engine.cleanup.boundaries.reblurring import EDGES
from qmcif_engine.cleanup.dark_border import DARK_BORDERS
from qmcif_engine.cleanup.fill import FOLLOWING
from qmcif_engine.cleanup.frame_ends import FRAME_ENDS
from qmcif_engine.cleanup.regularization import REGULARIZATION
from qmcif_engine.config.stage import TileSize
from qmcif_engine.kernels.cell_sums import CELL_PX
from qmcif_engine.method.focus import EVIDENCE, LEVELS_IN_MEMORY_BYTES
from qmcif_engine.method.focus_measures import FOCUS_MEASURES
from qmcif_engine.method.fusion import COMPOSITION
from qmcif_engine.method.patches import RANKING, VOTES
from qmcif_engine.method.refinement import REFINEMENT
from qmcif_engine.stack.noise import SMOOTHING
from qmcif_engine.stack.samples import EMBEDDING
from qmcif_engine.tiles.tile_parts import DRAWING_MARGIN_PX, decides_on_cells, part_side

if TYPE_CHECKING:
    from qmcif_engine.cleanup.decision import CleanUpStage
    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.config.stage import Stage

CLEAN_UP: tuple[CleanUpStage, ...] = (EDGES,)
"""What is done, one after the other, to the pixels of the map whose decisions were made to fit together."""

BEFORE_FOCUS: tuple[Stage, ...] = (EMBEDDING, SMOOTHING)
AFTER_FOCUS: tuple[Stage, ...] = (
    EVIDENCE,
    RANKING,
    FOLLOWING,
    VOTES,
    REFINEMENT,
    REGULARIZATION,
    *CLEAN_UP,
    DARK_BORDERS,
    FRAME_ENDS,
    BLENDING,
    COMPOSITION,
)
"""What comes before and after the stages of a focus measure."""

STAGES: tuple[Stage, ...] = (
    *BEFORE_FOCUS,
    *chain.from_iterable(measure.stages for measure in FOCUS_MEASURES.values()),
    *AFTER_FOCUS,
)
"""Every stage there is, with those of all focus measures."""


def stages_of(config: FusionConfig) -> tuple[Stage, ...]:
    """Return the stages of a run: those of one focus measure among them."""
    return (*BEFORE_FOCUS, *FOCUS_MEASURES[config.focus.measure].stages, *AFTER_FOCUS)


def derive_overlap(config: FusionConfig, *, detail_patch_px: int) -> int:
    """Return how far beyond its core a tile looks.

    The sum of what the stages need that act on every pixel, and the largest of those that act far: evidence of large windows, pixels
    without evidence, decisions made to fit together. All that the document lists would add up to nearly three times as much; what it adds
    are chains of rare events, one beginning where the other ends, and the outskirts of the largest window. `benchmarks/seams.py` shows how
    little they matter.
    """
    stages = stages_of(config)
    near, far = ([stage.overlap_px(config, detail_patch_px) for stage in stages if stage.acts_far is is_far] for is_far in (False, True))
    # in a row those that act near add up; the far ones are seldom needed at the same place, so the longest stands for them
    return sum(near) + max(far)


CELL_BYTES = 3 / CELL_PX**2
"""What the evidence of one image, and where it has pixels, take per pixel while decisions are made cell by cell."""

RESULT_BYTES = 24
"""What the results of a tile take per pixel."""


def estimate_stage_bytes(config: FusionConfig, size: TileSize, *, with_maps: bool = False) -> int:
    """Return an upper bound of what the stages hold at their peak: all that is kept, and what the largest of them works with.

    Decisions made cell by cell are drawn part by part, so that only a part is in work. Maps of pixels take the whole tile.
    """
    stages = stages_of(config)
    if decides_on_cells(config) and not with_maps:
        kept = LEVELS_IN_MEMORY_BYTES + int(size.padded_px * (RESULT_BYTES + CELL_BYTES * size.n_images))
        # only one part with its margin is drawn at a time
        part_px = (part_side(config) + 2 * DRAWING_MARGIN_PX) ** 2
        return kept + _sum_stages(stages, config, TileSize(min(size.padded_px, part_px), size.n_images))
    return _sum_stages(stages, config, size)


def _sum_stages(stages: tuple[Stage, ...], config: FusionConfig, size: TileSize) -> int:
    return sum(stage.kept_bytes(config, size) for stage in stages) + max(stage.working_bytes(config, size) for stage in stages)
