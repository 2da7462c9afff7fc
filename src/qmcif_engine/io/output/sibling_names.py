"""Name further outputs after the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qmcif_engine.io.output.output_formats import choose_format

if TYPE_CHECKING:
    from pathlib import Path


def name_beside(target: Path, addition: str) -> Path:
    """Return the name of an output of the same format in the same place: ``a.ome.tif`` with ``_t2`` is ``a_t2.ome.tif``.

    Raises
    ------
    OutputError
        When the suffix of the target names no format.
    """
    name = target.name
    length = max(len(suffix) for suffix in choose_format(target).suffixes if name.lower().endswith(suffix))
    return target.with_name(f"{name[:-length]}{addition}{name[-length:]}")
