"""Progress on the terminal, and only there."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, NoReturn

from tqdm import tqdm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE_SECONDS = 1.0
"""Work shorter than this shows no bar."""


@contextmanager
def progress_bar(title: str, *, is_quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Offer a callback, taking the steps done and the steps in all, that moves a bar on standard error.

    Silent when asked to be, and where standard error is no terminal.
    """
    with ExitStack() as bars:

        @cache
        def begin() -> tqdm[NoReturn]:
            # disable=None leaves it to tqdm to see whether there is a terminal
            shown = tqdm(desc=title, total=1, unit="step", delay=PATIENCE_SECONDS, leave=False, disable=True if is_quiet else None)
            return bars.enter_context(shown)

        def move(done: int, total: int) -> None:
            # from the first step on: bars of what comes before it stand in the same line
            begin().total = total
            begin().update(done - begin().n)

        yield move
