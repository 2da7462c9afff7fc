"""Stretches of work, such as compiling, in which Python neither collects garbage nor handles signals."""

from __future__ import annotations

import gc
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Requests to end."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """Put off requests to end and the collection of garbage until the block is done.

    The compiler calls back into Python from machine code. An exception is lost there, and with it the request; and the garbage is next to
    nothing, but looking for it takes a fifth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with _holding_signals():
            yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _holding_signals() -> Iterator[None]:
    """Raise those that came once the block is done; only the main thread gets any."""
    # Python runs signal handlers in the main thread only, and allows only it to set them
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    known = {number: handler for number in SIGNALS if callable(handler := signal.getsignal(number))}
    came: dict[int, None] = {}
    for number in known:
        # kept in order and once each
        signal.signal(number, lambda number, _frame: came.setdefault(number))
    try:
        yield
    finally:
        for number, handler in known.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)
