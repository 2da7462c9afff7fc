"""Focus measures by name: the paper's, and plain ones to compare it with.

A new one takes a file here, its line in `FOCUS_MEASURES`, its name in `FocusMeasureName` of the settings, and its test.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from qmcif_engine.config.fusion_config import FocusMeasureName
from qmcif_engine.method.focus_measures.decomposition_measure import DECOMPOSITION_MEASURE
from qmcif_engine.method.focus_measures.focus_measure import FocusMeasure, ImageFocus, MeasuringTask
from qmcif_engine.method.focus_measures.laplacian_measure import LAPLACIAN_MEASURE

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FOCUS_MEASURES", "FocusMeasure", "ImageFocus", "MeasuringTask"]

FOCUS_MEASURES: Mapping[FocusMeasureName, FocusMeasure] = MappingProxyType(
    {
        FocusMeasureName.DECOMPOSITION: DECOMPOSITION_MEASURE,
        FocusMeasureName.LAPLACIAN: LAPLACIAN_MEASURE,
    }
)
