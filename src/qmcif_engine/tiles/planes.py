"""What a rule decides on: the images of a stack in the padded window of a tile, embedded on the 0-255 scale when they are asked for.

Each window is read from its source once.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from qmcif_engine.arrays import BoolArray, FloatArray, SampleArray
from qmcif_engine.config.fusion_config import FusionConfig, Representation, RuleName
from qmcif_engine.decision.cleaning import CLIPPED
from qmcif_engine.decision.validity import FrameEnds, Validity, find_dark_borders, frame_end_px
from qmcif_engine.stack.samples import FULL_SCALE, FocusRange, FocusRanges, check_finite, count_planes, find_highest, to_planes
from qmcif_engine.stack.spilling import SpilledArrays
from qmcif_engine.stack.stack import Stack
from qmcif_engine.stack.window import Window

SAMPLES_IN_MEMORY_BYTES = 48 * 2**20
"""Windows of more images than this holds wait in a temporary file, unless a run can spare more: rules read each several times."""

REAL_VALUED_FACTOR = np.float32(1 / np.sqrt(3))
"""The real-valued ablation puts the gray value on the gray axis such that the modulus of the quaternion is that of the real number."""


class WindowPlanes:
    """The `qmcif_engine.rules.Planes` of a tile.

    Parameters
    ----------
    stack : Stack
        What decides.
    images : Stack
        The padded window of its images, or of one channel of them.
    window : Window
        The padded window.
    focus_range : FocusRange, or tuple of one per channel
    config : FusionConfig
    """

    def __init__(self, stack: Stack, images: Stack, window: Window, *, focus_range: FocusRanges, config: FusionConfig) -> None:
        self._images, self._focus_range = images, focus_range
        self._representation = config.method.representation
        is_real_valued = config.decision.rule is RuleName.PAPER and self._representation is Representation.GRAY
        self._factor = REAL_VALUED_FACTOR if is_real_valued else None
        self.n_images, self.window = stack.n_images, window
        self.image_shape = (stack.image_shape[0], stack.image_shape[1])
        image_shape = self.image_shape if stack.decides_each else stack.image_shape
        self.n_planes = count_planes(image_shape, self._representation)
        self.highest = find_highest(stack.dtype, focus_range, significant_bits=stack.metadata.significant_bits)
        self._validity = self._find_validity(stack, config)

    def block(self, image: int, part: Window | None = None) -> FloatArray:
        """Return planes of one image, float32 of shape (n_planes, h, w); the part is counted from the corner of the window.

        Under the rule ``paper`` gray values are scaled as the real-valued ablation [QMCIF, section IV-D] needs them.
        """
        samples = self._images[image] if part is None else self._images.read(image, part)
        planes = to_planes(samples, self._focus_range, representation=self._representation)
        return planes if self._factor is None else planes * self._factor

    def choosable(self, image: int, part: Window | None = None) -> BoolArray | None:
        """Return which pixels the image may give, shape (h, w); None where every image may give all."""
        if self._validity is None:
            return None
        return self._validity(image, Window.whole(self.window.shape) if part is None else part)

    def has_clipped(self) -> bool:
        """Return whether a sample of any image is at the largest one of its type, or next to it."""
        if self.highest is None:
            return False
        # the same threshold for samples: the 0-255 scale is linear
        ranges = (self._focus_range,) if isinstance(self._focus_range, FocusRange) else self._focus_range
        threshold = max(bounds.low + self.highest * CLIPPED / FULL_SCALE * bounds.width for bounds in ranges)
        return any(self._images[number].max() >= threshold for number in range(self.n_images))

    def _find_validity(self, stack: Stack, config: FusionConfig) -> Validity | None:
        is_paper = config.decision.rule is RuleName.PAPER
        if not stack.has_validity:
            depth_px = 0 if is_paper else config.decision.dark_border_px
            ends = self.window.ends_of(self.image_shape)
            return find_dark_borders(self.block, self.window.shape, n_images=self.n_images, depth_px=depth_px, ends=ends)
        # aligned images end inside the fused image, and have no dark borders to look for
        reach_px = 0 if is_paper else frame_end_px(config.decision)
        return FrameEnds(stack.valid, self.window, n_images=self.n_images, shape=self.image_shape, reach_px=reach_px)


def hold_window(stack: Stack, window: Window, *, memory_bytes: int = SAMPLES_IN_MEMORY_BYTES) -> Stack:
    """Return one window of a stack as a stack of its own, whose samples are read from their source only once.

    It stays in this process and thread.
    """
    cut = stack.cut(window)
    # views of arrays cost nothing
    return cut if stack.is_in_memory else cut.replaced(read=partial(_read_held, cut, SpilledArrays(memory_bytes=memory_bytes)))


def _read_held(stack: Stack, held: SpilledArrays, number: int, window: Window) -> SampleArray:
    # in order, since that is how they are stored; decisions go through the stack from its beginning anyway
    while len(held) <= number:
        samples = stack[len(held)]
        # here, where every sample passes once
        check_finite(samples, stack.names[len(held)])
        held.append(samples)
    return held.read_rows(number, window.top, window.bottom)[:, window.left : window.right]
