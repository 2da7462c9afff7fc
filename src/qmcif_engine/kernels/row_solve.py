"""All iterations of QFED without its low-rank term in one pass over the rows of an image, each row while it is in cache.

An iteration needs of another only the rows next to its own, so iteration ``k`` follows a few rows behind iteration ``k - 1`` instead of
a whole image later. The equations are those of `qmcif_engine.kernels.splitting`, whose rows these functions update; the base layer is
not solved for anew but relaxed from where the last iteration left it.

Even and odd columns of a row are stored apart, shape ``(c, h, 2, n + 2)``, with a zero before and after each half: the pixels of one
color of a chessboard and their neighbors are then contiguous, and the borders no exception.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from qmcif_engine.kernels.compilation import compiled
from qmcif_engine.kernels.screened import inverse_diagonals, relax_row
from qmcif_engine.kernels.splitting import Weights, add_rest_power, add_step_power, put_field, split_rest, to_factors

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray


State: TypeAlias = "tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]"
"""The base layer, the noise, both fields ``W`` and the right side of the base layer's equation, of the rows in work."""

Scratch: TypeAlias = "tuple[FloatArray, FloatArray]"

ThreeRows: TypeAlias = "tuple[FloatArray, FloatArray, FloatArray]"


@compiled
def _weights_of(row: FloatArray) -> Weights:
    return Weights(row[0], row[1], row[2], row[3], row[4], row[5], row[6])


@compiled
def _take_columns(row: FloatArray, p: int, out: FloatArray) -> None:
    """Put the even (0) or odd (1) columns of a row into `out`, which has one entry more on each side."""
    for i in range((row.size + 1 - p) // 2):
        out[i + 1] = row[2 * i + p]


@compiled
def _put_step_power(power: FloatArray, field: FloatArray, here: FloatArray, there: FloatArray, share: float) -> None:
    for x in range(power.size):
        step = there[x] - here[x]
        target = step - share * (field[x] - step)
        power[x] = target * target


@compiled
def _put_rest_power(power: FloatArray, image: FloatArray, base: FloatArray, noise: FloatArray, share: float) -> None:
    for x in range(power.size):
        target = (image[x] - base[x]) - noise[x] + share * noise[x]
        power[x] = target * target


@compiled
def _put_color_field(n: int, fields: ThreeRows, here: ThreeRows, there: ThreeRows, weights: Weights) -> None:
    """Do what `_update_field` does for three planes at once, which reads and writes every value once."""
    (red, green, blue), (here_0, here_1, here_2), (there_0, there_1, there_2) = fields, here, there
    share, threshold, tiny = weights.multiplier_share, weights.gradient_threshold, weights.tiny
    for x in range(n):
        step_0, step_1, step_2 = there_0[x] - here_0[x], there_1[x] - here_1[x], there_2[x] - here_2[x]
        multiplier_0, multiplier_1, multiplier_2 = share * (red[x] - step_0), share * (green[x] - step_1), share * (blue[x] - step_2)
        target_0, target_1, target_2 = step_0 - multiplier_0, step_1 - multiplier_1, step_2 - multiplier_2
        length = math.sqrt(target_0 * target_0 + target_1 * target_1 + target_2 * target_2)
        factor = (max(length, threshold) - threshold) / max(length, tiny)
        red[x] = factor * target_0 + multiplier_0
        green[x] = factor * target_1 + multiplier_1
        blue[x] = factor * target_2 + multiplier_2


@compiled
def _update_field(
    fields: FloatArray, base: FloatArray, here: tuple[int, int], there: tuple[int, int, int], power: FloatArray, weights: Weights
) -> None:
    """Replace half a row of ``W`` by ``shrink(nabla B - Y/mu) + Y/mu``; `here` and `there` give row, half and, of the latter, its shift."""
    (y, p), (row, half, shift) = here, there
    # color, the common case, in one loop; gray and other numbers of planes in several
    if fields.shape[0] == 3:
        _put_color_field(
            power.size,
            (fields[0, y, p][1:], fields[1, y, p][1:], fields[2, y, p][1:]),
            (base[0, y, p][1:], base[1, y, p][1:], base[2, y, p][1:]),
            (base[0, row, half][shift + 1 :], base[1, row, half][shift + 1 :], base[2, row, half][shift + 1 :]),
            weights,
        )
        return
    _put_step_power(power, fields[0, y, p][1:], base[0, y, p][1:], base[0, row, half][shift + 1 :], weights.multiplier_share)
    for c in range(1, fields.shape[0]):
        add_step_power(power, fields[c, y, p][1:], base[c, y, p][1:], base[c, row, half][shift + 1 :], weights.multiplier_share)
    to_factors(power, weights.gradient_threshold, weights.tiny)
    for c in range(fields.shape[0]):
        put_field(power, fields[c, y, p][1:], base[c, y, p][1:], base[c, row, half][shift + 1 :], weights.multiplier_share)


@compiled
def _put_color_rest(n: int, image: ThreeRows, base: ThreeRows, noise: ThreeRows, detail: ThreeRows, weights: Weights) -> None:
    """Do what `_update_rest` does for three planes at once."""
    (image_0, image_1, image_2), (base_0, base_1, base_2), (noise_0, noise_1, noise_2) = image, base, noise
    detail_0, detail_1, detail_2 = detail
    share, gain, threshold, tiny = weights.noise_share, weights.noise_gain, weights.detail_threshold, weights.tiny
    for x in range(n):
        rest_0, rest_1, rest_2 = image_0[x] - base_0[x], image_1[x] - base_1[x], image_2[x] - base_2[x]
        kept_0, kept_1, kept_2 = share * noise_0[x], share * noise_1[x], share * noise_2[x]
        target_0, target_1, target_2 = rest_0 - noise_0[x] + kept_0, rest_1 - noise_1[x] + kept_1, rest_2 - noise_2[x] + kept_2
        length = math.sqrt(target_0 * target_0 + target_1 * target_1 + target_2 * target_2)
        factor = (max(length, threshold) - threshold) / max(length, tiny)
        found_0, found_1, found_2 = factor * target_0, factor * target_1, factor * target_2
        detail_0[x], detail_1[x], detail_2[x] = found_0, found_1, found_2
        noise_0[x] = gain * (rest_0 - found_0 + kept_0)
        noise_1[x] = gain * (rest_1 - found_1 + kept_1)
        noise_2[x] = gain * (rest_2 - found_2 + kept_2)


@compiled
def _update_rest(
    image: FloatArray, base: FloatArray, noise: FloatArray, here: tuple[int, int], power: FloatArray, detail: FloatArray, weights: Weights
) -> None:
    """Put the detail of half a row into `detail`, shape (c, n), and the noise into its place."""
    y, p = here
    if image.shape[0] == 3:
        _put_color_rest(
            power.size,
            (image[0, y, p][1:], image[1, y, p][1:], image[2, y, p][1:]),
            (base[0, y, p][1:], base[1, y, p][1:], base[2, y, p][1:]),
            (noise[0, y, p][1:], noise[1, y, p][1:], noise[2, y, p][1:]),
            (detail[0], detail[1], detail[2]),
            weights,
        )
        return
    _put_rest_power(power, image[0, y, p][1:], base[0, y, p][1:], noise[0, y, p][1:], weights.noise_share)
    for c in range(1, image.shape[0]):
        add_rest_power(power, image[c, y, p][1:], base[c, y, p][1:], noise[c, y, p][1:], weights.noise_share)
    to_factors(power, weights.detail_threshold, weights.tiny)
    for c in range(image.shape[0]):
        split_rest(power, image[c, y, p][1:], base[c, y, p][1:], noise[c, y, p][1:], detail[c], weights)


@compiled
def _put_target(
    target: FloatArray, parts: ThreeRows, share: float, above: FloatArray, here: FloatArray, before: FloatArray, after: FloatArray
) -> None:
    """Put ``I - D - E + Y_5/mu + nabla^T W`` into the target; `parts` are the image, its detail and its noise."""
    image, detail, noise = parts
    for x in range(target.size):
        target[x] = (image[x] - detail[x] - share * noise[x]) + ((above[x] - here[x]) + (before[x] - after[x]))


@compiled
def _advance_row(image: FloatArray, state: State, y: int, shape: tuple[int, int], scratch: Scratch, weights: Weights) -> None:
    """Put row `y` of the right side of the equation for the base layer into the targets."""
    base, noise, down, right, target = state
    (h, w), (power, detail), n_kept = shape, scratch, base.shape[1]
    # rows in work take turns in a ring
    row, row_above, row_below = y % n_kept, (y - 1) % n_kept, (y + 1) % n_kept
    for p in range(2):
        # the last row has no difference to a next one: its field stays zero
        if y < h - 1:
            _update_field(down, base, (row, p), (row_below, p, 0), power[: (w + 1 - p) // 2], weights)
        # an even column steps to the odd one beside it, an odd one to the next even one
        _update_field(right, base, (row, p), (row, 1 - p, p), power[: (w - p) // 2], weights)
    for p in range(2):
        m = (w + 1 - p) // 2
        _update_rest(image, base, noise, (row, p), power[:m], detail, weights)
        for c in range(image.shape[0]):
            _put_target(
                target[c, row, p][1 : m + 1],
                (image[c, row, p][1:], detail[c], noise[c, row, p][1:]),
                weights.target_share,
                down[c, row_above, p][1:],
                down[c, row, p][1:],
                right[c, row, 1 - p][p:],
                right[c, row, p][1:],
            )


@compiled
def _relax_row(
    base: FloatArray, target: FloatArray, outside: FloatArray, y: int, shape: tuple[int, int], color: int, steps: FloatArray
) -> None:
    """Relax the pixels of one color of row `y`; `steps` has shape (2, 2, n + 1): border rows, columns."""
    (h, w), n_kept = shape, base.shape[1]
    # columns of this color in this row: even or odd
    p = (y + color) & 1
    m = (w + 1 - p) // 2
    # border pixels have fewer neighbors, hence other steps
    row_steps = steps[int(y == 0 or y == h - 1), p]
    for c in range(base.shape[0]):
        # left and right neighbors are of the other color and stored in the other half; above and below are in the same half of their rows
        other = base[c, y % n_kept, 1 - p]
        above = base[c, (y - 1) % n_kept, p] if y > 0 else outside
        below = base[c, (y + 1) % n_kept, p] if y < h - 1 else outside
        mine = base[c, y % n_kept, p][1 : m + 1]
        relax_row(mine, target[c, y % n_kept, p][1:], other[p:], other[p + 1 :], above[1:], below[1:], row_steps)


@compiled
def _relaxation_table(omegas: FloatArray, shape: tuple[int, int], like: FloatArray) -> FloatArray:
    """Return, for each half-sweep, what a pixel keeps of itself and takes of its equation, shape (sweeps, 2, 2, n + 1)."""
    h, w = shape
    n = (w + 1) // 2
    inverses = inverse_diagonals(h, w, 1.0)
    steps = np.empty((omegas.size, 2, 2, n + 1), like.dtype)
    for j in range(omegas.size):
        for is_border in range(2):
            for p in range(2):
                steps[j, is_border, p, 0] = 1 - omegas[j]
                for i in range(n):
                    steps[j, is_border, p, i + 1] = omegas[j] * inverses[is_border, p, i]
    return steps


@compiled
def _enter_row(planes: FloatArray, y: int, image: FloatArray, state: State) -> None:
    """Put row `y` into the place of one that is done with: the image, its first base layer, and nothing in all others."""
    base, noise, down, right, _ = state
    row = y % image.shape[1]
    for c in range(planes.shape[0]):
        for p in range(2):
            _take_columns(planes[c, y], p, image[c, row, p])
            for x in range(image.shape[3]):
                base[c, row, p, x] = image[c, row, p, x]
                noise[c, row, p, x] = down[c, row, p, x] = right[c, row, p, x] = 0


@compiled
def solve_rows(planes: FloatArray, weights: FloatArray, sweeps: tuple[FloatArray, FloatArray], detail: FloatArray) -> None:
    """Put the detail layer after some iterations into `detail`.

    Parameters
    ----------
    planes : ndarray of float, shape (c, h, w)
    weights : ndarray of float, shape (iterations + 1, 7)
        The `Weights` of each iteration, and last those of the end.
    sweeps : tuple of two ndarray of float64
        Over-relaxation of the half-sweeps that make the first base layer, and of those that relax it in each iteration.
    detail : ndarray of float, shape (c, h, w)
    """
    n_planes, h, w = planes.shape
    n_first, n_later, n_iterations = sweeps[0].size, sweeps[1].size, len(weights) - 1
    # an iteration begins one row behind the last half-sweep of the one before it
    lag = n_later + 1
    last = n_first + n_iterations * lag
    # as many rows as are in work from the entry of a row to its end, and one on either side
    image = np.zeros((n_planes, last + 3, 2, (w + 1) // 2 + 2), planes.dtype)
    state = (image.copy(), image.copy(), image.copy(), image.copy(), image.copy())
    base, noise = state[0], state[1]
    outside = np.zeros(image.shape[3], planes.dtype)
    first, later = _relaxation_table(sweeps[0], (h, w), planes), _relaxation_table(sweeps[1], (h, w), planes)
    scratch = (np.empty((w + 1) // 2, planes.dtype), np.empty((n_planes, (w + 1) // 2), planes.dtype))
    for t in range(h + last + 1):
        if t < h:
            _enter_row(planes, t, image, state)
        for j in range(n_first):
            # while the first and the last rows pass through, some stages have nothing to do
            if 0 <= t - 1 - j < h:
                _relax_row(base, image, outside, t - 1 - j, (h, w), j, first[j])
        for k in range(n_iterations):
            # the rows of all iterations, each `lag` behind the one before
            y = t - 1 - n_first - k * lag
            if 0 <= y < h:
                _advance_row(image, state, y, (h, w), scratch, _weights_of(weights[k]))
            for j in range(n_later):
                if 0 <= y - 1 - j < h:
                    _relax_row(base, state[4], outside, y - 1 - j, (h, w), j, later[j])
        y = t - last
        if 0 <= y < h:
            for p in range(2):
                m = (w + 1 - p) // 2
                _update_rest(image, base, noise, (y % image.shape[1], p), scratch[0][:m], scratch[1], _weights_of(weights[n_iterations]))
                for c in range(n_planes):
                    for i in range(m):
                        detail[c, y, 2 * i + p] = scratch[1][c, i]
