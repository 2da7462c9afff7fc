"""What is measured once for a run, before there are tiles: focus range, noise, and a coarse copy of the stack with its statistics."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.config.fusion_config import FusionConfig, StackOrder
from qmcif_engine.decision.coarse import CELL_PX, MARGIN_PX, coarsen
from qmcif_engine.decision.statistics import measure_noise, measure_statistics
from qmcif_engine.io.dask_threads import compute_on_threads
from qmcif_engine.rules import CoarseCopy, StackStatistics
from qmcif_engine.run.execution import count_workers
from qmcif_engine.stack.samples import FocusRange, check_finite, count_planes, find_highest, to_planes
from qmcif_engine.stack.separate_channels import count_decisions
from qmcif_engine.stack.stack import sample_stack, settle_range
from qmcif_engine.stack.window import Window
from qmcif_engine.tiles.sample_noise import measure_sample_noise
from qmcif_engine.tiles.task import RULES, Measured

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray, SampleArray
    from qmcif_engine.stack.samples import FocusRanges, GivenRanges
    from qmcif_engine.stack.stack import Stack

LARGEST_BAND_PX = 2**22
"""Pixels of a band of rows that is read at once."""

LARGEST_IN_MEMORY_BYTES = 2**28
"""Coarse copies beyond this size lie in a temporary file."""


def measure_run(
    stack: Stack,
    config: FusionConfig,
    given: GivenRanges | None,
    *,
    guide: Stack | None = None,
    companions: Stack | None = None,
    workers: int | None = None,
    check_cancelled: Callable[[], None] = lambda: None,
) -> tuple[FocusRanges, Measured]:
    """Return the samples that count as black and white, and what is measured for the rule that decides.

    All of it follows from the samples and the settings alone, so that a resumed run has the same. Rules with statistics have every sample
    of the deciding stack read once, others a fixed subsample.

    Parameters
    ----------
    stack : Stack
        What gives the samples of the result.
    config : FusionConfig
    given : tuple of float, or one per channel, or None
        The focus range, where the user gave one.
    guide : Stack or None
        What decides, where it is not the stack itself.
    companions : Stack or None
    workers : int, optional
        Bands of rows that are read at once.
    check_cancelled : callable
        Called before each band; may raise to end the work.
    """
    deciding = stack if guide is None else guide
    samples = sample_stack(deciding)
    focus_range = settle_range(deciding, given, samples=samples)
    is_ordered = stack.n_images > 2 and config.decision.order is StackOrder.ORDERED
    n_decisions = count_decisions(stack)
    if not RULES[config.decision.rule].has_statistics:
        plain = StackStatistics(n_images=stack.n_images, is_ordered=is_ordered)
        return focus_range, Measured(statistics=(plain,) * n_decisions, noise=(0.0,) * n_decisions)
    scales = [_Scale.of(deciding, focus_range, channel, config) for channel in _channels_of(stack)]
    copies = _copy_coarsely(deciding, scales, n_threads=count_workers(workers), check_cancelled=check_cancelled)
    statistics = tuple(
        measure_statistics([scale.embed(block) for block in samples], copy, stack.n_images, config)
        for scale, copy in zip(scales, copies, strict=True)
    )
    own = samples if guide is None else sample_stack(stack)
    return focus_range, Measured(
        statistics=statistics,
        noise=tuple(measure_sample_noise(own, config, channel=channel) for channel in _channels_of(stack)),
        companion_noise=0.0 if companions is None else measure_sample_noise(sample_stack(companions), config),
    )


def measure_range_and_noise(stack: Stack) -> tuple[FocusRanges, tuple[float, ...]]:
    """Return the focus range as a run would choose it, and the noise on the 0-255 scale for each decision, from a fixed subsample."""
    samples, config = sample_stack(stack), FusionConfig()
    focus_range = settle_range(stack, None, samples=samples)
    scales = [_Scale.of(stack, focus_range, channel, config) for channel in _channels_of(stack)]
    return focus_range, tuple(measure_noise([scale.embed(block) for block in samples]) for scale in scales)


def _channels_of(stack: Stack) -> Sequence[int | None]:
    """Return the channels that are decided on one by one; None for a joint decision."""
    return range(count_decisions(stack)) if stack.decides_each else (None,)


@dataclass(frozen=True, slots=True)
class _Scale:
    """How samples of a stack are embedded for one decision: all channels, or one of them."""

    focus_range: FocusRanges
    channel: int | None
    config: FusionConfig
    n_planes: int
    highest: float | None

    @classmethod
    def of(cls, stack: Stack, focus_range: FocusRanges, channel: int | None, config: FusionConfig) -> _Scale:
        bounds = focus_range if channel is None or isinstance(focus_range, FocusRange) else focus_range[channel]
        n_planes = 1 if channel is not None else count_planes(stack.image_shape, config.method.representation)
        highest = find_highest(stack.dtype, bounds, significant_bits=stack.metadata.significant_bits)
        return cls(bounds, channel, config, n_planes, highest)

    def embed(self, samples: SampleArray) -> FloatArray:
        shown = samples if self.channel is None else samples[..., self.channel]
        return to_planes(shown, self.focus_range, representation=self.config.method.representation)


def _copy_coarsely(stack: Stack, scales: Sequence[_Scale], *, n_threads: int, check_cancelled: Callable[[], None]) -> list[CoarseCopy]:
    """Return a coarse copy of a stack for each decision, by a reduction over images and bands of rows that reads every sample once."""
    height, width = stack.image_shape[:2]
    n_rows = max(1, LARGEST_BAND_PX // (width * CELL_PX)) * CELL_PX
    bands = [Window(top, 0, min(top + n_rows, height), width) for top in range(0, height, n_rows)]
    grid = (-(-height // CELL_PX), -(-width // CELL_PX))
    means = [_allocate((stack.n_images, scale.n_planes, *grid)) for scale in scales]
    details, clipped = ([_allocate((stack.n_images, *grid)) for _ in scales] for _ in range(2))

    def reduce_band(image: int, band: Window) -> None:
        check_cancelled()
        seen = band.grown(MARGIN_PX, (height, width))
        samples = stack.read(image, seen)
        check_finite(samples, stack.names[image])
        rows = slice(band.top // CELL_PX, -(-band.bottom // CELL_PX))
        for number, scale in enumerate(scales):
            found = coarsen(scale.embed(samples), highest=scale.highest, inner=band.relative_to(seen))
            means[number][image, :, rows], details[number][image, rows], clipped[number][image, rows] = found

    jobs = [partial(reduce_band, image, band) for image in range(stack.n_images) for band in bands]
    # in descending order of the text of the keys: image by image and from top to bottom
    graph = {("qmcif-coarse", 10**12 - number): (job,) for number, job in enumerate(jobs)}
    compute_on_threads(graph, list(graph), num_workers=min(n_threads, len(jobs)))
    return [
        CoarseCopy(means=mean, detail=detail, clipped=share if share.any() else None)
        for mean, detail, share in zip(means, details, clipped, strict=True)
    ]


def _allocate(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return an empty array, in a temporary file where it is large."""
    if math.prod(shape) * 4 <= LARGEST_IN_MEMORY_BYTES:
        return np.empty(shape, np.float32)
    with tempfile.TemporaryFile(prefix="qmcif-") as file:  # the array keeps it open
        return np.memmap(file, np.float32, "w+", shape=shape)
