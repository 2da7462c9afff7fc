"""Types of arrays, named once, so that signatures stay short and strict."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.floating[Any]]
"""Working samples, float32 unless float64 was asked for."""

ComplexArray: TypeAlias = NDArray[np.complexfloating[Any, Any]]

BoolArray: TypeAlias = NDArray[np.bool_]

IndexArray: TypeAlias = NDArray[np.uint16]
"""Which of the N images, 0-based; at most 65 535."""

SampleArray: TypeAlias = (
    NDArray[np.uint8]
    | NDArray[np.uint16]
    | NDArray[np.uint32]
    | NDArray[np.int8]
    | NDArray[np.int16]
    | NDArray[np.bool_]
    | NDArray[np.float32]
    | NDArray[np.float64]
)
"""Image samples as users hold them."""
