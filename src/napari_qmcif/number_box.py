"""A box for numbers of any size, shown with the digits they need."""

from __future__ import annotations

from typing import Any

from magicgui.backends._qtpy import widgets as backend
from magicgui.widgets.bases import RangedWidget
from qtpy.QtGui import QValidator
from qtpy.QtWidgets import QDoubleSpinBox

MOST_DECIMALS = 12
"""Enough to hold the smallest tolerance exactly; what is shown has only the digits it needs."""


class NumberSpinBox(QDoubleSpinBox):
    """Spin box that shows 1e-5 as well as 0.3, and hears of what is typed when it is finished."""

    def __init__(self, parent: Any = None) -> None:  # noqa: ANN401 - a widget, or none
        super().__init__(parent)
        super().setDecimals(MOST_DECIMALS)
        # else every digit of 0.05 would start a preview
        self.setKeyboardTracking(False)
        # steps follow the size of the number: 1e-5 and 300 have no common one
        self.setStepType(type(self).StepType.AdaptiveDecimalStepType)

    def sizeHint(self) -> Any:  # noqa: ANN401 - a size
        """Take no more room than a plain number: Qt reckons with the longest there is."""
        hint = super().sizeHint()
        hint.setWidth(min(hint.width(), 110))
        return hint

    def minimumSizeHint(self) -> Any:  # noqa: ANN401 - a size
        """Take no more room than a plain number."""
        hint = super().minimumSizeHint()
        hint.setWidth(min(hint.width(), 70))
        return hint

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
            # 1e- is none yet, and may become one
            is_fine = self.minimum() <= float(text) <= self.maximum()
        except ValueError:
            is_fine = False
        return (QValidator.State.Acceptable if is_fine else QValidator.State.Intermediate), text, pos


class _Backend(backend.FloatSpinBox):
    """What magicgui moves: its spin box, with the digits of ours."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - passed on
        # past the class above, which would make a plain spin box
        backend.QBaseRangedWidget.__init__(self, NumberSpinBox, **options)

    def _mgui_set_step(self, value: float) -> None:
        self._qwidget.setSingleStep(value)  # type: ignore[arg-type] # magicgui shares the hint with sliders


class NumberBox(RangedWidget[float]):
    """magicgui's box for floats without its rounding: FloatSpinBox makes 1e-5 a zero."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(**{**options, "widget_type": _Backend})
