"""Put the settings of a run together: preset, then configuration file, then single assignments."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from qmcif_engine.config.fusion_config import FusionConfig, parse_assignment, parse_toml
from qmcif_engine.config.presets import preset
from qmcif_engine.errors import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LARGEST_CONFIG_BYTES = 2**20


def gather_settings(*, preset_name: str, config_file: Path | None, assignments: Sequence[str]) -> FusionConfig:
    """Return the settings that the command line asks for; later ones win."""
    settings = preset(preset_name)
    if config_file is not None:
        settings = _apply_file(settings, config_file)
    return settings.replaced(dict(parse_assignment(text) for text in assignments))


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
        return _read_small_file(path).decode("utf-8")
    except InvalidConfigError:
        raise
    except (OSError, ValueError) as error:
        msg = f"configuration {str(path)!r} cannot be read ({error}); a TOML file is needed: check its name and permissions"
        raise InvalidConfigError(msg) from error


def _read_small_file(path: Path) -> bytes:
    """Return the bytes of a regular file; a pipe or a device may never end."""
    if not stat.S_ISREG(path.stat().st_mode):
        msg = f"configuration {str(path)!r} is a folder, pipe or device; a TOML file is needed: check the name"
        raise InvalidConfigError(msg)
    with path.open("rb") as stream:
        content = stream.read(LARGEST_CONFIG_BYTES + 1)
    if len(content) > LARGEST_CONFIG_BYTES:
        msg = f"configuration {str(path)!r} is larger than {LARGEST_CONFIG_BYTES} bytes; a small TOML file is needed: check the name"
        raise InvalidConfigError(msg)
    return content
