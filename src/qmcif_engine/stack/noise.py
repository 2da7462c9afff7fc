"""Noise of a stack, measured once, and how much the way to a decision is smoothed for it.

The samples that are composed stay untouched: only what decisions look at is smoothed. None of this is in the paper; the setting
`adapts_to_noise` switches it off, and the ``paper`` preset does so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, overload

import numpy as np
from scipy import ndimage

from qmcif_engine.config.fusion_config import Representation, StackOrder
from qmcif_engine.config.stage import Reach, Stage, bytes_per_pixel
from qmcif_engine.kernels.outliers import clip_outliers
from qmcif_engine.stack.samples import FocusRange, to_planes
from qmcif_engine.stack.stack import sample_stack, settle_range

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray, SampleArray
    from qmcif_engine.config.fusion_config import DecompositionConfig, FusionConfig
    from qmcif_engine.stack.samples import FocusRanges, GivenRanges
    from qmcif_engine.stack.stack import Stack

BLOCK_PX = 16
"""Side of the squares whose noise is measured one by one."""

N_BRIGHTNESS_CLASSES = 8
"""Noise of light grows with brightness: the squares are sorted into so many classes of brightness."""

SMOOTH_QUANTILE = 0.2
"""Of each class, this share of the squares is taken for smooth: what they show is noise."""

CLEAN_LEVEL = 3.0
"""Standard deviation, in gray levels, up to which a stack counts as clean and nothing is smoothed: clean images have less than 1."""

BLUR_FACTOR = 0.33
WIDEST_BLUR_PX = 2.0
LEAST_BASE_SMOOTHNESS = 0.7
"""Base smoothness for each gray level of noise that the blur leaves: with less, the base layer follows the noise."""

SPARSE_LEVEL = 8.0
"""From this noise on detail is not made sparse: thresholds pass the peaks of the noise and hold weak detail back."""

STACK_BLUR_FACTOR = 1 / 30
WIDEST_STACK_BLUR = 1.5
LEAST_STACK_BLUR = 0.3
WINDOW_GROWTH = 1 / 16
"""Steps of 2 px by which the finest window grows for each gray level of noise."""

ROUNDING_NOISE = 0.29
"""Standard deviation, in gray levels, of what rounding to 8 bits adds: less is no noise."""

FAINT_FACTOR = 0.06
"""Level of the finest window that each gray level of noise beyond rounding reaches, up to one gray level; more noise is smoothed away."""

OUTLIER_EXCESS = 60.0
"""Gray levels by which one pixel may leave the range of its eight neighbors, beyond the width of that range."""

# standard deviations at which Gaussians end, so that their reach is finite and known
_CUT_OFF = 3.0
_DIFFERENCES = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float32)
"""Blind to slopes and curvature along the axes, so that it sees noise and little else (Immerkaer 1996)."""


@dataclass(frozen=True, slots=True)
class NoiseAdaptation:
    """How the way to a decision is smoothed for the noise of a stack.

    Attributes
    ----------
    measured : float
        Standard deviation of the noise on the 0-255 scale of decisions.
    level : float
        The same where it is smoothed for; 0 for a stack that counts as clean.
    blur_px : float
        Standard deviation of the Gaussian that every image is blurred by before it is decomposed; 0 for none.
    stack_blur : float
        Standard deviation, in images, of the Gaussian that focus levels are smoothed by along an ordered stack; 0 for none.
    window_growth_px : int
        By how much the finest window of focus levels is larger than for clean images.
    faint_level : float
        Level of the finest window that fine noise reaches on smooth ground; clean stacks have some too.
    """

    measured: float = 0.0
    level: float = 0.0
    blur_px: float = 0.0
    stack_blur: float = 0.0
    window_growth_px: int = 0
    faint_level: float = 0.0

    @property
    def remaining_level(self) -> float:
        """Standard deviation of the noise that the blur leaves."""
        # white noise through a Gaussian; below about 0.28 px the formula would say more than there was
        return self.measured / max(2 * math.sqrt(math.pi) * self.blur_px, 1)

    @property
    def reach_px(self) -> int:
        """How far the blur of an image reaches."""
        return int(_CUT_OFF * self.blur_px + 0.5)

    def smooth(self, block: FloatArray) -> FloatArray:
        """Return a block, shape (3, h, w), without isolated outliers and blurred: what is decomposed."""
        # two rows of working memory, and in the third the excess, which the kernel takes from there
        scratch = np.full((3, block.shape[-1]), OUTLIER_EXCESS, block.dtype)
        cleaned = np.empty_like(block)
        for plane, result in zip(np.ascontiguousarray(block), cleaned, strict=True):
            clip_outliers(plane, scratch, result)
        if self.blur_px == 0:
            return cleaned
        blurred: FloatArray = ndimage.gaussian_filter(cleaned, (0, self.blur_px, self.blur_px), truncate=_CUT_OFF, mode="reflect")
        return blurred

    def decomposition(self, config: DecompositionConfig) -> DecompositionConfig:
        """Return the settings of the solve: a smoother base layer and less sparse detail, the more noise there is."""
        if self.blur_px == 0:
            return config
        return replace(
            config,
            base_smoothness=max(config.base_smoothness, LEAST_BASE_SMOOTHNESS * self.remaining_level),
            detail_sparsity=config.detail_sparsity * max(0.0, 1 - self.level / SPARSE_LEVEL),
        )


NO_NOISE = NoiseAdaptation()
LONGEST_BLUR_REACH_PX = NoiseAdaptation(blur_px=WIDEST_BLUR_PX).reach_px + 1
"""How far from a pixel the samples lie that smoothing looks at, whatever the noise; outliers are told by their neighbors."""


def adapt_to_noise(level: float, config: FusionConfig, *, n_images: int) -> NoiseAdaptation:
    """Return how much to smooth for noise of this standard deviation, in gray levels."""
    if not config.focus.adapts_to_noise:
        return NoiseAdaptation(level)
    faint_level = FAINT_FACTOR * (min(max(level, ROUNDING_NOISE), 1.0) - ROUNDING_NOISE)
    if level <= CLEAN_LEVEL:
        return NoiseAdaptation(level, faint_level=faint_level)
    is_ordered = n_images > 2 and config.decision.order is StackOrder.ORDERED
    # no more than a tenth of the stack: in a short one, neighbors differ too much in their focus
    stack_blur = min(STACK_BLUR_FACTOR * level, WIDEST_STACK_BLUR, n_images / 10) if is_ordered else 0.0
    return NoiseAdaptation(
        level,
        level=level,
        blur_px=min(BLUR_FACTOR * math.sqrt(level - CLEAN_LEVEL), WIDEST_BLUR_PX),
        stack_blur=stack_blur if stack_blur >= LEAST_STACK_BLUR else 0.0,
        # even, so that windows stay odd
        window_growth_px=2 * round(WINDOW_GROWTH * level),
        faint_level=faint_level,
    )


def measure_noise(samples: Sequence[SampleArray], focus_range: FocusRanges) -> float:
    """Return the standard deviation of the noise on the 0-255 scale of decisions, of a typical brightness.

    Parameters
    ----------
    samples : sequence of ndarray, shape (h, w) or (h, w, C)
        Windows of the images, as `qmcif_engine.stack.stack.sample_stack` gives them.
    focus_range : FocusRange, or tuple of one per channel

    Notes
    -----
    The mean modulus of a second difference of second differences (Immerkaer 1996), for squares of `BLOCK_PX`. Texture only adds to it,
    so the least textured squares tell the noise; squares of each brightness are ranked among themselves, because the noise of light
    grows with brightness, and the median over the classes of brightness is typical.
    """
    squares = [_measure_squares(image, focus_range) for image in samples]
    brightness, deviation = np.concatenate([np.empty((2, 0)), *squares], axis=1)
    if deviation.size == 0:
        return 0.0
    order = np.argsort(brightness, kind="stable")
    # classes of equally many squares, from dark to bright
    classes = np.array_split(deviation[order], min(N_BRIGHTNESS_CLASSES, deviation.size))
    return float(np.median([np.quantile(squares_of_one, SMOOTH_QUANTILE, method="lower") for squares_of_one in classes]))


def settle_range_and_noise(stack: Stack, given: GivenRanges | None) -> tuple[FocusRanges, tuple[float, ...]]:
    """Return the samples that count as black and white, as `settle_range` does, and the noise on that scale, from one look at the stack.

    Returns
    -------
    focus_range : FocusRange, or tuple of one per channel
    noise_levels : tuple of float
        Standard deviation of the noise on the 0-255 scale of decisions; one per channel where channels are decided on one by one.
    """
    samples = sample_stack(stack)
    focus_range = settle_range(stack, given, samples=samples)
    if not stack.decides_each:
        return focus_range, (measure_noise(samples, focus_range),)
    n_channels = stack.image_shape[2]
    ranges = (focus_range,) * n_channels if isinstance(focus_range, FocusRange) else focus_range
    return focus_range, tuple(measure_noise([block[..., channel] for block in samples], ranges[channel]) for channel in range(n_channels))


def _measure_squares(image: SampleArray, focus_range: FocusRanges) -> FloatArray:
    """Return the brightness and the deviation of every square and channel of a window, shape (2, number of squares)."""
    rows, columns = (length // BLOCK_PX for length in image.shape[:2])
    planes = to_planes(image, focus_range, representation=Representation.QUATERNION)[: 1 if image.ndim == 2 else image.shape[2]]
    # whole squares only
    cut = (slice(rows * BLOCK_PX), slice(columns * BLOCK_PX))
    figures = []
    for plane in planes:
        # the weights have a norm of 6, and the mean modulus of a Gaussian is sqrt(2 / pi) of its deviation
        differences = np.abs(ndimage.convolve(plane, _DIFFERENCES, mode="reflect")) * np.float32(math.sqrt(math.pi / 2) / 6)
        figures.append([_square_means(values[cut], rows, columns) for values in (plane, differences)])
    return np.concatenate([np.stack(pair) for pair in figures], axis=1)


def _square_means(plane: FloatArray, rows: int, columns: int) -> FloatArray:
    means: FloatArray = plane.reshape(rows, BLOCK_PX, columns, BLOCK_PX).mean(axis=(1, 3), dtype=np.float64).reshape(-1)
    return means


def smooth_along_stack(levels: Sequence[FloatArray], adaptation: NoiseAdaptation) -> Sequence[FloatArray]:
    """Return focus levels smoothed along the stack, as they are where nothing is to be smoothed."""
    return LevelsAlongStack(levels, adaptation.stack_blur) if adaptation.stack_blur else levels


class LevelsAlongStack(Sequence["FloatArray"]):
    """Focus levels averaged over neighboring images by a Gaussian, each when it is asked for; the ends of the stack repeat.

    The focus of a place changes slowly from image to image, noise does not.
    """

    def __init__(self, levels: Sequence[FloatArray], deviation: float) -> None:
        self._levels = levels
        radius = int(_CUT_OFF * deviation + 0.5)
        weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / deviation) ** 2)
        self._weights, self._radius = weights / weights.sum(), radius

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self._levels)

    @overload
    def __getitem__(self, number: int) -> FloatArray: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[FloatArray]: ...

    def __getitem__(self, number: int | slice) -> FloatArray | Sequence[FloatArray]:
        """Return the smoothed levels of one image, or of some."""
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        if not 0 <= number < len(self):
            raise IndexError(number)
        total = np.zeros_like(self._levels[number])
        for shift, weight in enumerate(self._weights, start=-self._radius):
            # the weight in the type of the levels: a float64 of NumPy would double their size
            total += np.asarray(weight, total.dtype) * self._levels[min(max(number + shift, 0), len(self) - 1)]
        return total


def _longest_reach(config: FusionConfig, _detail_patch_px: int) -> int:
    return LONGEST_BLUR_REACH_PX if config.focus.adapts_to_noise else 0


SMOOTHING = Stage(
    name="stack.noise.NoiseAdaptation.smooth",
    reaches=(Reach(_longest_reach, "1, and 3 `WIDEST_BLUR_PX` at most: outliers, then the blur; 0 without `adapts_to_noise`"),),
    overlap_px=_longest_reach,
    working_bytes=bytes_per_pixel(24),
)
