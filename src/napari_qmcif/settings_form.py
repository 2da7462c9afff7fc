"""Every setting of the engine: four choices in the words of the task, the method's own folded away under Expert."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from pathlib import Path
from typing import Any

from magicgui.widgets import ComboBox, PushButton, create_widget
from magicgui.widgets.bases import ValuedContainerWidget, ValueWidget
from napari.utils.notifications import show_error
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QFileDialog, QFormLayout, QLabel, QWidget
from superqt import QElidingLabel

from napari_qmcif.form_parts import group, make_fold, shrink_boxes, tidy_rows
from napari_qmcif.number_box import NumberBox
from napari_qmcif.preferences import read_preferences, write_text
from napari_qmcif.task_choices import PRESET_WORDS, TASK_CHOICES
from qmcif_engine import PRESETS, FusionConfig, QmcifError

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


OWN = "other, see Expert"
"""The answer where a preset, or a person, has set what none of the others stands for."""

NAME_PX = 130
"""Room for the name of a setting beside its box in a dock of 300 pixels; a longer name is elided, and its tooltip says it."""

TOML_FILTER = "Settings (*.toml)"


class SettingsForm(ValuedContainerWidget[FusionConfig]):
    """Form whose value is a `FusionConfig`; its rows follow from the engine's fields, so that a new setting needs no change here."""

    def __init__(self, value: Any = None, **options: Any) -> None:  # noqa: ANN401 - magicgui's
        words = [(PRESET_WORDS.get(name, name), name) for name in PRESETS]
        self.preset_box = ComboBox(name="preset", label="Quality", choices=words)
        self.preset_box.tooltip = "Quality against speed: settings to start from. Choosing sets everything below."
        self.task_boxes = {name: self._make_task_box(name) for name in TASK_CHOICES}
        fields = FusionConfig.setting_fields()
        self.rows: dict[str, ValueWidget[Any]] = {name: make_setting_widget(name, item) for name, item in fields.items()}
        self.load_button, self.save_button = PushButton(text="Load …"), PushButton(text="Save …")
        self.reset_button = PushButton(text="Reset")
        for button, tooltip in (
            (self.load_button, "Take the settings from a TOML file, as `qmcif fuse --config` reads them"),
            (self.save_button, "Write all settings to a TOML file"),
            (self.reset_button, "Set everything back to the default of Preferences"),
        ):
            button.tooltip = tooltip
        self._names: dict[str, QElidingLabel] = {}
        self._is_loading = False
        self._buttons = group(self.load_button, self.save_button, self.reset_button)
        options = {**options, "widgets": [self.preset_box, *self.task_boxes.values()], "labels": True}
        super().__init__(**options)
        self.margins = (0, 0, 0, 0)
        tidy_rows(self)
        self.expert = make_fold("Expert", self._lay_out_rows())
        self.native.layout().addWidget(self.expert)
        self.native.layout().addWidget(self._buttons.native)
        self._connect()
        self.set_value(value if isinstance(value, FusionConfig) else PRESETS[read_preferences().preset])

    @property
    def preset(self) -> str:
        """Name of the preset the settings started from."""
        return str(self.preset_box.value)

    def get_value(self) -> FusionConfig:
        """Return the settings as they stand; refuse those that cannot go together."""
        return FusionConfig().replaced({name: row.value for name, row in self.rows.items()})

    def set_value(self, value: FusionConfig) -> None:
        """Show other settings, under the preset they differ least from."""
        flat = flatten(value)
        # many boxes change, and what listens is to hear of it once
        self._is_loading = True
        self.preset_box.value = find_closest_preset(value)[0]
        for name, row in self.rows.items():
            row.value = flat[name]
        self._is_loading = False
        self._show_change()

    def list_changes(self) -> dict[str, Any]:
        """Return the settings that differ from the preset's, by ``section.name``."""
        reference = flatten(PRESETS[self.preset])
        return {name: row.value for name, row in self.rows.items() if row.value != reference[name]}

    def reset(self) -> None:
        """Go back to the default."""
        self.set_value(PRESETS[read_preferences().preset])

    def load(self, path: Path) -> None:
        """Take the settings from a TOML file; the form stays as it is where that cannot be done."""
        try:
            self.set_value(FusionConfig.from_toml(path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError, QmcifError) as error:
            show_error(f"{path.name}: {error}")

    def save(self, path: Path) -> None:
        """Write the settings to a TOML file; one of that name is replaced, as the dialog has asked."""
        try:
            write_text(path, self.get_value().to_toml())
        except (OSError, QmcifError) as error:
            show_error(f"{path.name}: {error}")

    def _make_task_box(self, name: str) -> ComboBox:
        choice = TASK_CHOICES[name]
        return ComboBox(name=name, label=choice.label, choices=[*choice.answers, OWN], tooltip=choice.tooltip)

    def _load_preset(self) -> None:
        if not self._is_loading:
            self.set_value(PRESETS[self.preset])

    def _answer(self, name: str, answer: str) -> None:
        """Set what an answer stands for."""
        # that answer only describes; there is nothing to set
        if self._is_loading or answer == OWN:
            return
        self._is_loading = True
        for setting, value in TASK_CHOICES[name].answers[answer].items():
            self.rows[setting].value = value
        self._is_loading = False
        self._show_change()

    def _show_change(self) -> None:
        """Mark the rows that differ from the preset, show which answers the settings amount to, and tell."""
        if self._is_loading:
            return
        changes = self.list_changes()
        for name, label in self._names.items():
            text = label_setting(FusionConfig.setting_fields()[name])
            # bold alone is hard to see in some themes
            label.setText(f"• {text}" if name in changes else text)
            font = label.font()
            font.setBold(name in changes)
            label.setFont(font)
            is_shown = self.rows["decision.rule"].value == "paper" or not _acts_under_paper_only(name)
            label.setVisible(is_shown)
            self.rows[name].native.setVisible(is_shown)
        self.expert.setText(f"Expert ({len(changes)} changed)" if changes else "Expert")
        try:
            config = self.get_value()
        except QmcifError:  # whoever runs it says what cannot go together
            config = None
        self._is_loading = True
        for name, box in self.task_boxes.items():
            box.value = (None if config is None else TASK_CHOICES[name].find_answer(config)) or OWN
        self._is_loading = False
        self.reset_button.enabled = bool(changes) or self.preset != read_preferences().preset
        # None where the settings cannot go together
        self.changed.emit(config)

    def _lay_out_rows(self) -> QWidget:
        content = QWidget()
        form = QFormLayout(content)
        form.setContentsMargins(4, 0, 0, 0)
        # no row wraps: a fold takes the height that its content asks for, and wrapped rows ask for too little
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.DontWrapRows)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.setLabelAlignment(Qt.AlignmentFlag.AlignLeft)
        heading = ""
        for name, row in self.rows.items():
            section = name.partition(".")[0]
            if section != heading:
                heading = section
                form.addRow(QLabel(f"<b>{section.capitalize()}</b>"))
            self._names[name] = QElidingLabel(row.label)
            self._names[name].setFixedWidth(NAME_PX)
            self._names[name].setToolTip(row.tooltip or "")
            form.addRow(self._names[name], row.native)
        shrink_boxes(content)
        return content

    def _connect(self) -> None:
        self.preset_box.changed.connect(self._load_preset)
        for name, box in self.task_boxes.items():
            box.changed.connect(lambda answer, name=name: self._answer(name, answer))
        for row in self.rows.values():
            row.changed.connect(self._show_change)
        self.reset_button.changed.connect(self.reset)
        self.load_button.changed.connect(self._ask_load)
        self.save_button.changed.connect(self._ask_save)

    def _ask_load(self) -> None:
        name, _ = QFileDialog.getOpenFileName(self.native, "Load settings", "", TOML_FILTER)
        if name:
            self.load(Path(name))

    def _ask_save(self) -> None:
        name, _ = QFileDialog.getSaveFileName(self.native, "Save settings", "settings.toml", TOML_FILTER)
        if name:
            self.save(Path(name))


def _acts_under_paper_only(name: str) -> bool:
    return name.startswith("method.") and name != "method.representation"


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


def describe_changes(config: FusionConfig) -> str:
    """Return in a few words what settings are: the preset they are nearest to, and what differs from it."""
    closest, changes = find_closest_preset(config)
    words = [f"{key.partition('.')[2].replace('_', ' ')} {value}" for key, value in changes.items()]
    return ", ".join([PRESET_WORDS.get(closest, closest), *words[:3], *(["…"] if len(words) > 3 else [])])
