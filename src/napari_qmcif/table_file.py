"""Write a small table as CSV, completely or not at all."""

from __future__ import annotations

import csv
import os
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path


def write_table(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Write rows to a file beside the target, then give it its name in one step; an existing file is replaced.

    Raises
    ------
    OSError
        When the place cannot be written; what was there before is still there then.
    """
    unfinished = path.with_name(f".{path.name}-{secrets.token_hex(8)}.tmp")
    try:
        with unfinished.open("x", newline="", encoding="utf-8") as stream:
            csv.writer(stream, lineterminator="\n").writerows(rows)
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.replace(path)
    finally:
        with suppress(FileNotFoundError):
            unfinished.unlink()
