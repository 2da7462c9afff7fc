"""Compilation of a Python function to machine code on its first call, kept for the next process."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import numba
from numba.core.caching import FunctionCache

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_R = TypeVar("_R")

RELEASES = ("0.68.",)
"""Beginnings of numba's version whose insides `qmcif_engine.kernels.linked_parts` knows. With others everything works as well; only the
first run compiles longer."""


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function without the interpreter lock, and store the code beside it or in the user's cache where one can be written.

    Divisions follow NumPy (no check for zero), and no operation is reordered: the same input gives the same bytes.
    """
    if numba.__version__.startswith(RELEASES):
        from qmcif_engine.kernels.linked_parts import Part  # another release may lack what it imports

        return cast("Callable[_P, _R]", Part(function))
    kernel: Any = numba.njit(function, nogil=True, error_model="numpy")
    with suppress(RuntimeError):  # no place for the code: it is compiled again in every process
        kernel._cache = ForgivingCache(function)  # type: ignore[no-untyped-call]
    return cast("Callable[_P, _R]", kernel)


class ForgivingCache(FunctionCache):
    """Numba's cache, in which a full disk costs time and not the run."""

    def save_overload(self, sig: object, data: object) -> None:
        """Store machine code, if that can be."""
        with suppress(OSError):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]

    def load_overload(self, sig: object, target_context: object) -> object:
        """Return stored machine code, or None where none can be read."""
        with suppress(OSError):
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        return None
