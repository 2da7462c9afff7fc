"""Every setting of the engine: four choices in the words of the task, and the method's own in a fold that is built when it is opened."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

from magicgui.widgets import ComboBox, Container, PushButton, create_widget
from magicgui.widgets.bases import ValueWidget
from napari.utils.notifications import show_error
from psygnal import Signal
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QFileDialog, QFormLayout, QLabel, QWidget
from superqt import QElidingLabel

from napari_qmcif.form_parts import group, make_fold
from napari_qmcif.preferences import read_preferences, write_text
from qmcif_engine import PRESETS, FusionConfig, QmcifError

PRESET_WORDS = {"default": "balanced", "fast": "fast", "paper": "as published (slow)"}
TASK_CHOICES: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "Noise": (
        "How much decisions look past noise.\nStrong also lets neighboring decisions agree more.",
        {
            "measured": {"decision.noise": "auto", "decision.smoothness": 1.0},
            "none": {"decision.noise": "off", "decision.smoothness": 1.0},
            "strong": {"decision.noise": "auto", "decision.smoothness": 2.0},
        },
    ),
    "See-through": (
        "Which end of the stack wins where several images are sharp, as with wings and glass.",
        {
            "sharpest": {"decision.preference": "none"},
            "front (first images)": {"decision.preference": "front"},
            "back (last images)": {"decision.preference": "back"},
        },
    ),
    "Background": (
        "Smooth: brightness is blended wider where a narrow blend would show as a step.",
        {"ordinary": {"decision.feather_px": 3.0}, "smooth": {"decision.feather_px": 12.0}},
    ),
}
"""What a person may ask for beside the quality: a tooltip, and by answer the settings it stands for; the first is the default."""

OWN = "other, see Method"
"""The answer where a preset, or a person, has set what none of the others stands for."""

NAME_PX = 130
"""Room for the name of a setting beside its box in a dock of 300 pixels; a longer name is elided, and its tooltip shows it."""

TOML_FILTER = "Settings (*.toml)"


class SettingsForm(Container[Any]):
    """Form of a `FusionConfig`; the rows of the fold follow from the engine's fields, so that a new setting needs no change here."""

    configured = Signal()

    def __init__(self) -> None:
        self.preset_box = ComboBox(label="Quality", choices=[(PRESET_WORDS.get(name, name), name) for name in PRESETS])
        self.preset_box.tooltip = "Quality against speed: settings to start from. Choosing sets everything below."
        self.task_boxes = {
            name: ComboBox(label=name, choices=[*answers, OWN], tooltip=tip) for name, (tip, answers) in TASK_CHOICES.items()
        }
        self.load_button = PushButton(text="Load …", tooltip="Take the settings from a TOML file, as `qmcif fuse --config` reads them")
        self.save_button = PushButton(text="Save …", tooltip="Write all settings to a TOML file")
        self.reset_button = PushButton(text="Reset", tooltip="Set everything back to the default of Preferences")
        super().__init__(widgets=[self.preset_box, *self.task_boxes.values()], labels=True)
        self.margins = (0, 0, 0, 0)
        self.rows: dict[str, ValueWidget[Any]] = {}
        self._row_names: dict[str, QElidingLabel] = {}
        self.fold = make_fold("Method", self._build_rows)
        self.native.layout().addWidget(self.fold)
        self._buttons = group(self.load_button, self.save_button, self.reset_button)
        self.native.layout().addWidget(self._buttons.native)
        self._flat = flatten(PRESETS[read_preferences().preset])
        self.preset_box.value = read_preferences().preset
        self._is_showing = False
        self._show()
        self.preset_box.changed.connect(lambda name: self._change(flatten(PRESETS[name])))
        for name, box in self.task_boxes.items():
            # the last answer only describes; there is nothing to set
            box.changed.connect(lambda answer, name=name: self._change(TASK_CHOICES[name][1].get(answer, {})))
        self.reset_button.changed.connect(self.reset)
        self.load_button.changed.connect(lambda: self._ask(QFileDialog.getOpenFileName, "Load settings", "", self.load))
        self.save_button.changed.connect(lambda: self._ask(QFileDialog.getSaveFileName, "Save settings", "settings.toml", self.save))

    def read_config(self) -> FusionConfig:
        """Return the settings as they stand; refuse those that cannot go together."""
        return FusionConfig().replaced(self._flat)

    def show_config(self, config: FusionConfig) -> None:
        """Show other settings, under the preset they differ least from."""
        with self.preset_box.changed.blocked():
            self.preset_box.value = find_closest_preset(config)[0]
        self._change(flatten(config))

    def list_changes(self) -> dict[str, Any]:
        """Return the settings that differ from the preset's, by ``section.name``."""
        reference = flatten(PRESETS[self.preset_box.value])
        return {name: value for name, value in self._flat.items() if value != reference[name]}

    def reset(self) -> None:
        """Go back to the default."""
        self.show_config(PRESETS[read_preferences().preset])

    def load(self, path: Path) -> None:
        """Take the settings from a TOML file; the form stays as it is where that cannot be done."""
        self.show_config(FusionConfig.from_toml(path.read_text(encoding="utf-8")))

    def save(self, path: Path) -> None:
        """Write the settings to a TOML file; one of that name is replaced, as the dialog has asked."""
        write_text(path, self.read_config().to_toml())

    def _change(self, changes: Mapping[str, Any]) -> None:
        if changes and not self._is_showing:
            self._flat |= changes
            self._show()
            self.configured.emit()

    def _show(self) -> None:
        """Show which answers the settings amount to, and mark the rows that differ from the preset."""
        try:
            config = self.read_config()
        except QmcifError:  # whoever runs it reports what cannot go together
            config = None
        changes, self._is_showing = self.list_changes(), True
        for name, box in self.task_boxes.items():
            answers = TASK_CHOICES[name][1].items()
            box.value = next((answer for answer, values in answers if config is not None and config.replaced(values) == config), OWN)
        for name, row in self.rows.items():
            _allow_digits(row, self._flat[name])
            row.value = self._flat[name]
            text = label_setting(FusionConfig.setting_fields()[name])
            # bold alone is hard to see in some themes
            self._row_names[name].setText(f"• {text}" if name in changes else text)
            is_shown = self._flat["decision.rule"] == "paper" or not name.startswith("method.") or name == "method.representation"
            for part in (self._row_names[name], row.native):
                part.setVisible(is_shown)
        self._is_showing = False
        self.fold.setText(f"Method ({len(changes)} changed)" if changes else "Method")
        self.reset_button.enabled = bool(changes) or self.preset_box.value != read_preferences().preset

    def _build_rows(self) -> QWidget:
        content = QWidget()
        form = QFormLayout(content)
        form.setContentsMargins(0, 0, 0, 0)
        # no row wraps: a fold takes the height that its content asks for, and wrapped rows ask for too little
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.DontWrapRows)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.setLabelAlignment(Qt.AlignmentFlag.AlignLeft)
        heading = ""
        for name, item in FusionConfig.setting_fields().items():
            if name.partition(".")[0] != heading:
                heading = name.partition(".")[0]
                form.addRow(QLabel(f"<b>{heading.capitalize()}</b>"))
            self.rows[name] = row = make_setting_widget(name, item)
            self._row_names[name] = label = QElidingLabel(row.label)
            label.setFixedWidth(NAME_PX)
            label.setToolTip(row.tooltip or "")
            form.addRow(label, row.native)
        self._show()
        for name, row in self.rows.items():
            row.changed.connect(lambda value, name=name: self._change({name: value}))
        return content

    def _ask(self, dialog: Callable[..., tuple[str, str]], title: str, name: str, use: Callable[[Path], None]) -> None:
        chosen, _ = dialog(self.native, title, name, TOML_FILTER)
        try:
            if chosen:
                use(Path(chosen))
        except (OSError, UnicodeDecodeError, QmcifError) as error:
            show_error(f"{Path(chosen).name}: {error}")


def label_setting(item: dataclasses.Field[Any]) -> str:
    """Return what the form calls a setting: its name in words and its unit."""
    words = item.name.removeprefix("is_").removesuffix("_px").removesuffix("_patches")
    words = (f"number of {words[2:]}" if words.startswith("n_") else words).replace("_", " ")
    unit = item.metadata["unit"]
    return words[0].upper() + words[1:] + (f" ({unit})" if unit and unit not in words else "")


def make_setting_widget(name: str, item: dataclasses.Field[Any]) -> ValueWidget[Any]:
    """Return the magicgui widget that edits one setting, named by its ``section.name``; the tooltip has help text and bounds."""
    kind: Any = type(item.default)
    low, high, choices, text = (item.metadata[key] for key in ("low", "high", "choices", "help"))
    bounds = "" if low is None else f"\n{low:g} to {high:g} {item.metadata['unit']}".rstrip()
    options: dict[str, Any] = {"tooltip": f"{text[0].upper()}{text[1:]}.\n{item.name}{bounds}"}
    if choices or issubclass(kind, StrEnum):
        options |= {"widget_type": "ComboBox", "choices": [(str(choice), choice) for choice in choices or kind]}
    elif low is not None:
        options |= {"min": low, "max": high}
    widget: Any = create_widget(item.default, annotation=kind, name=name, label=label_setting(item), options=options)
    if kind in (int, float) and not choices:
        widget.native.setKeyboardTracking(False)  # a number counts when it is typed to the end
    if kind is bool:
        widget.text = ""  # its label stands beside it, as that of the others
    for value in (item.default, low):
        _allow_digits(widget, value)
    if isinstance(low, float):
        widget.min = low
    made: ValueWidget[Any] = widget
    return made


def _allow_digits(widget: Any, value: Any) -> None:  # noqa: ANN401 - a widget and its value
    """Let a box for floats hold a value exactly: left alone, it would make 1e-5 a zero."""
    if isinstance(value, float):
        n_digits = -int(Decimal(repr(value)).normalize().as_tuple().exponent)
        widget.native.setDecimals(max(widget.native.decimals(), n_digits + 1))


def flatten(config: FusionConfig) -> dict[str, Any]:
    """Return the settings by ``section.name``, enumerations as such."""
    return {name: getattr(getattr(config, name.partition(".")[0]), name.partition(".")[2]) for name in FusionConfig.setting_fields()}


def find_closest_preset(config: FusionConfig) -> tuple[str, dict[str, Any]]:
    """Return the preset that settings differ least from, and the settings that differ."""
    flat = flatten(config)
    differences = {
        name: {key: flat[key] for key, value in flatten(preset).items() if value != flat[key]} for name, preset in PRESETS.items()
    }
    return min(differences.items(), key=lambda entry: len(entry[1]))
