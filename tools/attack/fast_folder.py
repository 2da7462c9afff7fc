"""Where an attack works: thousands of small files are made and removed, and nearly all are waited for until they are on the disk."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_IN_MEMORY = Path("/dev/shm")  # folders with random names are made in it


def fastest_folder() -> str:
    """Return the folder of the system that lies in memory, unless there is none or TMPDIR names another one."""
    is_free = "TMPDIR" not in os.environ and _IN_MEMORY.is_dir() and os.access(_IN_MEMORY, os.W_OK)
    return str(_IN_MEMORY) if is_free else tempfile.gettempdir()
