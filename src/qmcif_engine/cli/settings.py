"""Put the settings of a run together: preset, then configuration file, then single assignments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qmcif_engine.config import FusionConfig, parse_assignment, parse_toml
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.presets import preset

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LARGEST_CONFIG_BYTES = 2**20


def gather_settings(*, preset_name: str, config_file: Path | None, assignments: Sequence[str]) -> FusionConfig:
    """Return the settings that the command line asks for; later ones win."""
    settings = preset(preset_name)
    if config_file is not None:
        settings = settings.updated(parse_toml(_read_text(config_file)))
    return settings.replaced(dict(parse_assignment(text) for text in assignments))


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST_CONFIG_BYTES:
            msg = f"configuration {str(path)!r} is larger than {LARGEST_CONFIG_BYTES} bytes; a small TOML file is needed: check the name"
            raise InvalidConfigError(msg)
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"configuration {str(path)!r} cannot be read ({error}); a TOML file is needed: check its name and permissions"
        raise InvalidConfigError(msg) from error
