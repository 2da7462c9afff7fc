"""Offer one setting of the engine for editing: the editor follows from the kind of value, its bounds and its unit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from magicgui.widgets import create_widget
from magicgui.widgets.bases import ValueWidget
from qtpy.QtCore import Qt
from qtpy.QtGui import QValidator, QWheelEvent
from qtpy.QtWidgets import QCheckBox, QComboBox, QDoubleSpinBox, QSpinBox, QWidget

from napari_qmcif import number_box

MOST_DECIMALS = 12
"""Enough to hold the smallest tolerance exactly; what is shown has only the digits it needs."""

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
        options["widget_type"] = number_box.NumberBox
    widget: Any = create_widget(item.default, annotation=kind, name=name, label=label_setting(item), options=options)
    if low is not None and kind is int and not choices:
        widget.native.setKeyboardTracking(False)  # a number is heard of when it is typed to the end
    if kind is bool:
        widget.text = ""  # its label stands beside it, as that of the others
    made: ValueWidget[Any] = widget
    return made


class SettingBox:
    """Edit one setting; `widget` is what the form shows."""

    def __init__(self, item: dataclasses.Field[Any], *, on_change: Callable[[], None]) -> None:
        self.widget, self._read, self._write = _make_editor(item, on_change)
        self.widget.setToolTip(explain_setting(item))
        self.widget.setObjectName(item.name)

    @property
    def value(self) -> Any:  # noqa: ANN401 - any settings value
        """The value as the engine takes it."""
        return self._read()

    @value.setter
    def value(self, value: Any) -> None:  # noqa: ANN401 - any settings value
        self._write(value)


_Editor = tuple[QWidget, Callable[[], Any], Callable[[Any], None]]


def _make_editor(item: dataclasses.Field[Any], on_change: Callable[[], None]) -> _Editor:
    if isinstance(item.default, bool):
        check_box = QCheckBox()
        check_box.toggled.connect(on_change)
        return check_box, check_box.isChecked, check_box.setChecked
    if isinstance(item.default, StrEnum):
        return _make_choice(tuple(type(item.default)), on_change)
    if item.metadata["choices"]:
        return _make_choice(item.metadata["choices"], on_change)
    return _make_number(item, on_change)


def _make_choice(choices: tuple[Any, ...], on_change: Callable[[], None]) -> _Editor:
    box = CalmComboBox()
    for choice in choices:
        box.addItem(str(choice), choice)
    box.setMinimumContentsLength(max(len(str(choice)) for choice in choices))
    box.currentIndexChanged.connect(on_change)
    return box, box.currentData, lambda value: box.setCurrentIndex(choices.index(value))


def _make_number(item: dataclasses.Field[Any], on_change: Callable[[], None]) -> _Editor:
    box = CalmSpinBox() if isinstance(item.default, int) else NumberBox()
    box.setRange(item.metadata["low"], item.metadata["high"])
    box.setKeyboardTracking(False)
    box.setStepType(type(box).StepType.AdaptiveDecimalStepType)
    box.valueChanged.connect(on_change)
    return box, box.value, box.setValue


def _leave_wheel_to_form(box: QWidget, event: QWheelEvent | None) -> bool:
    """Say whether a turn of the wheel is meant for the form: scrolling it must not change what the pointer passes over."""
    if event is None or box.hasFocus():
        return False
    event.ignore()
    return True


class CalmComboBox(QComboBox):
    """Follow the wheel only when focused, and grow no wider than the dock."""

    def __init__(self) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(8)

    def wheelEvent(self, event: QWheelEvent | None) -> None:
        """Turn only when focused."""
        if not _leave_wheel_to_form(self, event):
            super().wheelEvent(event)


class CalmSpinBox(QSpinBox):
    """Follow the wheel only when focused."""

    def __init__(self) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def wheelEvent(self, event: QWheelEvent | None) -> None:
        """Turn only when focused."""
        if not _leave_wheel_to_form(self, event):
            super().wheelEvent(event)


class NumberBox(QDoubleSpinBox):
    """Show a number with the digits it needs, 1e-05 as well as 0.3, and follow the wheel only when focused."""

    def __init__(self) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setDecimals(MOST_DECIMALS)

    def textFromValue(self, v: float) -> str:
        """Return the shorter of 0.3 and 3e-1."""
        mantissa, exponent = f"{v:.9e}".split("e")
        return min(f"{v:.10g}", f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}", key=len)

    def valueFromText(self, text: str | None) -> float:
        """Read a text that `validate` let through."""
        return float(text or 0)

    def validate(self, input: str | None, pos: int) -> tuple[QValidator.State, str, int]:
        """Accept what is a number within the bounds; let pass what may become one."""
        text = input or ""
        if not all(character in "0123456789.eE+-" for character in text):
            return QValidator.State.Invalid, text, pos
        try:
            is_fine = self.minimum() <= float(text) <= self.maximum()
        except ValueError:
            is_fine = False
        return (QValidator.State.Acceptable if is_fine else QValidator.State.Intermediate), text, pos

    def wheelEvent(self, event: QWheelEvent | None) -> None:
        """Turn only when focused."""
        if not _leave_wheel_to_form(self, event):
            super().wheelEvent(event)
