"""Requests to end, from whomever they come, taken as one from the keyboard: what is finished is kept, and scratch files go."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""What batch systems and containers send before they kill, and what closing a terminal sends."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise `KeyboardInterrupt` in the block for these signals, unless the caller has them ignored, as nohup does."""
    if threading.current_thread() is not threading.main_thread():  # only that may set handlers
        yield
        return
    known = {number: signal.getsignal(number) for number in SIGNALS}
    taken = [number for number, handler in known.items() if handler is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, known[number])


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """End what the main thread does; a second request must not end the cleaning up that the first one began."""
    del frame
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
