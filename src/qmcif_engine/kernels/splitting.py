"""The image-domain updates of one QFED iteration in one pass over the rows.

The states of the iterations are those of `qmcif_engine.method.decomposition.updates`, but fewer arrays hold them. Two facts make that
possible. Right after its own update ``Y_5 = 2 lambda E``; and ``Y_3 = mu (W - nabla B)``, where ``W = G + Y_3 / mu`` was the base layer's
target. So ``E`` and ``W`` are kept between iterations, ``G``, ``D`` and the multipliers are not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qmcif_engine.kernels.compilation import compiled

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray


class Weights(NamedTuple):
    """The numbers of one pass, all of the dtype of the planes.

    Attributes
    ----------
    multiplier_share : float
        ``mu' / mu``, the penalty of the iteration before over that of this one; 0 before the first.
    gradient_threshold : float
        ``alpha / mu``.
    detail_threshold, noise_share, noise_gain : float
        ``beta / mu'``, ``2 lambda / mu'`` and ``mu' / (2 lambda + mu')`` of the iteration before; all 0 before the first, where the detail
        layer is the whole of ``I - B`` and there is no noise.
    target_share : float
        ``1 - 2 lambda / mu``.
    tiny : float
        Stands for a modulus of zero in divisions.
    """

    multiplier_share: float
    gradient_threshold: float
    detail_threshold: float
    noise_share: float
    noise_gain: float
    target_share: float
    tiny: float


@compiled
def to_factors(power: FloatArray, threshold: float, tiny: float) -> None:
    """Turn squared moduli into the factors by which shrinkage shortens."""
    for x in range(power.size):
        length = math.sqrt(power[x])
        power[x] = (max(length, threshold) - threshold) / max(length, tiny)


@compiled
def clear(values: FloatArray) -> None:
    """Set all values to zero."""
    for x in range(values.size):
        values[x] = 0


@compiled
def add_step_power(power: FloatArray, field: FloatArray, here: FloatArray, there: FloatArray, share: float) -> None:
    """Add the squares of ``nabla B - Y/mu``."""
    for x in range(power.size):
        step = there[x] - here[x]
        target = step - share * (field[x] - step)
        power[x] += target * target


@compiled
def put_field(factor: FloatArray, field: FloatArray, here: FloatArray, there: FloatArray, share: float) -> None:
    """Put ``shrink(nabla B - Y/mu) + Y/mu`` in the place of the field, by the factors of the shrinkage."""
    for x in range(factor.size):
        step = there[x] - here[x]
        multiplier = share * (field[x] - step)
        field[x] = factor[x] * (step - multiplier) + multiplier


@compiled
def _update_field(fields: FloatArray, base: FloatArray, y: int, shift: tuple[int, int], power: FloatArray, weights: Weights) -> None:
    """Replace row `y` of ``W`` by ``shrink(nabla B - Y/mu) + Y/mu``; the difference is taken to the pixel shifted by (rows, columns)."""
    clear(power)
    for c in range(3):
        add_step_power(power, fields[c, y], base[c, y], base[c, y + shift[0]][shift[1] :], weights.multiplier_share)
    to_factors(power, weights.gradient_threshold, weights.tiny)
    for c in range(3):
        put_field(power, fields[c, y], base[c, y], base[c, y + shift[0]][shift[1] :], weights.multiplier_share)


@compiled
def add_rest_power(power: FloatArray, image: FloatArray, base: FloatArray, noise: FloatArray, share: float) -> None:
    """Add the squares of what is shrunk to the detail."""
    for x in range(power.size):
        target = (image[x] - base[x]) - noise[x] + share * noise[x]
        power[x] += target * target


@compiled
def split_rest(factor: FloatArray, image: FloatArray, base: FloatArray, noise: FloatArray, detail: FloatArray, weights: Weights) -> None:
    """Divide ``I - B`` of a row into detail and noise; `detail` may be any row but these."""
    for x in range(factor.size):
        rest = image[x] - base[x]
        kept = weights.noise_share * noise[x]
        detail[x] = factor[x] * (rest - noise[x] + kept)
        noise[x] = weights.noise_gain * (rest - detail[x] + kept)


@compiled
def _update_rest(
    image: FloatArray, base: FloatArray, noise: FloatArray, y: int, rows: tuple[FloatArray, FloatArray], weights: Weights
) -> None:
    """Put the detail of row `y` into the second of `rows`, shape (3, w), and the noise into its place; the first is scratch."""
    power, detail = rows
    clear(power)
    for c in range(3):
        add_rest_power(power, image[c, y], base[c, y], noise[c, y], weights.noise_share)
    to_factors(power, weights.detail_threshold, weights.tiny)
    for c in range(3):
        split_rest(power, image[c, y], base[c, y], noise[c, y], detail[c], weights)


@compiled
def _put_right_side(base: FloatArray, image: FloatArray, detail: FloatArray, noise: FloatArray, share: float) -> None:
    for x in range(base.size):
        base[x] = image[x] - detail[x] - share * noise[x]


@compiled
def _add_difference(values: FloatArray, before: FloatArray, after: FloatArray) -> None:
    for x in range(values.size):
        values[x] += before[x] - after[x]


@compiled
def advance(image: FloatArray, base: FloatArray, noise: FloatArray, down: FloatArray, right: FloatArray, weights: Weights) -> None:
    """Take the base layer of one iteration to the right side of the equation for the next one.

    Parameters
    ----------
    image : ndarray of float, shape (3, h, w)
    base : ndarray of float, shape (3, h, w)
        ``B``; overwritten by ``I - D - E + Y_5/mu + nabla^T W``.
    noise : ndarray of float, shape (3, h, w)
        ``E`` of the iteration before; overwritten by that of this one.
    down, right : ndarray of float, shape (3, h, w)
        ``W`` for the difference between rows, whose last row is zero, and between columns, whose last column is; overwritten.
    weights : Weights
    """
    _, h, w = image.shape
    power = np.empty(w, image.dtype)
    detail = np.empty((3, w), image.dtype)
    for y in range(h):
        # the last row has none below it: the image continues by reflection, so the difference there is zero
        if y < h - 1:
            _update_field(down, base, y, (1, 0), power, weights)
        _update_field(right, base, y, (0, 1), power[: w - 1], weights)
        _update_rest(image, base, noise, y, (power, detail), weights)
        for c in range(3):
            row = base[c, y]
            _put_right_side(row, image[c, y], detail[c], noise[c, y], weights.target_share)
            if y > 0:
                _add_difference(row, down[c, y - 1], down[c, y])
            else:
                for x in range(w):
                    row[x] -= down[c, y, x]
            row[0] -= right[c, y, 0]
            _add_difference(row[1:], right[c, y], right[c, y][1:])


@compiled
def finish(image: FloatArray, base: FloatArray, noise: FloatArray, detail: FloatArray, weights: Weights) -> None:
    """Put the detail layer that belongs to a base layer into `detail`, and the noise of its iteration in the place of the one before."""
    _, h, w = image.shape
    power = np.empty(w, image.dtype)
    row = np.empty((3, w), image.dtype)
    for y in range(h):
        _update_rest(image, base, noise, y, (power, row), weights)
        for c in range(3):
            for x in range(w):
                detail[c, y, x] = row[c, x]
