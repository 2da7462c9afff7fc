"""Stand-in until the rule lands: the largest local variance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.decision.evidence import local_variance
from qmcif_engine.rules import Decision, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qmcif_engine.arrays import SampleArray
    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.rules import Planes, StackStatistics, Steps
    from qmcif_engine.stack.window import Window


def decide(
    planes: Planes, core: Window, statistics: StackStatistics, config: FusionConfig, *, with_position: bool, steps: Steps
) -> Decision:
    """Return the decision on the core."""
    del statistics, config
    window = core.grown(24, planes.window.shape)
    best, index = np.full(planes.window.shape, -1.0, np.float32), np.zeros(planes.window.shape, np.uint16)
    for number in range(planes.n_images):
        steps.check_cancelled()
        level, choosable = local_variance(planes.block(number)), planes.choosable(number)
        if choosable is not None:
            level = np.where(choosable, level, -0.5)
        is_better = level > best
        best, index = np.where(is_better, level, best), np.where(is_better, np.uint16(number), index)
        steps.report_image()
    index = np.ascontiguousarray(index[window.slices])
    position = index.astype(np.float32) if with_position else None
    return Decision(
        window=window,
        index=index,
        confidence=np.full(index.shape, 0.9, np.float32),
        position=position,
        maps={"base_map": index, "detail_map": index},
    )


def compose(images: Sequence[SampleArray], decision: Decision, *, inner: Window, noise: float, config: FusionConfig) -> SampleArray:
    """Return copied samples."""
    del noise, config
    index = decision.index[inner.slices]
    out = np.empty((*index.shape, *images[0].shape[2:]), images[0].dtype)
    for number in np.unique(index):
        out[index == number] = images[int(number)][inner.slices][index == number]
    return out


RULE = Rule(
    decide=decide,
    compose=compose,
    reach_px=lambda _config, _shape: 160,
    working_bytes=lambda _config, n_px, _n: 64 * n_px,
    has_statistics=True,
)
