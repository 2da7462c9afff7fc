"""Noise of the samples that are composed, in their own unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.config.fusion_config import NoiseHandling
from qmcif_engine.decision.filters import unit_of
from qmcif_engine.decision.statistics import ROUNDING, measure_noise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qmcif_engine.arrays import FloatArray, SampleArray
    from qmcif_engine.config.fusion_config import FusionConfig


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
