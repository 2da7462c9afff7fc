"""The list of settings below the help of the commands that fuse."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from qmcif_engine.config.fusion_config import FusionConfig

if TYPE_CHECKING:
    import dataclasses
    from collections.abc import Sequence


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
