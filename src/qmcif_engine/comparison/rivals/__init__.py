"""Published methods written anew from their papers, so that they can be run beside ours on any image.

A new one takes a file here with a `Rival`, its line in `RIVALS`, and the properties that all of them are tested for.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from qmcif_engine.comparison.rivals.convolutional_coding import CONVOLUTIONAL_CODING
from qmcif_engine.comparison.rivals.guided_filtering import GUIDED_FILTERING
from qmcif_engine.comparison.rivals.laplacian_pyramid import LAPLACIAN_PYRAMID
from qmcif_engine.comparison.rivals.morphological_gradients import MORPHOLOGICAL_GRADIENTS
from qmcif_engine.comparison.rivals.quaternion_tensors import QUATERNION_TENSORS
from qmcif_engine.comparison.rivals.rival import Rival, fuse_with
from qmcif_engine.comparison.rivals.sparse_coding import SPARSE_CODING
from qmcif_engine.errors import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RIVALS", "Rival", "find_rival", "fuse_with"]

RIVALS: Mapping[str, Rival] = MappingProxyType(
    {
        rival.name: rival
        for rival in (
            SPARSE_CODING,
            CONVOLUTIONAL_CODING,
            MORPHOLOGICAL_GRADIENTS,
            QUATERNION_TENSORS,
            GUIDED_FILTERING,
            LAPLACIAN_PYRAMID,
        )
    }
)


def find_rival(name: str) -> Rival:
    """Return the rival of that name.

    Raises
    ------
    InvalidConfigError
        When there is none.
    """
    try:
        return RIVALS[name.lower()]
    except KeyError:
        msg = f"--method {name!r} is not known; choose one of: {', '.join(RIVALS)}"
        raise InvalidConfigError(msg) from None
