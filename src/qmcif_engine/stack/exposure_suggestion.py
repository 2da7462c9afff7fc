"""Advice on exposure: whether the images of a stack differ in brightness as a whole, told at a glance."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qmcif_engine.stack.exposure import choose_exposure_reduction, compare_exposure, read_blurred
from qmcif_engine.stack.previews import ReducedImage

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.stack.stack import Stack

_LARGEST_N_IMAGES = 5
_LARGEST_SIDE_PX = 64
"""The previews are blurred so far that every few pixels tell as much as all of them."""

_SMALLEST_N_PAIRS = 2
"""A difference counts where several pairs of images show it: one pair alone may differ by what defocus spreads over it."""

_SMALLEST_N_COLORS = 2
"""Where there is only one pair, so many of its colors have to show it instead: what one object spreads has a color of its own."""

_VISIBLE_SHARE = 0.04
"""Difference of brightness, as a share of the range, that shows as a step on smooth ground: 10 levels of 255."""

_EXPLAINED_SHARE = 1 / 3
"""What a gain and an offset may leave of the difference: where the light of other depths comes and goes, they leave more."""

_LARGEST_GAIN = 1.5
"""Lamps and shutters change less within a stack; light of other depths, as in fluorescence, changes more."""

_DARK_SHARE = 0.25
_SMALLEST_SHARE_COMPARED = 0.5
"""So much of the image has to be brighter than that share of the brightest: on dark ground there is no step to be seen."""


class ExposureDifference(NamedTuple):
    """What one pair of images shows in one channel.

    Attributes
    ----------
    before, after : float
        Median difference of brightness, as a share of the range, as the images are and with a gain and an offset taken away.
    gain : float
    compared : float
        Share of the image that is well exposed in both images.
    """

    before: float
    after: float
    gain: float
    compared: float

    @property
    def is_exposure(self) -> bool:
        """Whether the images differ visibly, as a whole, and by no more than exposure does."""
        is_moderate = 1 / _LARGEST_GAIN <= self.gain <= _LARGEST_GAIN
        is_explained = self.after <= _EXPLAINED_SHARE * self.before
        return self.before >= _VISIBLE_SHARE and is_explained and is_moderate and self.compared >= _SMALLEST_SHARE_COMPARED


class ExposureSuggestion(NamedTuple):
    """How much the images of a stack differ in brightness, as a share of the range: enough to show where they meet."""

    difference: float

    @property
    def message(self) -> str:
        """Return the advice in words."""
        return f"the images of this stack differ in brightness or color by about {100 * self.difference:.0f} %: try --even-exposure"


def suggest_even_exposure(stack: Stack) -> ExposureSuggestion | None:
    """Return how much the images of a stack differ in brightness where evening them out would help, else None.

    Up to five images spread over the stack are compared, each with each, on the small blurred previews that `estimate_exposure` uses:
    what drifts slowly adds up between images that meet in the fused image. Channels that were recorded one by one are not judged: in
    fluorescence, brightness changes with depth. Nor are two images without colors: a false alarm costs more than a missed one.
    """
    if not _is_judged(stack):
        return None
    by_color = [[difference.before for difference in differences if difference.is_exposure] for differences in measure_exposure(stack)]
    is_one_pair = stack.n_images == 2
    shown = [found for found in by_color if len(found) >= (1 if is_one_pair else _SMALLEST_N_PAIRS)]
    if len(shown) < (_SMALLEST_N_COLORS if is_one_pair else 1):
        return None
    return ExposureSuggestion(max(max(found) for found in shown))


def previews_for_exposure(stack: Stack) -> list[ReducedImage]:
    """Return what `suggest_even_exposure` looks at, so that it can be read together with what others look at."""
    factor = choose_exposure_reduction(stack.image_shape)
    return [ReducedImage(number, factor) for number in _choose_images(stack.n_images)] if _is_judged(stack) else []


def _is_judged(stack: Stack) -> bool:
    has_preview = min(stack.image_shape[:2]) >= choose_exposure_reduction(stack.image_shape)
    return stack.n_images > 1 and not stack.n_separate_channels and has_preview


def _choose_images(n_images: int) -> list[int]:
    return sorted({int(number) for number in np.linspace(0, n_images - 1, _LARGEST_N_IMAGES).round()})


def measure_exposure(stack: Stack) -> list[list[ExposureDifference]]:
    """Return, for each channel, what pairs of images spread over a stack show."""
    with np.errstate(all="ignore"):  # samples beyond float32 are no light, and are not judged
        previews = [read_blurred(stack, number) for number in _choose_images(stack.n_images)]
    step = max(1, max(previews[0].shape[1:]) // _LARGEST_SIDE_PX)
    return [_compare_all([plane[::step, ::step] for plane in planes]) for planes in zip(*previews, strict=True)]


def _compare_all(planes: list[FloatArray]) -> list[ExposureDifference]:
    low, high = min(float(plane.min()) for plane in planes), max(float(plane.max()) for plane in planes)
    if not np.isfinite(high - low) or high <= low:
        return []
    # from true black where samples are positive: a bright stack has no dark ground
    dark = min(low, 0.0) + _DARK_SHARE * (high - min(low, 0.0))
    return [_compare_pair(first, second, bounds=(low, high), dark=dark) for first, second in combinations(planes, 2)]


def _compare_pair(first: FloatArray, second: FloatArray, *, bounds: tuple[float, float], dark: float) -> ExposureDifference:
    relation = compare_exposure(first, second, bounds=bounds)
    is_bright = np.minimum(first, second) >= dark
    if relation is None or not is_bright.any():
        return ExposureDifference(0.0, 0.0, 1.0, 0.0)
    gain, offset = relation
    width = bounds[1] - bounds[0]
    before, after = (float(np.median(np.abs(first - shown)[is_bright])) / width for shown in (second, gain * second + offset))
    return ExposureDifference(before, after, gain, float(is_bright.mean()))
