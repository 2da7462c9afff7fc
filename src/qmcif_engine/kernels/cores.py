"""Cores that this process may use."""

from __future__ import annotations

import os


def count_cores() -> int:
    """Return how many cores this process may use: all of the machine's where the system does not say."""
    # Linux only; containers and clusters often allow fewer cores than the machine has
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable is not None else os.cpu_count() or 1
