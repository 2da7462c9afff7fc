"""Offer one setting of the engine for editing: the editor follows from the kind of value, its bounds and its unit."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from typing import Any

from magicgui.widgets import create_widget
from magicgui.widgets.bases import ValueWidget

from napari_qmcif.number_box import NumberBox

_UNIT_ENDINGS = ("_px", "_patches")


def label_setting(item: dataclasses.Field[Any]) -> str:
    """Return what the form calls a setting: its name in words and its unit."""
    words = item.name.removeprefix("is_")
    for ending in _UNIT_ENDINGS:
        words = words.removesuffix(ending)
    if words.startswith("n_"):
        words = f"number of {words[2:]}"
    words, unit = words.replace("_", " "), item.metadata["unit"]
    return words[0].upper() + words[1:] + (f" ({unit})" if unit and unit not in words else "")


def explain_setting(item: dataclasses.Field[Any]) -> str:
    """Return the tooltip: help text, name for scripts, bounds."""
    low, high, unit = (item.metadata[key] for key in ("low", "high", "unit"))
    bounds = "" if low is None else f"\n{low:g} to {high:g} {unit}".rstrip()
    text = item.metadata["help"]
    return f"{text[0].upper()}{text[1:]}.\n{item.name}{bounds}"


def make_setting_widget(name: str, item: dataclasses.Field[Any]) -> ValueWidget[Any]:
    """Return the magicgui widget that edits one setting, named by its ``section.name``."""
    kind: Any = type(item.default)
    low, high, choices = (item.metadata[key] for key in ("low", "high", "choices"))
    options: dict[str, Any] = {"tooltip": explain_setting(item)}
    if choices or issubclass(kind, StrEnum):
        options |= {"widget_type": "ComboBox", "choices": [(str(choice), choice) for choice in choices or kind]}
    elif low is not None:
        options |= {"min": low, "max": high}
    if kind is float:
        options["widget_type"] = NumberBox
    widget: Any = create_widget(item.default, annotation=kind, name=name, label=label_setting(item), options=options)
    if low is not None and kind is int and not choices:
        widget.native.setKeyboardTracking(False)  # a number is heard of when it is typed to the end
    if kind is bool:
        widget.text = ""  # its label stands beside it, as that of the others
    made: ValueWidget[Any] = widget
    return made
