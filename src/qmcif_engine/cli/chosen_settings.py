"""Settings of a run: preset, then configuration file, then single assignments."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from qmcif_engine.config.fusion_config import FusionConfig, parse_assignment
from qmcif_engine.config.presets import preset
from qmcif_engine.config.settings import parse_toml
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.io.input.bounded_reading import read_bounded
from qmcif_engine.io.limits import LARGEST_SETTINGS_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def gather_settings(*, preset_name: str, config_file: Path | None, assignments: Sequence[str]) -> FusionConfig:
    """Return the settings that the command line asks for; later ones win."""
    settings = preset(preset_name)
    if config_file is not None:
        settings = _apply_file(settings, config_file)
    settings = settings.replaced(dict(parse_assignment(text) for text in assignments))
    if idle := settings.list_idle_settings():
        warnings.warn(f"settings {', '.join(idle)} act under rule=paper only, and the rule is energy: add --preset paper", stacklevel=2)
    return settings


def _apply_file(settings: FusionConfig, path: Path) -> FusionConfig:
    text = _read_text(path)
    try:
        return settings.updated(parse_toml(text))
    except InvalidConfigError:
        raise
    except (RecursionError, ValueError) as error:  # what Python says of a thousand brackets, and of numbers of thousands of digits
        msg = f"configuration {str(path)!r} is nested too deeply or holds too long a number; settings are needed: check the file"
        raise InvalidConfigError(msg) from error


def _read_text(path: Path) -> str:
    try:
        return read_bounded(path, largest_bytes=LARGEST_SETTINGS_BYTES).decode("utf-8")
    except (OSError, ValueError) as error:
        msg = f"configuration {str(path)!r} cannot be read ({error}); a small TOML file is needed: check its name and permissions"
        raise InvalidConfigError(msg) from error
