"""Progress on the terminal, and only there."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

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
    # disable=None leaves it to tqdm to see whether there is a terminal
    with tqdm(desc=title, total=1, unit="step", delay=PATIENCE_SECONDS, leave=False, disable=True if is_quiet else None) as bar:

        def move(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield move
