"""Preference for the front or the back of a stack where several images could give a pixel, as in hair, mesh or glass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

from qmcif_engine.config.fusion_config import Preference

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.config.fusion_config import DecisionConfig


def weigh_images(n_images: int, config: DecisionConfig) -> tuple[float, ...]:
    """Return the factor on the focus levels of each image: `preference_ratio` at the preferred end, 1 at the other.

    In between it changes by the same ratio from image to image. Neighbors in a deep stack are then weighted almost alike, and a surface
    that lies between them stays where it is; images far from each other are not.
    """
    if config.preference is Preference.NONE:
        return (1.0,) * n_images
    # exponents: equal steps of them are equal ratios of the weights
    shares = np.linspace(1, 0, n_images) if config.preference is Preference.FRONT else np.linspace(0, 1, n_images)
    return tuple(float(weight) for weight in config.preference_ratio**shares)


class WeightedLevels(Sequence["FloatArray"]):
    """Focus levels times the factor of their image, each computed when it is asked for, so that memory does not grow with N."""

    def __init__(self, levels: Sequence[FloatArray], weights: Sequence[float]) -> None:
        self._levels, self._weights = levels, tuple(weights)

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self._levels)

    @overload
    def __getitem__(self, number: int) -> FloatArray: ...

    @overload
    def __getitem__(self, number: slice) -> WeightedLevels: ...

    def __getitem__(self, number: int | slice) -> FloatArray | WeightedLevels:
        """Return the levels of one image, or of some."""
        if isinstance(number, slice):
            return WeightedLevels(self._levels[number], self._weights[number])
        level = self._levels[number]
        return level * np.asarray(self._weights[number], level.dtype)
