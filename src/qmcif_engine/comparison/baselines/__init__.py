"""Published methods written anew from their papers, so that they can be run beside ours on any image.

A new one takes a file here with a `Baseline`, its line in `BASELINES`, and the properties that all of them are tested for.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from qmcif_engine.comparison.baselines.baseline import Baseline, fuse_with
from qmcif_engine.comparison.baselines.convolutional_coding import CONVOLUTIONAL_CODING
from qmcif_engine.comparison.baselines.guided_filtering import GUIDED_FILTERING
from qmcif_engine.comparison.baselines.laplacian_pyramid import LAPLACIAN_PYRAMID
from qmcif_engine.comparison.baselines.morphological_gradients import MORPHOLOGICAL_GRADIENTS
from qmcif_engine.comparison.baselines.quaternion_tensors import QUATERNION_TENSORS
from qmcif_engine.comparison.baselines.sparse_coding import SPARSE_CODING
from qmcif_engine.errors import InvalidConfigError

__all__ = ["BASELINES", "Baseline", "find_baseline", "fuse_with"]

BASELINES: Mapping[str, Baseline] = MappingProxyType(
    {
        baseline.name: baseline
        for baseline in (
            SPARSE_CODING,
            CONVOLUTIONAL_CODING,
            MORPHOLOGICAL_GRADIENTS,
            QUATERNION_TENSORS,
            GUIDED_FILTERING,
            LAPLACIAN_PYRAMID,
        )
    }
)


def find_baseline(name: str) -> Baseline:
    """Return the baseline of that name.

    Raises
    ------
    InvalidConfigError
        When there is none.
    """
    try:
        return BASELINES[name.lower()]
    except KeyError:
        msg = f"--method {name!r} is not known; choose one of: {', '.join(BASELINES)}"
        raise InvalidConfigError(msg) from None
