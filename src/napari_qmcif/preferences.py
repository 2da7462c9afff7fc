"""What a person set once and for all: napari's Preferences, and the settings of the last session."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from napari.settings import get_settings
from qtpy.QtCore import QSaveFile

from qmcif_engine import PRESETS, FusionConfig, QmcifError

logger = logging.getLogger(__name__)

PLUGIN = "napari-qmcif"
KEPT_NAME = "napari-qmcif.toml"
PYRAMID_SUFFIX = ".ome.zarr"


class Preferences(NamedTuple):
    """Defaults of the fusion: without a number, tiles take half of the free memory; without a folder, a result needs a name."""

    preset: str = "default"
    memory_bytes: int | None = None
    scratch_folder: Path | None = None


def read_preferences() -> Preferences:
    """Return what Preferences say; napari before 0.9 has no page for plugins, and the defaults hold."""
    try:
        from napari.settings import get_plugin_settings

        found: Any = get_plugin_settings(PLUGIN).fusion
        preset, gigabytes, folder = str(found.preset), float(found.memory_gigabytes), str(found.scratch_folder)
    except (ImportError, AttributeError, KeyError, TypeError, ValueError):
        return Preferences()
    return Preferences(
        # a preset of another version may be gone
        preset if preset in PRESETS else "default",
        int(gigabytes * 1e9) or None,
        Path(folder).expanduser() if folder.strip() else None,
    )


def find_kept_file() -> Path | None:
    """Return the file that keeps settings from session to session, beside napari's own; None where napari keeps none."""
    place = get_settings().config_path
    return None if place is None else Path(place).parent / KEPT_NAME


def load_kept() -> FusionConfig | None:
    """Return the settings of the last session, where there are any that can be used."""
    path = find_kept_file()
    try:
        return None if path is None else FusionConfig.from_toml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, QmcifError) as error:
        # there is none before the first run
        if not isinstance(error, FileNotFoundError):
            logger.info("settings of the last session are not used: %s", error)
        return None


def keep(config: FusionConfig) -> None:
    """Keep settings for the next session; a place that cannot be written is no reason to stop."""
    path = find_kept_file()
    if path is None:
        return
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, config.to_toml())


def write_text(path: Path, text: str) -> None:
    """Write a small file, completely or not at all; one of that name is replaced."""
    # writes beside the target and renames: a full disk leaves the old file
    file = QSaveFile(str(path))
    is_written = file.open(QSaveFile.OpenModeFlag.WriteOnly) and file.write(text.encode()) >= 0 and file.commit()
    if not is_written:
        msg = f"{path.name!r} cannot be written ({file.errorString()}); room and the right to write are needed: choose another place"
        raise OSError(msg)
