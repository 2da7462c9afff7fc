"""Offer every setting of the engine: the preset first, the rest folded away."""

from __future__ import annotations

from typing import Any

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QFormLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from napari_qmcif.fold import Fold
from napari_qmcif.setting_box import CalmComboBox, SettingBox, label_setting
from qmcif_engine import PRESETS, FusionConfig, setting_fields

DEFAULT_PRESET = "default"


class SettingsForm(QWidget):
    """Edit a `FusionConfig`; the boxes follow from the engine's fields, so that a new setting needs no change here."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("settings")
        self.preset_box = CalmComboBox()
        self.preset_box.addItems(list(PRESETS))
        self.preset_box.setToolTip("Settings to start from. Choosing one sets everything below.")
        self.boxes = {name: SettingBox(item, on_change=self._show_change) for name, item in setting_fields().items()}
        self.reset_button = QPushButton("Reset to defaults")
        self.reset_button.setToolTip("Set the preset and every setting back")
        self.advanced = Fold("Advanced", self._make_advanced())
        self._is_loading = False
        self._arrange()
        self.preset_box.currentTextChanged.connect(self._load_preset)
        self.reset_button.clicked.connect(self.reset)
        self.reset()

    @property
    def preset(self) -> str:
        """Name of the preset the settings started from."""
        return self.preset_box.currentText()

    def read_config(self) -> FusionConfig:
        """Return the settings as they stand.

        Raises
        ------
        InvalidConfigError
            When some of them cannot go together.
        """
        return PRESETS[self.preset].replaced({name: box.value for name, box in self.boxes.items()})

    def list_changes(self) -> dict[str, Any]:
        """Return the settings that differ from the preset's, by ``section.name``."""
        reference = _flatten(PRESETS[self.preset])
        return {name: box.value for name, box in self.boxes.items() if box.value != reference[name]}

    def reset(self) -> None:
        """Go back to the default preset."""
        self.preset_box.setCurrentText(DEFAULT_PRESET)
        self._load_preset()

    def _load_preset(self) -> None:
        values = _flatten(PRESETS[self.preset])
        self._is_loading = True
        for name, box in self.boxes.items():
            box.value = values[name]
        self._is_loading = False
        self._show_change()

    def _show_change(self) -> None:
        if self._is_loading:
            return
        n_changes = len(self.list_changes())
        self.advanced.set_remark(f" ({n_changes} changed)" if n_changes else "")
        self.reset_button.setEnabled(n_changes > 0 or self.preset != DEFAULT_PRESET)
        self.changed.emit()

    def _arrange(self) -> None:
        top = QFormLayout()
        top.addRow("Preset", self.preset_box)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(top)
        layout.addWidget(self.advanced)
        layout.addWidget(self.reset_button)

    def _make_advanced(self) -> QWidget:
        content = QWidget()
        form = QFormLayout(content)
        form.setContentsMargins(8, 0, 0, 0)
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.setLabelAlignment(Qt.AlignmentFlag.AlignLeft)
        heading = ""
        for name, box in self.boxes.items():
            section = name.partition(".")[0]
            if section != heading:
                heading = section
                form.addRow(QLabel(f"<b>{section.capitalize()}</b>"))
            label = QLabel(label_setting(setting_fields()[name]))
            label.setToolTip(box.widget.toolTip())
            form.addRow(label, box.widget)
        return content


def _flatten(config: FusionConfig) -> dict[str, Any]:
    """Return the settings by ``section.name``, enumerations as such."""
    return {name: getattr(getattr(config, name.partition(".")[0]), name.partition(".")[2]) for name in setting_fields()}
