"""The shipped quaternion dictionaries, learned beforehand by ``tools/learn_dictionary.py``.

One dictionary for each base patch side of the paper's ablation: 5, 8 and 10 pixels, with as many atoms as a patch has pixels.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.errors import InvalidConfigError

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray

SHIPPED_PATCH_SIDES = (5, 8, 10)
"""Base patch sides, in pixels, of the paper's ablation (section IV-D): each has a dictionary in the package."""

SHIPPED_FILE = "trained.npz"


def array_name(patch_px: int) -> str:
    """Return the name, inside the shipped file, of the dictionary for this patch side."""
    return f"atoms_{patch_px}"


@cache
def load_dictionary(patch_px: int) -> FloatArray:
    """Return the shipped dictionary for square patches of this side; one array for all callers, therefore read-only.

    Parameters
    ----------
    patch_px : int
        Side of a patch in pixels: 5, 8 or 10.

    Returns
    -------
    ndarray of float32, shape (4, d, L)
        ``d = patch_px**2`` rows in the row-major order of `qmcif_engine.method.patches.cut_patches`; ``L = d`` atoms of unit norm as
        columns, the first of them constant.

    Raises
    ------
    InvalidConfigError
        If no dictionary was learned for this side.
    """
    if patch_px not in SHIPPED_PATCH_SIDES:
        sides = ", ".join(map(str, SHIPPED_PATCH_SIDES))
        message = f"No dictionary for patches of {patch_px} px: one of {sides} is needed; choose such a base patch side."
        raise InvalidConfigError(message)
    # not a path: the package may be imported from an archive
    with (resources.files(__name__) / SHIPPED_FILE).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        atoms: FloatArray = arrays[array_name(patch_px)]
    atoms.flags.writeable = False
    return atoms
