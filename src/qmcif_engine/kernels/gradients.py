"""Local contrast of a block."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.compilation import compiled

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray


@compiled
def add_step_power(power: FloatArray, here: FloatArray, there: FloatArray) -> None:
    """Add the squares of the steps from here to there."""
    for x in range(there.size):
        step = there[x] - here[x]
        power[x] += step * step


@compiled
def add_root(power: FloatArray, out: FloatArray) -> None:
    """Add the roots of the powers and clear these."""
    for x in range(out.size):
        out[x] += math.sqrt(power[x])
        power[x] = 0


@compiled
def add_gradient_moduli(planes: FloatArray, out: FloatArray) -> None:
    """Add the modulus of the difference to the next row and to the next column, over all planes (c, h, w), to `out`, shape (h, w).

    The last differences are zero.
    """
    n_planes, h, w = planes.shape
    power = np.zeros(w, planes.dtype)
    for y in range(h):
        # the image continues by reflection, so the last difference is zero
        if y < h - 1:
            # squares of all planes before the root: the modulus of a quaternion, not a sum of moduli
            for c in range(n_planes):
                add_step_power(power, planes[c, y], planes[c, y + 1])
            add_root(power, out[y])
        for c in range(n_planes):
            add_step_power(power, planes[c, y], planes[c, y][1:])
        add_root(power, out[y])
