"""What people read and write at a terminal: progress, notices, amounts, and requests to end."""

from __future__ import annotations

import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from types import FrameType
from typing import Any, NoReturn

from qmcif_engine.errors import InvalidConfigError

PATIENCE_SECONDS = 1.0
"""Work shorter than this shows no bar."""

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""What batch systems and containers send before they kill, and what closing a terminal sends."""

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_AMOUNT = re.compile(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]{0,3})\s*")


@contextmanager
def progress_bar(title: str, *, is_quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Give a callback, taking the steps done and the steps in all, that moves a bar on standard error.

    Silent when asked to be, and where standard error is no terminal.
    """
    from tqdm import tqdm

    with ExitStack() as bars:

        @cache
        def begin() -> Any:  # noqa: ANN401 - a bar of tqdm
            # disable=None leaves it to tqdm to see whether there is a terminal
            shown = tqdm(desc=title, total=1, unit="step", delay=PATIENCE_SECONDS, leave=False, disable=True if is_quiet else None)
            return bars.enter_context(shown)

        def move(done: int, total: int) -> None:
            # from the first step on: bars of what comes before it stand in the same line
            begin().total = total
            begin().update(done - begin().n)

        yield move


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise `KeyboardInterrupt` in the block for requests to end, unless the caller has them ignored, as nohup does."""
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


def notify(message: str) -> None:
    """Print a notice on standard error."""
    print(f"qmcif: {message}", file=sys.stderr)


@contextmanager
def report_compilation(*, is_quiet: bool) -> Iterator[None]:
    """Explain, once, why a run takes longer: at a terminal, or where compiled code cannot be stored."""
    from qmcif_engine import compiled  # with numba, which the help does without

    message = "compiling, which takes up to a minute once after an installation or an update"
    if compiled.without_cache:
        message = (
            "compiling, which takes up to a minute in every run, since no folder for compiled code can be written: "
            "set NUMBA_CACHE_DIR to one that can"
        )
    if is_quiet or not (compiled.without_cache or sys.stderr.isatty()):
        yield
        return
    # cached: reported once, though many functions are compiled
    with compiled.CompilationListener(cache(lambda: notify(message))):
        yield


def parse_bytes(text: str) -> int:
    """Read an amount of memory such as ``1GB``, ``512 MiB`` or ``2000000``."""
    found = _AMOUNT.fullmatch(text)
    unit = None if found is None else _UNITS.get(found[2].upper())
    if found is None or unit is None or float(found[1]) == 0:
        msg = f"the amount of memory is {text!r}; a number and a unit are needed: write for example 1GB or 512MiB"
        raise InvalidConfigError(msg)
    return int(float(found[1]) * unit)


def show_bytes(amount: int) -> str:
    """Return an amount with the unit that suits it."""
    for unit in ("TB", "GB", "MB", "KB"):
        if amount >= _UNITS[unit]:
            return f"{amount / _UNITS[unit]:.3g} {unit}"
    return f"{amount} bytes"


def show_seconds(seconds: float) -> str:
    """Return a duration in the unit that suits it."""
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def printable(text: str) -> str:
    """Return a name as a terminal may show it: names of files can hold anything."""
    return text if text.isprintable() else ascii(text)


def one_line(error: Exception) -> str:
    """Return the message of an error in one line."""
    if isinstance(error, MemoryError):
        return "the images do not fit into memory; more memory or smaller images are needed: crop or reduce them first"
    return " ".join(str(error).split())


def peak_memory_bytes() -> int | None:
    """Return the largest resident memory of this process so far; None where the system does not record it."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # macOS counts bytes, Linux kilobytes
    return peak if sys.platform == "darwin" else peak * 1024
