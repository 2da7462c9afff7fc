"""All figures of one large fused image, with memory that depends neither on its size nor on the number of its sources."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np

from qmcif_engine.metrics.by_block.block_run import BLOCK_PX, STEPS_A_PASS, BlockRun
from qmcif_engine.metrics.by_block.contrast_score import score_contrast
from qmcif_engine.metrics.by_block.local_scores import score_gradient, score_windows
from qmcif_engine.metrics.by_block.phase_score import score_phase_congruency
from qmcif_engine.metrics.by_block.scratch_levels import ScratchFolder
from qmcif_engine.metrics.by_block.truth_scores import N_PASSES as N_TRUTH_PASSES
from qmcif_engine.metrics.by_block.truth_scores import score_against_truth
from qmcif_engine.metrics.evaluation_progress import StepCounter
from qmcif_engine.metrics.inputs import refuse_infinite
from qmcif_engine.metrics.levels import convert_to_eight_bits, convert_to_gray

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qmcif_engine.metrics.by_block.scratch_levels import ScratchLevels
    from qmcif_engine.metrics.evaluation_progress import EvaluationProgress


def evaluate_by_block(
    images: Sequence[tuple[str, Any]],
    *,
    n_sources: int,
    limits: tuple[float, float],
    border_px: int,
    progress: Callable[[EvaluationProgress], None] | None,
) -> dict[str, float]:
    """Return all figures by name.

    Every image is read once, block by block, and its 8-bit levels wait in a temporary file for the passes of the metrics.

    Parameters
    ----------
    images : sequence of tuple
        What messages call each image, and the image: an array of NumPy or dask, checked. Sources, the fused image and, where it is
        known, the truth.
    n_sources : int
    limits : tuple of float
        Samples that become levels 0 and 255.
    border_px : int
    progress : callable, optional
    """
    has_truth = len(images) > n_sources + 1
    # in the order of the passes: levels, windows, gradient (by source), contrast, phase (noise of N + 1 images, then matches), truth
    n_passes = len(images) + 1 + n_sources + 2 + n_sources + 2 + N_TRUTH_PASSES * has_truth
    run = BlockRun(StepCounter(n_passes * STEPS_A_PASS, progress))
    with ScratchFolder() as folder:
        reading = _Reading(folder, run, limits)
        grays = [reading.keep(name, image, with_color=has_truth and number >= n_sources) for number, (name, image) in enumerate(images)]
        compared = grays[: n_sources + 1]
        figures, tables = score_windows(compared, run)
        figures["gradient"] = score_gradient(compared, run)
        figures["contrast"] = score_contrast(compared, tables, run)
        # the table of an image with a single level is all 0, that of any other reaches 255
        is_constant = not tables[-1].any()
        figures["phase_congruency"] = score_phase_congruency(compared, run, is_constant=is_constant)
        if has_truth:
            figures |= score_against_truth(reading.colors, grays[-2:], run, border_px=border_px)
    return figures


class _Reading:
    """Images on their way to scratch files."""

    def __init__(self, folder: ScratchFolder, run: BlockRun, limits: tuple[float, float]) -> None:
        self._folder, self._run, self._limits = folder, run, limits
        self.colors: list[ScratchLevels] = []

    def keep(self, name: str, image: Any, *, with_color: bool) -> ScratchLevels:  # noqa: ANN401 - an array of NumPy or dask
        """Read an image once and return its gray levels; its colors are added to the others where they are wanted."""
        chunks = (BLOCK_PX, BLOCK_PX, *image.shape[2:])
        samples: Any = image if isinstance(image, da.Array) else da.from_array(image, chunks=chunks, name=False)
        # gray is computed within a chunk, which therefore needs all three channels
        samples = samples if samples.ndim == 2 else samples.rechunk({2: 3})
        form: dict[str, Any] = {"dtype": np.uint8, "meta": np.empty((0,) * samples.ndim, np.uint8)}
        is_float = samples.dtype.kind == "f"
        finite = da.where(da.isfinite(samples), samples, self._limits[0]) if is_float else samples  # others are refused below, by number
        # one rule for all types: an 8-bit file is what the reference reads
        levels = finite.map_blocks(partial(convert_to_eight_bits, limits=self._limits), **form)
        gray = (
            levels if levels.ndim == 2 else levels.map_blocks(convert_to_gray, drop_axis=2, **form | {"meta": np.empty((0, 0), np.uint8)})
        )
        kept = [gray, *([levels] if with_color else [])]
        targets = [self._folder.add(planes.shape) for planes in kept]
        storing: list[Any] = [*targets]  # not of dask's own kinds
        n_bad = (~da.isfinite(samples)).sum() if is_float else 0
        # stored and counted in one pass, so that the image is read once
        _, n_found = self._run.compute("levels", da.store(kept, storing, lock=False, compute=False), n_bad)
        refuse_infinite(name, int(n_found))
        self.colors += targets[1:]
        return targets[0]
