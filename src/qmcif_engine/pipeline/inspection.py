"""What the methods compute with, to be looked at: the focus of every image in a window, and the layers of an image."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from qmcif_engine.arrays import FloatArray, SampleArray
from qmcif_engine.compiled import single_thread
from qmcif_engine.config.fusion_config import FusionConfig, Representation
from qmcif_engine.decision.cleaning import clip_outliers
from qmcif_engine.decision.evidence import CELL_PX, scale_energies
from qmcif_engine.errors import InvalidImageError
from qmcif_engine.method import solver
from qmcif_engine.method.solver import Decomposition
from qmcif_engine.run.measurement import measure_run
from qmcif_engine.stack.samples import GivenRanges, check_focus_range, check_images, check_number, measure_focus_range, to_planes
from qmcif_engine.stack.stack import Stack, as_stack
from qmcif_engine.stack.window import Window
from qmcif_engine.tiles.plan import GRID_PX
from qmcif_engine.tiles.planes import REAL_VALUED_FACTOR, WindowPlanes, hold_window

MARGIN_PX = 2 * GRID_PX
"""What evidence looks at around a window, in whole cells."""


def focus_response(
    images: Sequence[SampleArray] | SampleArray | Stack,
    window: tuple[int, int, int, int],
    *,
    config: FusionConfig | None = None,
    focus_range: GivenRanges | None = None,
    check_cancelled: Callable[[], None] = lambda: None,
) -> FloatArray:
    """Return the focus level of every image in one window, as the default measures it before it decides.

    Parameters
    ----------
    images : sequence of ndarray, one ndarray of shape (N, Y, X) or (N, Y, X, 3), or Stack
        What is or was fused. Of a stack the window is read, and what is measured of the whole stack.
    window : tuple of int
        Top, left, bottom and right.
    config : FusionConfig, optional
        The settings of the fusion.
    focus_range : tuple of float, optional
        `FusionResult.focus_range` of the fusion; chosen again where it is left out.
    check_cancelled : callable
        Called between steps; may raise to end the work.

    Returns
    -------
    ndarray of float, shape (N, h, w)
        The larger, the sharper: energy of the detail layer at the fine scale, over that of the noise. The decision also looks at a second
        scale, at halos and at neighboring pixels, so that the largest level is not always that of the image that was taken.

    Raises
    ------
    InvalidImageError
        For a window outside the images, and for channels that are decided on one by one.
    """
    stack = as_stack(images)
    check_number(stack.n_images)
    shape = (stack.image_shape[0], stack.image_shape[1])
    asked = Window(*(int(side) for side in window))
    if not (0 <= asked.top < asked.bottom <= shape[0] and 0 <= asked.left < asked.right <= shape[1]) or stack.decides_each:
        msg = f"the window {tuple(asked)} was given; one inside {shape}, of images that decide together, is needed: cut it to the image"
        raise InvalidImageError(msg)
    settings = FusionConfig() if config is None else config
    bounds, measured = measure_run(stack, settings, focus_range)
    (statistics,) = measured.statistics
    # on the grid of decisions, as a tile is
    seen = Window(
        max(0, asked.top - MARGIN_PX) // GRID_PX * GRID_PX,
        max(0, asked.left - MARGIN_PX) // GRID_PX * GRID_PX,
        min(shape[0], -(-(asked.bottom + MARGIN_PX) // GRID_PX) * GRID_PX),
        min(shape[1], -(-(asked.right + MARGIN_PX) // GRID_PX) * GRID_PX),
    )
    planes = WindowPlanes(stack, hold_window(stack, seen), seen, focus_range=bounds, config=settings)
    cut, levels = asked.relative_to(seen).slices, []
    with single_thread():
        for number in range(stack.n_images):
            check_cancelled()
            block = clip_outliers(planes.block(number)) / np.float32(statistics.noise)
            (cells,) = scale_energies(block, settings.decision.measure, n_scales=1) / np.float32(statistics.floors[0])
            level = np.repeat(np.repeat(cells, CELL_PX, axis=0), CELL_PX, axis=1)[cut]
            choosable = planes.choosable(number)
            levels.append(level if choosable is None else np.where(choosable[cut], level, 0))
    return np.stack(levels)


def decompose(image: SampleArray, config: FusionConfig | None = None, *, focus_range: tuple[float, float] | None = None) -> Decomposition:
    """Split an image into a base, a detail and a noise layer, as the published method does before it measures focus.

    Parameters
    ----------
    image : ndarray, shape (Y, X) or (Y, X, 3)
    config : FusionConfig, optional
        Its section `method` counts.
    focus_range : tuple of float, optional
        Samples that count as black and white, as for `qmcif_engine.fuse`; those of the image where it is left out.

    Returns
    -------
    Decomposition
        Layers of shape (3, Y, X) on the 0-255 scale, with the coefficients of the base patches and the history of the solve.
    """
    settings = FusionConfig() if config is None else config
    (checked, _) = check_images([image, image])
    bounds = measure_focus_range([checked]) if focus_range is None else check_focus_range(focus_range)
    planes = to_planes(checked, bounds, representation=settings.method.representation)
    if settings.method.representation is Representation.GRAY:
        planes = planes * REAL_VALUED_FACTOR
    with single_thread():
        return solver.decompose(np.ascontiguousarray(np.broadcast_to(planes, (3, *planes.shape[1:]))), settings.method)
