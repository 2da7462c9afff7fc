"""Iterations of QFED without its low-rank term, in place: what the default spends most of its time on.

The updates are those of `qmcif_engine.method.decomposition.updates`, which states the equations and which the tests compare with; here
compiled kernels do them in one pass over the rows and one solve per iteration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qmcif_engine.kernels.splitting import Weights, advance, finish
from qmcif_engine.method.decomposition.operators import gradients, relax_screened
from qmcif_engine.method.quaternion import modulus
from qmcif_engine.stack.samples import FULL_SCALE

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.config.fusion_config import DecompositionConfig


class Measures(NamedTuple):
    """What one iteration did, as `qmcif_engine.method.decomposition.solver.IterationRecord` defines it."""

    change: float
    sum_residual: float
    gradient_residual: float


class ImageSolve:
    """The layers of one image while the iterations overwrite them.

    Parameters
    ----------
    image : ndarray of float, shape (3, h, w)
    config : DecompositionConfig
    """

    def __init__(self, image: FloatArray, config: DecompositionConfig) -> None:
        self._config = config
        self._image = np.ascontiguousarray(image, config.precision.value)
        # the published first value, B = (nabla^T nabla + 1)^-1 I; 1 in place of 2 since there is no patch term
        self._base = self._image.copy()
        relax_screened(self._base, screening=1.0)
        self._noise = np.zeros_like(self._base)
        # W of `qmcif_engine.kernels.splitting`, vertical and horizontal; zero multipliers make its first value irrelevant
        self._fields = (np.zeros_like(self._base), np.zeros_like(self._base))
        self._penalty = 0.0

    def advance(self, penalty: float) -> None:
        """Do one iteration: one pass of the updates before the base layer, and the base layer."""
        advance(self._image, self._base, self._noise, *self._fields, self._weights(penalty))
        relax_screened(self._base, screening=1.0)
        self._penalty = penalty

    def advance_measured(self, penalty: float) -> Measures:
        """Do one iteration and measure it, which costs twice as much again."""
        previous, _ = self._rest()
        share = self._weights(penalty).multiplier_share
        # before `advance` overwrites the fields: Y/mu is what they have beside the gradients
        multipliers = share * (np.stack(self._fields) - gradients(self._base))
        self.advance(penalty)
        detail, noise = self._rest()
        of_sum = self._image - self._base - detail - noise
        of_gradients = np.stack(self._fields) - multipliers - gradients(self._base)
        # a black image has norm 0, and residuals of 0
        scale = max(norm(self._image), float(np.finfo(np.float32).tiny))
        return Measures(float(modulus(detail - previous).max()) / FULL_SCALE, norm(of_sum) / scale, norm(of_gradients) / scale)

    def layers(self) -> tuple[FloatArray, FloatArray, FloatArray, None]:
        """End the solve and return base, detail and noise, which take the place of its arrays; there are no coefficients."""
        # the fields are not needed any more: one of them becomes the detail layer, without further memory
        detail = self._fields[0]
        finish(self._image, self._base, self._noise, detail, self._weights(self._penalty))
        return self._base, detail, self._noise, None

    def _rest(self) -> tuple[FloatArray, FloatArray]:
        """Return copies of the detail and the noise layer as they are now."""
        detail, noise = np.empty_like(self._base), self._noise.copy()
        # before the first iteration any penalty will do, as all numbers that `finish` uses are then 0
        finish(self._image, self._base, noise, detail, self._weights(self._penalty or 1.0))
        return detail, noise

    def _weights(self, penalty: float) -> Weights:
        return weigh_iteration(self._config, penalty, previous=self._penalty, dtype=self._base.dtype)


def weigh_iteration(
    config: DecompositionConfig, penalty: float, *, previous: float, dtype: np.dtype[Any], modulus_scale: float = 1.0
) -> Weights:
    """Return the numbers of one pass, from the penalty of this iteration and of the one before, which is 0 before the first.

    Shrinkage sees moduli `modulus_scale` times as large as those of the planes given.
    """
    # in the order of `Weights`; whatever belongs to the iteration before is 0 in the first
    twice = 2 * config.noise_weight
    numbers = (
        previous / penalty,
        config.base_smoothness / penalty / modulus_scale,
        config.detail_sparsity / previous / modulus_scale if previous else 0.0,
        twice / previous if previous else 0.0,
        previous / (twice + previous) if previous else 0.0,
        1 - twice / penalty,
        np.finfo(dtype).tiny,
    )
    return Weights(*(dtype.type(number) for number in numbers))


def norm(values: FloatArray) -> float:
    """Return the Frobenius norm, summed in float64."""
    return float(np.sqrt(np.einsum("i,i->", values.reshape(-1), values.reshape(-1), dtype=np.float64)))
