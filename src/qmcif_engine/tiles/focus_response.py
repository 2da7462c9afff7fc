"""The focus of every image in one window: why a pixel was taken from the image it was taken from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import InvalidImageError
from qmcif_engine.kernels.single_thread import single_thread
from qmcif_engine.method.focus import Borders
from qmcif_engine.method.focus_measures import FOCUS_MEASURES
from qmcif_engine.stack.noise import adapt_to_noise, settle_range_and_noise
from qmcif_engine.stack.samples import PlaneStack, as_stack
from qmcif_engine.stack.stack import ArrayStack, Stack, check_number
from qmcif_engine.stack.window import Window
from qmcif_engine.tiles.stage_list import BEFORE_FOCUS
from qmcif_engine.tiles.stages import measure_focus, plan_geometry
from qmcif_engine.tiles.window_images import WindowImages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qmcif_engine.arrays import FloatArray, SampleArray
    from qmcif_engine.stack.samples import GivenRanges


def focus_response(
    images: Sequence[SampleArray] | SampleArray | Stack,
    window: tuple[int, int, int, int],
    *,
    config: FusionConfig | None = None,
    focus_range: GivenRanges | None = None,
    check_cancelled: Callable[[], None] = lambda: None,
) -> FloatArray:
    """Return the focus level of every image in one window, as the fusion measures it before it decides.

    Parameters
    ----------
    images : sequence of ndarray, one ndarray of shape (N, Y, X) or (N, Y, X, 3), or Stack
        What is or was fused. Of a stack only the window and its surroundings are read, and a sample for range and noise.
    window : tuple of int
        Top, left, bottom and right.
    config : FusionConfig, optional
        The settings of the fusion.
    focus_range : tuple of float, optional
        `FusionResult.focus_range` of the fusion; settled again where it is left out.
    check_cancelled : callable
        Called between steps; may raise to end the work.

    Returns
    -------
    ndarray of float, shape (N, h, w)
        The larger, the sharper. The decision also looks at the base scale, at larger windows and at neighboring pixels, so that the
        largest level is not always that of the image that was taken.

    Raises
    ------
    InvalidImageError
        For a window outside the images, and for channels that are decided on one by one.

    Notes
    -----
    ``l_D`` [QMCIF, Eq. (15)], where the settings choose the measure of the paper.
    """
    stack = images if isinstance(images, Stack) else ArrayStack(as_stack(images))
    check_number(stack)
    shape = (stack.image_shape[0], stack.image_shape[1])
    asked = Window(*(int(side) for side in window))
    if not (0 <= asked.top < asked.bottom <= shape[0] and 0 <= asked.left < asked.right <= shape[1]) or stack.decides_each:
        msg = f"the window {tuple(asked)} was given; one inside {shape}, of images that decide together, is needed: cut it to the image"
        raise InvalidImageError(msg)
    settings = FusionConfig() if config is None else config
    bounds, (noise_level, *_) = settle_range_and_noise(stack, focus_range)
    geometry = plan_geometry(shape, settings)
    stages = (*BEFORE_FOCUS, *FOCUS_MEASURES[settings.focus.measure].stages)
    # whole base patches, as a tile has them
    patch = settings.decomposition.base_patch_px
    # the focus measure and what comes before it; nothing is decided here, so later stages need no overlap
    reach = sum(stage.overlap_px(settings, geometry.detail_patch_px) for stage in stages)
    seen = Window(
        max(0, asked.top - reach) // patch * patch,
        max(0, asked.left - reach) // patch * patch,
        min(shape[0], -(-(asked.bottom + reach) // patch) * patch),
        min(shape[1], -(-(asked.right + reach) // patch) * patch),
    )
    seen_images = WindowImages(stack, seen)
    with single_thread():
        levels = measure_focus(
            PlaneStack(seen_images, bounds, representation=settings.focus.representation),
            settings,
            geometry=geometry,
            borders=Borders(*seen.ends_of(shape)),
            adaptation=adapt_to_noise(noise_level, settings, n_images=stack.n_images),
            validity=seen_images.validity,
            check_cancelled=check_cancelled,
        )
    # levels of the margin are wrong at its outer end, and are cut off
    cut = asked.relative_to(seen).slices
    return np.stack([level[cut] for level in levels.detail])
