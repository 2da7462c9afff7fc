"""What a person sets: the options of a run, napari's Preferences, and the settings that are kept from session to session."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from napari.settings import get_plugin_settings, get_settings
from qtpy.QtCore import QSaveFile

from napari_qmcif.layers_out import ALIGNMENTS, MAP_NAMES
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
    """Return the values of napari's Preferences."""
    try:
        found: Any = get_plugin_settings(PLUGIN).fusion
    except (AttributeError, KeyError):  # a napari that does not know this plugin by its manifest
        return Preferences()
    # a preset of another version may be gone
    preset = found.preset if found.preset in PRESETS else "default"
    folder = str(found.scratch_folder).strip()
    return Preferences(preset, int(found.memory_gigabytes * 1e9) or None, Path(folder).expanduser() if folder else None)


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


ALL, SHOWN = "all", "shown"
EACH = ""

_OFFERED: dict[str, Any] = {"widget_type": "ComboBox", "choices": [("", "")]}  # what the chosen layers have, see `FuseWidget`
_SCOPES = [("all times and channels", ALL), ("where the sliders stand", SHOWN)]
_FILE: dict[str, Any] = {"kind": Path, "mode": "w", "nullable": True}
_TIPS = {
    "align": "Move the images to coincide before they are fused; nothing is cropped.",
    "scope": "Fuse all time points and all channels, or one image at the place where the sliders stand, which can be retouched.",
    "decide_by": "The channel whose decisions all channels follow, or each for itself.",
    "even_exposure": "Bring every image to the brightness and color of the reference before they are fused.",
    "reference": "The image that stays as it is, counted from 1; 0 for the middle one.",
    "transforms": "A file of an alignment: used where it exists, else written with what Align finds.",
    "height_smoothing": "Radius in pixels over which heights are smoothed; steps are kept.",
    "destination": "The OME-Zarr folder to write tile by tile and open as a pyramid, for results larger than memory; empty for memory.",
    "slab": "Fuse groups of so many neighboring images first and keep the results beside the target; 0 for none.",
    "scheduler": "Address of a Dask scheduler, such as tcp://host:8786; local starts a cluster on this machine; empty for threads.",
}


def _option(default: Any, label: str, tooltip: str, *, kind: Any = None, group: str = "", **look: Any) -> Any:  # noqa: ANN401 - any value
    """Return a field with its row in the form: the fold it stands in, the type where it is not that of the default, options of magicgui."""
    metadata = {
        "group": group,
        "annotation": type(default) if kind is None else kind,
        "label": label,
        "options": {"tooltip": tooltip, **look},
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of a run; images and references are counted from 1, as people do."""

    align: str = _option("none", "Align", _TIPS["align"], widget_type="ComboBox", choices=ALIGNMENTS)
    axis: str = _option("", "Fuse along", "The axis along which the focus changes.", group="Channels", **_OFFERED)
    scope: str = _option(ALL, "Series", _TIPS["scope"], group="Channels", widget_type="ComboBox", choices=_SCOPES)
    decide_by: str = _option(EACH, "Decide by", _TIPS["decide_by"], group="Channels", **_OFFERED)
    even_exposure: bool = _option(False, "Even exposure", _TIPS["even_exposure"], group="Images")
    reference: int = _option(0, "Reference", _TIPS["reference"], group="Images", min=0, max=1_000_000)
    leave_out: str = _option("", "Leave out", "Images that are not fused, counted from 1, such as 1, 4-6.", group="Images")
    transforms: Path | None = _option(None, "Transforms", _TIPS["transforms"], group="Images", **_FILE, filter="Transforms (*.json)")  # noqa: RUF009
    confidence: bool = _option(False, "Confidence", "Add how certain the choice of each pixel is, hidden.", group="More results")
    scale_maps: bool = _option(False, "Maps of both scales", "Add the focus maps of both scales, hidden.", group="More results")
    height: bool = _option(False, "Heights", "Add the height of every pixel, in the unit of the stack's axis.", group="More results")
    height_smoothing: int = _option(0, "Smoothing", _TIPS["height_smoothing"], group="More results", min=0, max=32)
    destination: Path | None = _option(None, "Result", _TIPS["destination"], group="Keep on disk", **_FILE, filter="OME-Zarr (*.ome.zarr)")  # noqa: RUF009
    slab: int = _option(0, "Slabs of", _TIPS["slab"], group="Keep on disk", min=0, max=100_000)
    scheduler: str = _option("", "Scheduler", _TIPS["scheduler"], group="Keep on disk")

    @property
    def is_shown_only(self) -> bool:
        """Whether only the stack at the place of the sliders is fused."""
        return self.scope == SHOWN

    @property
    def map_names(self) -> tuple[str, ...]:
        """Maps that become layers beside the fused image: the source map, and those asked for."""
        wanted = {"source_index": True, "confidence": self.confidence}
        return tuple(name for name in MAP_NAMES if wanted.get(name, self.scale_maps))
