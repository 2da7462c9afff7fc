"""What this process used, as the operating system says."""

from __future__ import annotations

import sys


def peak_memory_bytes() -> int | None:
    """Return the largest resident memory of this process so far; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # macOS counts bytes, Linux kilobytes
    return peak if sys.platform == "darwin" else peak * 1024
