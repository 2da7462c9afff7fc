"""No search for garbage where there is none: while libraries load, and when the process ends."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def loading() -> Iterator[None]:
    """Collect nothing in a block that imports modules: all they make is kept, and looking through it takes a tenth of their time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def leave_garbage() -> None:
    """Keep Python from looking at what exists by now when it ends: it would take a third of a second to find what goes anyway."""
    # moves all objects out of sight of the collector, which runs once more when the interpreter ends
    gc.freeze()
