"""What every focus measure is given for one image, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from qmcif_engine.method.focus import WHOLE_IMAGE, Borders
from qmcif_engine.stack.noise import NO_NOISE, NoiseAdaptation

if TYPE_CHECKING:
    from collections.abc import Callable

    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.config.stage import Stage
    from qmcif_engine.method.decomposition import Decomposition


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringTask:
    """How the images of a block are measured, beside the settings.

    Attributes
    ----------
    detail_patch_px : int
        Side of a detail patch, which follows from the shape of the whole image.
    borders : Borders
        The sides where the block ends because the image does.
    adaptation : NoiseAdaptation
        What the noise of the stack asks for.
    keep_layers : bool
        Return the layers too, where there are any.
    check_cancelled : callable
        Called before each step that takes long.
    """

    detail_patch_px: int
    borders: Borders = WHOLE_IMAGE
    adaptation: NoiseAdaptation = NO_NOISE
    keep_layers: bool = False
    check_cancelled: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class ImageFocus:
    """Focus levels of one image: the larger, the sharper.

    Attributes
    ----------
    base : ndarray of float, shape (rows, columns)
        One level per base patch.
    detail : ndarray of float, shape (h, w)
        Level of the detail patch around each pixel, on the scale of `qmcif_engine.method.focus.detail_focus`; 0 where there is nothing.
    fine : ndarray of float, shape (h, w)
        Level of a small window around each pixel, on the same scale.
    layers : Decomposition or None
    """

    base: FloatArray
    detail: FloatArray
    fine: FloatArray
    layers: Decomposition | None = None


@dataclass(frozen=True, slots=True)
class CellFocus:
    """Focus levels of one image, one per cell (`qmcif_engine.method.cell_grid`): the larger, the sharper.

    Attributes
    ----------
    base : ndarray of float, shape (rows of patches, columns of patches)
        One level per base patch.
    detail, fine : ndarray of float, shape (rows, columns)
        Those of `ImageFocus`, of the window around each cell.
    """

    base: FloatArray
    detail: FloatArray
    fine: FloatArray


AverageCells: TypeAlias = "Callable[[FloatArray, FusionConfig, MeasuringTask], tuple[FloatArray, ...]]"
"""What a measure looks at, averaged over each cell of a block of one image: planes of shape (rows, columns). One plane of a gray image
stands for three."""

LevelCells: TypeAlias = "Callable[[tuple[FloatArray, ...], FusionConfig, MeasuringTask], CellFocus]"
"""How focus levels follow from these averages, those of all parts of a block put together."""

MeasureImage: TypeAlias = "Callable[[FloatArray, FusionConfig, MeasuringTask], ImageFocus]"
"""How a block of one image, shape (3, h, w) on the 0-255 scale, is measured."""


@dataclass(frozen=True, slots=True)
class FocusMeasure:
    """A way to measure focus, with the stages that it consists of."""

    measure: MeasureImage
    average_cells: AverageCells
    level_cells: LevelCells
    stages: tuple[Stage, ...]
    n_averages: int = 1
