"""The fit of one movement to many matched windows of which some are wrong."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.stack.alignment.matching import Matches
from qmcif_engine.stack.alignment.transforms import TransformModel, apply_matrix, frame_corners

TOLERANCE_PX = 0.3
"""Distance at which a window counts a quarter; wrong ones lie farther away."""

_ITERATIONS = 20
_CONVERGED_PX = 1e-4
N_PARAMETERS = {TransformModel.TRANSLATION: 2, TransformModel.SIMILARITY: 4, TransformModel.AFFINE: 6, TransformModel.HOMOGRAPHY: 8}


class Fit(NamedTuple):
    """A movement and who agrees with it.

    Attributes
    ----------
    matrix : ndarray of float64, shape (3, 3)
        Maps coordinates where windows were expected to where they were found.
    agrees : ndarray of bool, shape (n,)
    support : float
        Share of the information that agrees, 0 to 1.
    corner_error_px : float
        Expected error at the corner of the frame where it is largest, up to a factor: small only where the windows are spread.
    """

    matrix: NDArray[np.float64]
    agrees: NDArray[np.bool_]
    support: float
    corner_error_px: float


def fit_movement(
    matches: Matches, model: TransformModel, *, shape: tuple[int, ...], tolerance_px: float = TOLERANCE_PX, is_near: bool = False
) -> Fit:
    """Fit a movement by reweighted least squares with a loss that bounds the influence of outliers.

    Such a loss has several minima, so the fit starts twice, from no movement and from the shift most windows agree on, and the start
    with more support wins. Nothing is random.

    Parameters
    ----------
    matches : Matches
        At least one.
    model : TransformModel
        Not ``NONE``.
    shape : tuple of int
        Height and width of the images matched.
    tolerance_px : float
        Distance at which a window counts a quarter.
    is_near : bool
        Whether the windows lie about where they were expected: no movement is then the only start.
    """
    center, radius = np.array([(shape[1] - 1) / 2, (shape[0] - 1) / 2]), math.hypot(*shape[:2]) / 2
    # around the center and of size 1, so that all parameters are of one order
    place = (matches.position - center) / radius
    design = _design(model, place, found=place + matches.shift / radius)
    corners = (frame_corners(shape) - center) / radius
    at_corners = _design(model, corners, found=corners)
    strength = np.trace(matches.information, axis1=1, axis2=2)
    starts = [np.zeros(2)] if is_near else [np.zeros(2), _find_common_shift(matches, strength, tolerance_px)]
    fits = []
    for start in starts:
        parameters, normal = _descend(matches, design, strength, start=start, tolerance_px=tolerance_px)
        distance = np.hypot(*(matches.shift - design @ parameters).T)
        support = float((strength / (1 + (distance / tolerance_px) ** 2)).sum() / strength.sum())
        # how far the covariance of the parameters moves the corners of the frame
        variance = np.einsum("nia,nai->n", at_corners, np.linalg.solve(normal, at_corners.swapaxes(1, 2)))
        matrix = _to_matrix(model, parameters / radius, center=center, radius=radius)
        fits.append(Fit(matrix, distance <= 2 * tolerance_px, support, float(np.sqrt(variance.max()))))
    return max(fits, key=lambda fit: fit.support)


def compare_fits(matches: Matches, simple: TransformModel, rich: TransformModel, *, shape: tuple[int, ...]) -> float:
    """Return how much more a richer model explains, over what it leaves, each by degree of freedom: the statistic of an F test.

    Only windows that agree with the richer model count. About 1 where the further parameters follow noise, were the windows independent.

    Parameters
    ----------
    matches : Matches
        At least one.
    simple, rich : TransformModel
    shape : tuple of int
        Height and width of the images matched.
    """
    fits = [fit_movement(matches, model, shape=shape) for model in (simple, rich)]
    chosen = matches.chosen(fits[1].agrees)
    n_further, n_left = N_PARAMETERS[rich] - N_PARAMETERS[simple], 2 * len(chosen.shift) - N_PARAMETERS[rich]
    if n_left < 1:
        return 0.0
    distances = [chosen.shift - (apply_matrix(fit.matrix, chosen.position) - chosen.position) for fit in fits]
    poor, good = (float(np.einsum("ni,nij,nj->", distance, chosen.information, distance)) for distance in distances)
    return (poor - good) / n_further / max(good / n_left, np.finfo(np.float64).tiny)


def _find_common_shift(matches: Matches, strength: NDArray[np.float64], tolerance_px: float) -> NDArray[np.float64]:
    """Return the shift of the window that most information agrees with."""
    squared = ((matches.shift[:, np.newaxis] - matches.shift) ** 2).sum(axis=2) / tolerance_px**2
    return np.asarray(matches.shift[int(((1 / (1 + squared)) @ strength).argmax())])


def _descend(
    matches: Matches, design: NDArray[np.float64], strength: NDArray[np.float64], *, start: NDArray[np.float64], tolerance_px: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the parameters and their inverse covariance, shape (p,) and (p, p)."""
    n_parameters = design.shape[2]
    # a little evidence for no movement keeps the system solvable where all windows lie in one spot
    stiffness = np.diag(np.where(np.arange(n_parameters) < 2, 1e-9, 1e-4) * strength.mean())
    informed, rows = matches.information @ design, design.reshape(-1, n_parameters)
    parameters = np.zeros(n_parameters)
    parameters[:2] = start
    for _ in range(_ITERATIONS):
        squared = ((matches.shift - design @ parameters) ** 2).sum(axis=1) / tolerance_px**2
        # Geman-McClure: a quarter at the tolerance, next to nothing far away
        weighted = (informed * ((1 + squared) ** -2)[:, np.newaxis, np.newaxis]).reshape(-1, n_parameters)
        normal = weighted.T @ rows + stiffness
        before, parameters = parameters, np.linalg.solve(normal, weighted.T @ matches.shift.ravel())
        if np.abs(parameters - before).max() < _CONVERGED_PX:
            break
    return parameters, normal


def _design(model: TransformModel, place: NDArray[np.float64], *, found: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what the parameters are multiplied with to give shifts, shape (n, 2, parameters): shift, linear part, perspective.

    With perspective q a place u is found at v = (u + t + A u) / (1 + q u), so that v - u = t + A u - v (q u): linear in all parameters
    once v is known.
    """
    x, y = place.T
    right, down = found.T
    zero, one = np.zeros_like(x), np.ones_like(x)
    rows = {
        TransformModel.TRANSLATION: ((one, zero), (zero, one)),
        TransformModel.SIMILARITY: ((one, zero, x, -y), (zero, one, y, x)),
        TransformModel.AFFINE: ((one, zero, x, y, zero, zero), (zero, one, zero, zero, x, y)),
        TransformModel.HOMOGRAPHY: (
            (one, zero, x, y, zero, zero, -right * x, -right * y),
            (zero, one, zero, zero, x, y, -down * x, -down * y),
        ),
    }[model]
    return np.stack([np.stack(row, axis=1) for row in rows], axis=1)


def _to_matrix(
    model: TransformModel, parameters: NDArray[np.float64], *, center: NDArray[np.float64], radius: float
) -> NDArray[np.float64]:
    """Return the matrix of parameters that are given in units of the radius, around the center of the frame."""
    around = np.eye(3)
    around[:2, 2] = parameters[:2]
    if model is TransformModel.SIMILARITY:
        growth, turn = parameters[2:]
        around[:2, :2] += [(growth, -turn), (turn, growth)]
    elif model is not TransformModel.TRANSLATION:
        around[:2, :2] += parameters[2:6].reshape(2, 2)
    if model is TransformModel.HOMOGRAPHY:
        around[2, :2] = parameters[6:]
    to_center = np.array([(1 / radius, 0, -center[0] / radius), (0, 1 / radius, -center[1] / radius), (0, 0, 1)])
    matrix = np.linalg.inv(to_center) @ around @ to_center
    return np.asarray(matrix / matrix[2, 2])
