"""The decomposition of one image, for whoever wants to look at the layers that the published method computes with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.compiled import single_thread
from qmcif_engine.config.fusion_config import FusionConfig, Representation
from qmcif_engine.method.solver import Decomposition
from qmcif_engine.method.solver import decompose as solve
from qmcif_engine.stack.samples import as_stack, check_focus_range, measure_focus_range, to_planes
from qmcif_engine.tiles.planes import REAL_VALUED_FACTOR

if TYPE_CHECKING:
    from qmcif_engine.arrays import SampleArray


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
    (checked, _) = as_stack([image, image])
    bounds = measure_focus_range([checked]) if focus_range is None else check_focus_range(focus_range)
    planes = to_planes(checked, bounds, representation=settings.method.representation)
    if settings.method.representation is Representation.GRAY:
        planes = planes * REAL_VALUED_FACTOR
    with single_thread():
        return solve(np.ascontiguousarray(np.broadcast_to(planes, (3, *planes.shape[1:]))), settings.method)
