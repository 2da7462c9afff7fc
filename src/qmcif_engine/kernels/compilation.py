"""Turn a Python function into machine code on its first call, and keep the code for the next process."""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

import numba

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_R = TypeVar("_R")


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a kernel without the interpreter lock, and store the code beside it or in the user's cache where one can be written.

    Divisions follow NumPy (no check for zero), and no operation is reordered: the same input gives the same bytes.
    """
    try:
        return cast("Callable[_P, _R]", numba.njit(function, cache=True, nogil=True, error_model="numpy"))
    except RuntimeError:  # no place for the code: it is compiled again in every process
        return cast("Callable[_P, _R]", numba.njit(function, nogil=True, error_model="numpy"))
