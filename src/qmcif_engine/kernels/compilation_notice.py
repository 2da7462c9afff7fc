"""Word of functions that have to be compiled first, for whoever waits for them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from numba.core.event import Event, Listener, install_listener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def hear_of_compilation(tell: Callable[[], None]) -> Iterator[None]:
    """Call back whenever a function of the method begins to be compiled, in the thread that compiles it.

    That is so in the first run after an installation; later ones load what was stored, and nothing is told.

    Parameters
    ----------
    tell : callable
    """
    with install_listener("numba:compile", _Teller(tell)):
        yield


class _Teller(Listener):
    """Listener to numba that passes on every beginning."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def on_start(self, event: Event) -> None:
        del event
        self._tell()

    def on_end(self, event: Event) -> None:
        del event
