"""Compilation of inner loops to machine code, on their first call, kept for the next process."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import numba
from numba.core.caching import FunctionCache
from numba.core.event import Event, Listener, install_listener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_Function = TypeVar("_Function", bound="Callable[..., Any]")


def compiled(function: _Function) -> _Function:
    """Compile a function without the interpreter lock, and store the code beside it or in the user's cache where one can be written.

    Divisions follow NumPy (no check for zero), and no operation is reordered: the same input gives the same bytes.
    """
    kernel: Any = numba.njit(function, nogil=True, error_model="numpy")
    with suppress(RuntimeError):  # no place for the code: it is compiled again in every process
        kernel._cache = _ForgivingCache(function)  # type: ignore[no-untyped-call]
    result: _Function = kernel
    return result


class _ForgivingCache(FunctionCache):
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


@contextmanager
def hear_of_compilation(callback: Callable[[], None]) -> Iterator[None]:
    """Call back whenever a function begins to be compiled, in the thread that compiles it.

    That is so in the first run after an installation; later ones load what was stored.

    Parameters
    ----------
    callback : callable
    """
    with install_listener("numba:compile", _Callback(callback)):
        yield


class _Callback(Listener):
    """Listener to numba that passes on every beginning."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback

    def on_start(self, event: Event) -> None:
        del event
        self._callback()

    def on_end(self, event: Event) -> None:
        del event
