"""What is measured once for a run, before there are tiles, on a fixed subsample of the stack: focus range, noise and noise floors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qmcif_engine.arrays import FloatArray, SampleArray
from qmcif_engine.config.fusion_config import FusionConfig, StackOrder
from qmcif_engine.decision.cleaning import CLIPPED
from qmcif_engine.decision.statistics import measure_gains, measure_noise, measure_statistics
from qmcif_engine.rules import StackStatistics
from qmcif_engine.stack.deciding import choose_focus_range
from qmcif_engine.stack.samples import FARTHEST_LEVEL, FULL_SCALE, FocusRange, FocusRanges, GivenRanges, find_highest, to_planes
from qmcif_engine.stack.stack import Stack, place_samples, sample_stack
from qmcif_engine.tiles.companions import measure_companion_noise, measure_sample_noise, shown_channels
from qmcif_engine.tiles.plan import find_rule
from qmcif_engine.tiles.task import Measured


def measure_run(
    stack: Stack,
    config: FusionConfig,
    given: GivenRanges | None,
    *,
    guide: Stack | None = None,
    companions: Stack | None = None,
) -> tuple[FocusRanges, Measured]:
    """Return the samples that count as black and white, and what is measured for the rule that decides.

    All of it follows from the samples and the settings alone, so that a resumed run has the same.

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
    """
    deciding = stack if guide is None else guide
    samples = sample_stack(deciding)
    focus_range = choose_focus_range(deciding, given, samples=samples)
    is_ordered = stack.n_images > 2 and config.decision.order is StackOrder.ORDERED
    n_decisions = stack.n_decisions
    if not find_rule(config).has_statistics:
        plain = StackStatistics(n_images=stack.n_images, is_ordered=is_ordered)
        return focus_range, Measured(
            statistics=(plain,) * n_decisions, noise=(0.0,) * n_decisions, companion_noise=_no_noise(stack, companions)
        )
    scales = [_Scale.of(deciding, focus_range, channel, config) for channel in _channels_of(stack)]
    statistics = tuple(_measure(samples, scale, deciding, config) for scale in scales)
    own = samples if guide is None else sample_stack(stack)
    return focus_range, Measured(
        statistics=statistics,
        noise=tuple(measure_sample_noise(own, config, channel=channel) for channel in _channels_of(stack)),
        companion_noise=()
        if companions is None
        else measure_companion_noise(sample_stack(companions), config, shown=shown_channels(stack, companions)),
    )


def _measure(samples: list[SampleArray], scale: _Scale, stack: Stack, config: FusionConfig) -> StackStatistics:
    blocks = [scale.embed(block) for block in samples]
    highest = find_highest(stack.dtype, scale.focus_range, significant_bits=stack.metadata.significant_bits) or np.inf
    # pixels that are clipped or missing say nothing of the exposure
    light = [
        np.where((block >= CLIPPED * highest).any(axis=0), np.float32(np.nan), block.mean(axis=0) + scale.pedestal) for block in blocks
    ]
    places = place_samples(stack)
    if stack.has_validity:
        valid = [stack.valid(number, window) for number, window in places]
        light = [np.where(mask, block, np.float32(np.nan)) for mask, block in zip(valid, light, strict=True)]
    lit = dict(zip(places, light, strict=True))
    pairs: list[list[tuple[FloatArray, FloatArray]]] = [[] for _ in range(stack.n_images - 1)]
    for (number, window), block in lit.items():
        if (number + 1, window) in lit:
            pairs[number].append((block, lit[number + 1, window]))
    gains = measure_gains(pairs)
    return measure_statistics(blocks, config, n_images=stack.n_images, step=scale.step, gains=gains, pedestal=scale.pedestal)


def _no_noise(stack: Stack, companions: Stack | None) -> tuple[float, ...]:
    """Return the noise of companions for rules that do not look at it."""
    if companions is None:
        return ()
    return (0.0,) * (companions.image_shape[2] if shown_channels(stack, companions) else 1)


def measure_range_and_noise(stack: Stack) -> tuple[FocusRanges, tuple[float, ...]]:
    """Return the focus range as a run would choose it, and the noise on the 0-255 scale for each decision, from a fixed subsample."""
    samples, config = sample_stack(stack), FusionConfig()
    focus_range = choose_focus_range(stack, None, samples=samples)
    scales = [_Scale.of(stack, focus_range, channel, config) for channel in _channels_of(stack)]
    return focus_range, tuple(measure_noise([scale.embed(block) for block in samples], step=scale.step) for scale in scales)


def _channels_of(stack: Stack) -> Sequence[int | None]:
    """Return the channels that are decided on one by one; None for a joint decision."""
    return range(stack.n_decisions) if stack.decides_each else (None,)


@dataclass(frozen=True, slots=True)
class _Scale:
    """How samples of a stack are embedded for one decision, on all channels or one of them.

    `step` is that of integers on the 0-255 scale, and `pedestal` how much light its 0 stands for, where samples are never negative.
    """

    focus_range: FocusRanges
    channel: int | None
    config: FusionConfig
    step: float
    pedestal: float

    @classmethod
    def of(cls, stack: Stack, focus_range: FocusRanges, channel: int | None, config: FusionConfig) -> _Scale:
        bounds = focus_range if channel is None or isinstance(focus_range, FocusRange) else focus_range[channel]
        # the narrowest range has the widest step
        ranges = (bounds,) if isinstance(bounds, FocusRange) else bounds
        width = min(one.width for one in ranges)
        pedestal = min(FARTHEST_LEVEL, *(FULL_SCALE * max(one.low, 0.0) / one.width for one in ranges))
        return cls(bounds, channel, config, _step_of(stack, width), pedestal)

    def embed(self, samples: SampleArray) -> FloatArray:
        shown = samples if self.channel is None else samples[..., self.channel]
        return to_planes(shown, self.focus_range, representation=self.config.method.representation)


def _step_of(stack: Stack, width: float) -> float:
    """Return the step of integers on the 0-255 scale: 0 for floats, and that of 8 bits for bool, whose own is no rounding."""
    if stack.dtype.kind == "b":
        return 1.0
    return 0.0 if stack.dtype.kind == "f" else FULL_SCALE / width
