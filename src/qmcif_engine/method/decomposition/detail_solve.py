"""The detail layer alone, as decisions need it: QFED without its low-rank term, by a base layer that is relaxed and not solved for."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.row_solve import solve_rows
from qmcif_engine.method.decomposition.image_solve import weigh_iteration
from qmcif_engine.method.decomposition.operators import list_over_relaxations

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.config.fusion_config import DecompositionConfig

MOST_ITERATIONS = 20
"""Of more iterations than this too many rows would be in work at once, and nobody could end them in between."""

FIRST_SWEEPS, SWEEPS = 4, 2
"""Half-sweeps of the chessboard that make the first base layer, and that relax it in every iteration from where the last one left it.
Each halves what is wrong with the base layer; with twice as many of both, decisions differ on one pixel in 500 and are no better."""


def solve_detail(planes: FloatArray, config: DecompositionConfig, *, n_equal: int = 1) -> FloatArray:
    """Return the detail layer of an image after the iterations of the settings.

    Parameters
    ----------
    planes : ndarray of float, shape (c, h, w)
        On the 0-255 scale.
    config : DecompositionConfig
        Without the low-rank term, without a tolerance, and of no more than `MOST_ITERATIONS`.
    n_equal : int
        How many equal planes of the quaternion each plane stands for: 3 for a gray image given as one plane.

    Returns
    -------
    ndarray of float, shape (c, h, w)

    Notes
    -----
    The updates of [QMCIF, Algorithm 1] without ``Z`` and ``J``.

    Departs: the base layer of an iteration is not the solution of [QMCIF, Eq. (10)] but `SWEEPS` half-sweeps nearer to it than that of
    the iteration before. ADMM forgives that, and the decisions hardly see it; `qmcif_engine.method.decomposition.decompose` solves
    exactly.
    """
    dtype = np.dtype(config.precision.value)
    contiguous = np.ascontiguousarray(planes, dtype)
    # 0 stands for "before the first iteration"; the last one is repeated, for the pass that only reads the detail layer off the base layer
    penalties = [0.0, *(min(config.penalty_cap, config.penalty * config.penalty_growth**k) for k in range(config.iterations))]
    penalties.append(penalties[-1])
    # the modulus of three equal planes is that of one times the root of three
    scale = math.sqrt(n_equal)
    weights = np.array(
        [weigh_iteration(config, penalty, previous=previous, dtype=dtype, modulus_scale=scale) for previous, penalty in pairwise(penalties)]
    )
    sweeps = (list_over_relaxations(1.0, FIRST_SWEEPS), list_over_relaxations(1.0, SWEEPS))
    detail = np.empty_like(contiguous)
    solve_rows(contiguous, weights, sweeps, detail)
    return detail
