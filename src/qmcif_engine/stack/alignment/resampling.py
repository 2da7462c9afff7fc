"""Samples between the pixels of an image."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray

TAPS_BEFORE, TAPS_AFTER = 2, 3
"""Samples taken on either side of a position, counted from the pixel before it."""

PHASE_BITS = 11
N_PHASES = 1 << PHASE_BITS
"""Positions between two pixels that there are weights for: rounding to them moves no sample by more than 1/4096 px."""

_N_TAPS = TAPS_BEFORE + TAPS_AFTER + 1


def tabulate_weights() -> NDArray[np.float64]:
    """Return the weights of six samples for every phase, shape (N_PHASES, 6).

    Lanczos weights, each row changed as little as makes it exact for constants, slopes and parabolas: plain ones shift slopes by up to
    0.02 px.
    """
    distance = np.arange(N_PHASES)[:, np.newaxis] / N_PHASES + TAPS_BEFORE - np.arange(_N_TAPS)
    weights = np.sinc(distance) * np.sinc(distance / TAPS_AFTER)
    moments = distance[:, np.newaxis] ** np.arange(3)[:, np.newaxis]
    wrong = np.array([1.0, 0.0, 0.0]) - np.einsum("pmt,pt->pm", moments, weights)
    gram = np.einsum("pmt,pnt->pmn", moments, moments)
    weights += np.einsum("pmt,pm->pt", moments, np.linalg.solve(gram, wrong[..., np.newaxis])[..., 0])
    # exactly, so that whole shifts copy samples whichever way they are computed
    weights[0] = np.arange(_N_TAPS) == TAPS_BEFORE
    return np.asarray(weights)


@compiled
def resample(source: FloatArray, weights: FloatArray, matrix: FloatArray, corner: NDArray[np.int64], out: FloatArray) -> None:
    """Fill a block with samples from between the pixels of a source.

    Parameters
    ----------
    source : ndarray of float64, shape (h, w, C)
        All samples that the block needs.
    weights : ndarray of float64, shape (N_PHASES, 6)
    matrix : ndarray of float64, shape (3, 3)
        Maps (x, y, 1) of the result to a multiple of (x, y, 1) in the source image.
    corner : ndarray of int64, shape (4,)
        Row and column of the block's first pixel in the result, and of the first sample of `source` in its image.
    out : ndarray of float64, shape (h', w', C)

    Notes
    -----
    Positions come from absolute coordinates and are rounded to phases before anything is subtracted, so that a pixel has the same value
    in whatever block it is computed.
    """
    n_rows, n_columns, n_channels = out.shape
    for row in range(n_rows):
        y = float(corner[0] + row)
        for column in range(n_columns):
            x = float(corner[1] + column)
            distance = matrix[2, 0] * x + matrix[2, 1] * y + matrix[2, 2]
            right = math.floor((matrix[0, 0] * x + matrix[0, 1] * y + matrix[0, 2]) / distance * N_PHASES + 0.5)
            down = math.floor((matrix[1, 0] * x + matrix[1, 1] * y + matrix[1, 2]) / distance * N_PHASES + 0.5)
            # shifting keeps negative positions right: it rounds downwards
            left = (right >> PHASE_BITS) - TAPS_BEFORE - corner[3]
            top = (down >> PHASE_BITS) - TAPS_BEFORE - corner[2]
            across, along = weights[right & (N_PHASES - 1)], weights[down & (N_PHASES - 1)]
            for channel in range(n_channels):
                total = 0.0
                for tap in range(_N_TAPS):
                    line = source[top + tap]
                    part = 0.0
                    for side in range(_N_TAPS):
                        part += across[side] * line[left + side, channel]
                    total += along[tap] * part
                out[row, column, channel] = total
