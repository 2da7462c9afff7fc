"""Settings of a run: preset, then configuration file, then single assignments; and the list of them below the help."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from qmcif_engine.config.fusion_config import FusionConfig, parse_assignment
from qmcif_engine.config.presets import preset
from qmcif_engine.config.settings import parse_toml
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.io.limits import LARGEST_SETTINGS_BYTES, read_bounded


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
    except (RecursionError, ValueError) as error:  # raised for a thousand brackets, and for numbers of thousands of digits
        msg = f"configuration {str(path)!r} is nested too deeply or holds too long a number; settings are needed: check the file"
        raise InvalidConfigError(msg) from error


def _read_text(path: Path) -> str:
    try:
        return read_bounded(path, largest_bytes=LARGEST_SETTINGS_BYTES).decode("utf-8")
    except (OSError, ValueError) as error:
        msg = f"configuration {str(path)!r} cannot be read ({error}); a small TOML file is needed: check its name and permissions"
        raise InvalidConfigError(msg) from error


def describe_settings() -> str:
    """Return two lines per setting, from the configuration itself."""
    lines = ["settings for --set and --config, with their defaults and allowed values:"]
    defaults = FusionConfig()
    for full_name, item in FusionConfig.setting_fields().items():
        section, _, name = full_name.partition(".")
        if full_name == "method.base_smoothness":
            lines.append("settings of the published method; all but representation act under rule=paper only:")
        default = getattr(getattr(defaults, section), name)
        unit = f" {item.metadata['unit']}" if item.metadata["unit"] else ""
        lines.append(f"  {name}={_show(default)}  ({_describe_domain(item, default)}{unit})\n      {item.metadata['help']}")
    return "\n".join(lines)


def _describe_domain(item: dataclasses.Field[Any], default: object) -> str:
    """Return the choices of a setting, or its bounds."""
    choices: Sequence[object] = item.metadata["choices"]
    if isinstance(default, bool):
        choices = (True, False)
    elif isinstance(default, StrEnum):
        choices = tuple(type(default))
    return ", ".join(map(_show, choices)) if choices else f"{_show(item.metadata['low'])} to {_show(item.metadata['high'])}"


def _show(value: object) -> str:
    """Return a value as ``--set`` takes it."""
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else str(value)
