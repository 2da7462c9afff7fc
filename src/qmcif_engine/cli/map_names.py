"""Names of the maps that commands write beside a fused image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qmcif_engine.io.output.writers import map_path
from qmcif_engine.tiles.output_maps import WRITTEN_MAPS

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from qmcif_engine.fusing.in_memory import FusionResult


def list_map_paths(folder: Path) -> list[Path]:
    """Return the files of the maps, in the order of their names."""
    return [map_path(folder, name) for name in WRITTEN_MAPS]


def collect_maps(result: FusionResult) -> dict[str, NDArray[Any]]:
    """Return the maps of a result by name."""
    return {name: getattr(result, name) for name in WRITTEN_MAPS}
