"""OpenCV, kept to one thread."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_lock = threading.Lock()
_users = 0
_threads_before = 1


def load_opencv() -> Any:  # noqa: ANN401
    """Return the module ``cv2``, whose own stubs know only a part of it."""
    return import_module("cv2")


@contextmanager
def one_opencv_thread() -> Iterator[None]:
    """Limit OpenCV to one thread while any caller is inside, so that sums are always added in the same order.

    The limit belongs to the process, and callers may overlap: the first one in sets it and the last one out restores what was before.
    """
    global _users, _threads_before
    cv2 = load_opencv()
    with _lock:
        if _users == 0:
            _threads_before = cv2.getNumThreads()
            cv2.setNumThreads(1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                cv2.setNumThreads(_threads_before)
