"""Channels and planes that follow a decision which was made without them, and the noise of samples that are composed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from qmcif_engine.arrays import FloatArray, SampleArray
from qmcif_engine.config.fusion_config import FusionConfig, NoiseHandling
from qmcif_engine.decision.filters import unit_of
from qmcif_engine.decision.statistics import ROUNDING, measure_noise
from qmcif_engine.rules import Decision, Rule
from qmcif_engine.stack.stack import Stack
from qmcif_engine.stack.window import Window


def shown_channels(stack: Stack, companions: Stack) -> tuple[int, ...]:
    """Return which channels of the companions the stack shows; empty where they are planes of another kind, such as opacity."""
    return stack.deciding_channels if companions is stack.companions and len(companions.image_shape) == 3 else ()


def measure_companion_noise(samples: Sequence[SampleArray], config: FusionConfig, *, shown: tuple[int, ...]) -> tuple[float, ...]:
    """Return the noise of companions as `compose_companions` takes it: one figure, or one for each channel."""
    if not shown:
        return (measure_sample_noise(samples, config),)
    channels = range(samples[0].shape[2])
    return tuple(0.0 if channel in shown else measure_sample_noise(samples, config, channel=channel) for channel in channels)


def compose_companions(
    images: Stack,
    decision: Decision,
    *,
    rule: Rule,
    fused: SampleArray,
    shown: tuple[int, ...],
    inner: Window,
    noise: tuple[float, ...],
    config: FusionConfig,
) -> SampleArray:
    """Return the inner window of companions, composed by a decision.

    Channels that decided are those of the fused image bit for bit. Each of the others is composed by itself: it may have been recorded by
    itself, and changes nothing of the colors.

    Parameters
    ----------
    images : Stack
        The companions in `decision.window`.
    decision : Decision
    rule : Rule
    fused : ndarray, shape (h, w) or (h, w, C)
        What the decision made of the stack.
    shown : tuple of int
        As `shown_channels` returns it.
    inner : Window
        Counted from the corner of `decision.window`.
    noise : tuple of float
        As `measure_companion_noise` returns it.
    config : FusionConfig
    """
    if not shown:
        return rule.compose(images, decision, inner=inner, noise=noise[0], config=config)
    planes = fused if fused.ndim == 3 else fused[..., np.newaxis]
    found = [
        planes[..., shown.index(channel)]
        if channel in shown
        else rule.compose(images.channel(channel), decision, inner=inner, noise=level, config=config)
        for channel, level in enumerate(noise)
    ]
    joined: Any = np.stack(found, axis=-1)
    samples: SampleArray = joined
    return samples


def measure_sample_noise(samples: Sequence[SampleArray], config: FusionConfig, *, channel: int | None = None) -> float:
    """Return the standard deviation of the noise, at least that of rounding.

    Parameters
    ----------
    samples : sequence of ndarray, shape (h, w) or (h, w, C)
        Windows of the images, as `qmcif_engine.stack.stack.sample_stack` gives them.
    config : FusionConfig
    channel : int or None
        The channel that is looked at; None for all together.
    """
    step = {"f": 0.0, "b": 1 / 255}.get(samples[0].dtype.kind, 1.0)
    if config.decision.noise is NoiseHandling.OFF:
        return step * ROUNDING
    unit = unit_of(samples)
    planes = (_as_planes(block if channel is None else block[..., channel]) / unit for block in samples)
    return measure_noise(planes, step=step / unit) * unit


def _as_planes(samples: Any) -> FloatArray:  # noqa: ANN401 - samples of any type
    planes = samples[np.newaxis] if samples.ndim == 2 else np.moveaxis(samples, -1, 0)
    # double precision: samples may lie far from zero, or be so large or small that single precision does not hold their squares
    return np.ascontiguousarray(planes, np.float64)
