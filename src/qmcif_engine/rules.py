"""The contract of a decision rule: what it is given, what it returns, and the table entry that the tile task runs.

A rule decides which image gives each pixel of a tile and composes samples by that decision. There are two, ``energy``
(`qmcif_engine.decision`) and ``paper`` (`qmcif_engine.method`); both run through the same tile task.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray, SampleArray
    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.stack.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class StackStatistics:
    """What is measured once for a stack, before there are tiles.

    Attributes
    ----------
    n_images : int
    is_ordered : bool
        Whether neighboring images are neighbors in depth.
    noise : float
        Standard deviation of the noise on the 0-255 scale of decisions, at least that of rounding.
    floors : tuple of float
        Energy that noise has at each scale of the evidence.
    gains : tuple of float
        How bright each image is as a whole, beside the others; empty where all are equally bright.
    pedestal : float
        How much light 0 on that scale stands for, which differs with the brightness of an image as well.
    """

    n_images: int
    is_ordered: bool
    noise: float = 0.0
    floors: tuple[float, ...] = ()
    gains: tuple[float, ...] = ()
    pedestal: float = 0.0

    def even(self, levels: FloatArray, image: int) -> FloatArray:
        """Return gray levels of an image in units of the noise, as bright as if all images were exposed alike."""
        if not self.gains:
            return levels / np.float32(self.noise)
        return (levels + np.float32(self.pedestal)) / np.float32(self.noise * self.gains[image])


class Planes(Protocol):
    """The images of a stack in the padded window of a tile, as planes on the 0-255 scale of decisions."""

    n_images: int
    n_planes: int
    """1 for gray images, 3 for color."""
    window: Window
    """The padded window, in pixels of the image; grids are anchored at the image's origin."""
    image_shape: tuple[int, int]
    highest: float | None
    """The largest sample of the type on the 0-255 scale: samples there are clipped; None where the type has no limit, as floats."""

    def block(self, image: int, part: Window | None = None) -> FloatArray:
        """Return planes of one image, float32 of shape (n_planes, h, w); the part is counted from the corner of the window."""

    def choosable(self, image: int, part: Window | None = None) -> BoolArray | None:
        """Return which pixels the image may give, shape (h, w); None where every image may give all."""

    def has_clipped(self) -> bool:
        """Return whether a sample of any image is at the largest one of its type, or next to it."""


class Samples(Protocol):
    """The samples of all images of a stack in `Decision.window`."""

    def __len__(self) -> int:
        """Return the number of images."""

    def __getitem__(self, image: int, /) -> SampleArray:
        """Return one image, shape (h, w) or (h, w, C)."""

    def read(self, image: int, part: Window, /) -> SampleArray:
        """Return a part of one image, counted from the corner of the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Which image gives each pixel of a window.

    Attributes
    ----------
    window : Window
        Counted from the corner of the padded window of the tile: the core and what composition looks at around it.
    index : ndarray of uint16, shape (h, w)
    confidence : ndarray of float32, shape (h, w)
    position : ndarray of float32, shape (h, w), or None
        Place of sharpest focus along the stack, in images.
    maps : mapping from name to ndarray of uint16, shape (h, w)
        The focus maps that decided.
    blend : object
        What the rule's composition needs beyond the index.
    """

    window: Window
    index: IndexArray
    confidence: FloatArray
    position: FloatArray | None = None
    maps: Mapping[str, IndexArray] = field(default_factory=dict)
    blend: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TileSteps:
    """Callbacks of a run: `check_cancelled` raises to end the work, `report_image` counts an image as measured."""

    check_cancelled: Callable[[], None] = lambda: None
    report_image: Callable[[], None] = lambda: None


class Decide(Protocol):
    """Decision on the core of a tile."""

    def __call__(
        self, planes: Planes, core: Window, statistics: StackStatistics, config: FusionConfig, *, with_position: bool, steps: TileSteps
    ) -> Decision:
        """Return the decision on the core, which is counted from the corner of the padded window."""


class Compose(Protocol):
    """Composition of samples."""

    def __call__(self, images: Samples, decision: Decision, *, inner: Window, noise: float, config: FusionConfig) -> SampleArray:
        """Return samples of the inner window.

        `inner` is counted from the corner of
        `decision.window`; `noise` is the standard deviation of the noise of these samples.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A decision rule.

    Attributes
    ----------
    decide, compose : callable
    reach_px : callable
        How far beyond its core a tile reads, from the settings and the shape of the image.
    working_bytes : callable
        Upper bound of the memory of a tile, beside its samples, from the settings, its pixels with the overlap and the number of images.
    has_statistics : bool
        Whether the rule looks at noise and floors.
    """

    decide: Decide
    compose: Compose
    reach_px: Callable[[FusionConfig, tuple[int, int]], int]
    working_bytes: Callable[[FusionConfig, int, int], int]
    has_statistics: bool
