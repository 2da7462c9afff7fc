"""Keep linear algebra to one thread, so that the order of its sums, and with it the last byte, is always the same."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    from collections.abc import Iterator

_lock = threading.Lock()
_users = 0
_limit: threadpool_limits | None = None


@contextmanager
def single_thread() -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread while any caller is inside.

    The limit belongs to the process, and callers may overlap: the first one in sets it and the last one out restores what was before.
    """
    global _users, _limit
    with _lock:
        if _users == 0:
            _limit = threadpool_limits(limits=1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0 and _limit is not None:
                _limit.restore_original_limits()
                _limit = None
