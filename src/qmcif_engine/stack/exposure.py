"""Even exposure of a stack: one gain and one offset per image and channel, applied when samples are read, and whether it would help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import ndimage

from qmcif_engine.arrays import FloatArray, SampleArray
from qmcif_engine.errors import InvalidConfigError, InvalidImageError
from qmcif_engine.stack.previews import ReducedImage, choose_reduction, read_preview
from qmcif_engine.stack.samples import to_samples
from qmcif_engine.stack.stack import ReadWindow, Stack, choose_reference
from qmcif_engine.stack.window import Window

_PREVIEW_PX = 2**16
_BLUR_SHARE = 0.03
"""Blur of the previews, as a share of their longer side: wider than any defocus, so that focus does not matter."""

_CLIPPED_SHARE = 0.02
"""Share of the range at either end that is left out: samples there may be clipped."""

_SMALLEST_N_PIXELS = 64
_LARGEST_GAIN = 4.0
_OFFSET_WORTH = 0.7
"""An offset is fitted only where it brings the deviation down to this share: a pure gain is what lamps and shutters do."""

_ITERATIONS = 30
_UNCHANGED_SHARE = 0.002
"""Images whose samples change less, as a share of the range, stay as they are: half a level of 255."""

_LARGEST_N_IMAGES = 5
_LARGEST_SIDE_PX = 64
"""The previews are blurred so far that every few pixels hold as much as all of them."""

_SMALLEST_N_PAIRS = 2
"""A difference counts where several pairs of images show it: one pair alone may differ by what defocus spreads over it."""

_SMALLEST_N_COLORS = 2
"""Where there is only one pair, so many of its colors have to show it instead: what one object spreads has a color of its own."""

_VISIBLE_SHARE = 0.04
"""Difference of brightness, as a share of the range, that shows as a step on smooth ground: 10 levels of 255."""

_EXPLAINED_SHARE = 1 / 3
"""What a gain and an offset may leave of the difference: where the light of other depths comes and goes, they leave more."""

_LARGEST_GAIN_HINTED = 1.5
"""Lamps and shutters change less within a stack; light of other depths, as in fluorescence, changes more."""

_DARK_SHARE = 0.25
_SMALLEST_SHARE_COMPARED = 0.5
"""So much of the image has to be brighter than that share of the brightest: on dark ground there is no step to be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureCorrection:
    """What makes each image as bright as the reference image: gain times sample plus offset.

    Attributes
    ----------
    gains, offsets : tuple of tuple of float
        By image and channel; offsets in units of samples.
    reference : int
        The image that stays as it is, 0-based.
    warnings : tuple of str
        Where no exposure could be estimated, and what was taken instead.

    Raises
    ------
    InvalidConfigError
        For numbers that are not finite, gains that are not positive, or different numbers of gains and offsets.
    """

    gains: tuple[tuple[float, ...], ...]
    offsets: tuple[tuple[float, ...], ...]
    reference: int
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no exposure is."""
        gains, offsets = ([value for channels in table for value in channels] for table in (self.gains, self.offsets))
        is_even = [len(row) for row in self.gains] == [len(row) for row in self.offsets] and len({len(row) for row in self.gains}) == 1
        if not is_even or not np.isfinite([*gains, *offsets]).all() or min(gains) <= 0:
            msg = (
                f"gains {self.gains} and offsets {self.offsets} were given; as many finite offsets as positive gains, for each image and "
                "channel one, are needed: estimate them again"
            )
            raise InvalidConfigError(msg)

    def for_channels(self, channels: Sequence[int], n_channels: int) -> ExposureCorrection:
        """Return the correction for a stack of more channels, among them those it was estimated for; the others stay as they are.

        Parameters
        ----------
        channels : sequence of int
            Which channel, 0-based, each of this correction belongs to; a number below 0 belongs to none.
        n_channels : int
            How many the stack has.
        """

        def spread(table: tuple[tuple[float, ...], ...], neutral: float) -> tuple[tuple[float, ...], ...]:
            rows = [dict(zip(channels, row, strict=True)) for row in table]
            return tuple(tuple(row.get(channel, neutral) for channel in range(n_channels)) for row in rows)

        return replace(self, gains=spread(self.gains, 1.0), offsets=spread(self.offsets, 0.0))

    def is_identity(self, number: int) -> bool:
        """Return whether one image stays as it is."""
        return set(self.gains[number]) == {1.0} and set(self.offsets[number]) == {0.0}


def estimate_exposure(stack: Stack, *, reference: int | None = None) -> ExposureCorrection:
    """Estimate how much brighter or darker each image is than the reference image.

    Neighbors are compared on small previews, blurred so far that focus does not matter, by a regression that is robust to pixels where the
    scene changed; the results are multiplied up to the reference. Samples near the ends of the range, which may be clipped, are left out.

    Parameters
    ----------
    stack : Stack
        Aligned or not; read in bands.
    reference : int, optional
        The image that stays as it is, 0-based; the middle one where it is left out.

    Raises
    ------
    InvalidConfigError
        If the reference is none of the images.
    """
    center = choose_reference(stack, reference)
    previews = [read_blurred(stack, number) for number in range(stack.n_images)]
    # by channel and image
    channels = [_relate(list(planes), reference=center) for planes in zip(*previews, strict=True)]
    gaps = sorted({number for channel in channels for number in channel.gaps})
    return ExposureCorrection(
        gains=tuple(zip(*(channel.gains for channel in channels), strict=True)),
        offsets=tuple(zip(*(channel.offsets for channel in channels), strict=True)),
        reference=center,
        warnings=tuple(
            f"{stack.names[number]} and {stack.names[number + 1]} have too little in common to compare their exposure; they are taken as "
            "equally exposed: check the result there"
            for number in gaps
        ),
    )


class _Channel(NamedTuple):
    """Gains and offsets of one channel, and after which images neighbors could not be compared."""

    gains: tuple[float, ...]
    offsets: tuple[float, ...]
    gaps: tuple[int, ...]


def _relate(planes: list[FloatArray], *, reference: int) -> _Channel:
    """Return what makes the planes of all images as bright as that of the reference."""
    bounds = min(float(plane.min()) for plane in planes), max(float(plane.max()) for plane in planes)
    if bounds[0] == bounds[1]:  # nothing to be made brighter, such as the plane of zeros beside two channels
        return _Channel((1.0,) * len(planes), (0.0,) * len(planes), ())
    steps = [compare_exposure(first, second, bounds=bounds) for first, second in pairwise(planes)]
    chain = _compose(steps, reference, bounds=bounds)
    gaps = tuple(number for number, step in enumerate(steps) if step is None)
    return _Channel(tuple(gain for gain, _ in chain), tuple(offset for _, offset in chain), gaps)


def choose_exposure_reduction(shape: tuple[int, ...]) -> int:
    """Return by how much images are reduced before their brightness is compared."""
    return choose_reduction(shape, largest_px=_PREVIEW_PX)


def read_blurred(stack: Stack, number: int) -> FloatArray:
    """Return a small blurred preview, shape (C, h, w)."""
    factor = choose_exposure_reduction(stack.image_shape)
    if min(stack.image_shape[:2]) < factor:
        msg = (
            f"{stack.names[number]} is {stack.image_shape[1]} x {stack.image_shape[0]} pixels; brightness is compared on images that are "
            f"at least {factor} pixels wide and high at that length: leave out --even-exposure"
        )
        raise InvalidImageError(msg)
    preview = read_preview(stack, number, factor=factor)
    sigma = _BLUR_SHARE * max(preview.shape[:2])
    return np.asarray(ndimage.gaussian_filter(np.moveaxis(preview, -1, 0).astype(np.float64), (0, sigma, sigma)))


def compare_exposure(first: FloatArray, second: FloatArray, *, bounds: tuple[float, float]) -> tuple[float, float] | None:
    """Return gain and offset that make the second plane as bright as the first, or None where they cannot be compared."""
    low, high = bounds
    margin = _CLIPPED_SHARE * (high - low)
    is_used = np.ones(first.shape, bool)
    for plane in (first, second):
        is_used &= (plane >= low + margin) & (plane <= high - margin)
    if high <= low or is_used.sum() < _SMALLEST_N_PIXELS:
        return None
    wanted, given = first[is_used], second[is_used]
    pure, line = _fit(wanted, given, _solve_gain), _fit(wanted, given, _solve_line)
    chosen = line if line.deviation < _OFFSET_WORTH * pure.deviation else pure
    return (chosen.gain, chosen.offset) if 1 / _LARGEST_GAIN <= chosen.gain <= _LARGEST_GAIN else None


class _Line(NamedTuple):
    """A fitted relation and the median distance from it."""

    gain: float
    offset: float
    deviation: float


def _fit(wanted: FloatArray, given: FloatArray, solve: Callable[[FloatArray, FloatArray, FloatArray], tuple[float, float]]) -> _Line:
    """Fit by reweighted least squares that is robust to pixels far from the others (Geman-McClure)."""
    weight: FloatArray = np.ones_like(wanted)
    # images that agree exactly would have a deviation of 0, by which distances are divided
    floor = np.finfo(np.float32).eps * float(np.abs(wanted).max()) + np.finfo(np.float64).tiny
    for _ in range(_ITERATIONS):
        gain, offset = solve(wanted, given, weight)
        if not np.isfinite(gain):  # a plane without contrast, or without light, has no gain
            return _Line(gain, offset, np.inf)
        distance = np.abs(wanted - gain * given - offset)
        deviation = float(np.median(distance))
        # three times the median distance: pixels beyond it hardly count
        weight = (1 + (distance / (3 * max(deviation, floor))) ** 2) ** -2.0
    return _Line(gain, offset, deviation)


def _solve_gain(wanted: FloatArray, given: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Return the gain between a regression of one on the other and its inverse: neither is taken as free of errors."""
    power = float((weight * given**2).sum())
    return (float(np.sqrt((weight * wanted**2).sum() / power)) if power > 0 else np.inf), 0.0


def _solve_line(wanted: FloatArray, given: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Return gain and offset, again between both regressions."""
    wanted_mean, given_mean = (float(np.average(values, weights=weight)) for values in (wanted, given))
    gain, _ = _solve_gain(wanted - wanted_mean, given - given_mean, weight)
    return gain, (wanted_mean - gain * given_mean if np.isfinite(gain) else 0.0)


def _compose(steps: list[tuple[float, float] | None], reference: int, *, bounds: tuple[float, float]) -> list[tuple[float, float]]:
    """Return gain and offset of every image towards the reference from those between neighbors."""
    chain = [(1.0, 0.0)]
    for step in steps:
        gain, offset = (1.0, 0.0) if step is None else step
        before_gain, before_offset = chain[-1]
        # lines applied one after the other
        chain.append((before_gain * gain, before_gain * offset + before_offset))
    # so far towards the first image; the reference's own line is taken away
    base_gain, base_offset = chain[reference]
    lines = [(gain / base_gain, (offset - base_offset) / base_gain) for gain, offset in chain]
    # a line differs most at one of its ends
    changes = [max(abs((gain - 1) * level + offset) for level in bounds) for gain, offset in lines]
    smallest = _UNCHANGED_SHARE * (bounds[1] - bounds[0])
    return [line if change > smallest else (1.0, 0.0) for line, change in zip(lines, changes, strict=True)]


def correct_stack(stack: Stack, correction: ExposureCorrection) -> Stack:
    """Return the images of a stack as bright as the reference image; images that need no correction keep their samples.

    Of all channels, those that decide are made as bright too; the others keep their samples.

    Raises
    ------
    InvalidConfigError
        If the correction belongs to another number of images or channels.
    """
    n_channels = int(np.prod(stack.image_shape[2:]))
    if (len(correction.gains), len(correction.gains[0])) != (stack.n_images, n_channels):
        msg = (
            f"the correction is for {len(correction.gains)} images with {len(correction.gains[0])} channels and the stack has "
            f"{stack.n_images} with {n_channels}; both must be equal: estimate a correction for this stack"
        )
        raise InvalidConfigError(msg)
    companions = stack.companions
    if companions is not None and stack.deciding_channels:
        # the same samples must not be bright in the fused image and dark in the channel it comes from
        companions = correct_stack(companions, correction.for_channels(stack.deciding_channels, companions.image_shape[2]))
    return stack.replaced(read=partial(_read_corrected, stack.read, correction, stack.dtype), correction=correction, companions=companions)


def _read_corrected(read: ReadWindow, correction: ExposureCorrection, dtype: np.dtype[Any], number: int, window: Window) -> SampleArray:
    """Return one window of one image; integers are rounded, and all are clipped to the range of their type, once."""
    samples = read(number, window)
    # untouched samples stay exactly what they are
    if correction.is_identity(number):
        return samples
    gain, offset = (np.array(table[number]) for table in (correction.gains, correction.offsets))
    with np.errstate(over="ignore"):  # what leaves the range of a float is clipped, as integers are
        values = samples.reshape(*window.shape, -1) * gain + offset
    if dtype.kind == "f":
        most = np.finfo(dtype).max
        values = np.clip(values, -most, most)
    return to_samples(values.reshape(samples.shape), dtype)


class ExposureDifference(NamedTuple):
    """What one pair of images shows in one channel.

    The median difference of brightness, as a share of the range, as the images are and with a gain and an offset taken away; that gain;
    and the share of the image that is well exposed in both images.
    """

    before: float
    after: float
    gain: float
    compared: float

    @property
    def is_exposure(self) -> bool:
        """Whether the images differ visibly, as a whole, and by no more than exposure does."""
        is_moderate = 1 / _LARGEST_GAIN_HINTED <= self.gain <= _LARGEST_GAIN_HINTED
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

    Up to five images are compared, each with each: what drifts slowly adds up between images that meet. Not judged are channels recorded
    one by one, since in fluorescence brightness changes with depth, and two images without colors.
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
    """Return what `suggest_even_exposure` looks at."""
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
    return [_compare_images([plane[::step, ::step] for plane in planes]) for planes in zip(*previews, strict=True)]


def _compare_images(planes: list[FloatArray]) -> list[ExposureDifference]:
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
