"""Hide part of a form under a heading until it is wanted."""

from __future__ import annotations

from qtpy.QtWidgets import QPushButton, QVBoxLayout, QWidget


class Fold(QWidget):
    """Show a heading, and its content once the heading was clicked."""

    def __init__(self, title: str, content: QWidget) -> None:
        super().__init__()
        self._title, self._remark, self._is_open = title, "", False
        self.button = QPushButton()
        self.button.setStyleSheet("text-align: left; padding: 4px;")
        self.content = content
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.button)
        layout.addWidget(content)
        self.button.clicked.connect(self._toggle)
        self._show_state()

    def set_remark(self, remark: str) -> None:
        """Put something behind the title that is seen while folded."""
        self._remark = remark
        self._show_state()

    def _toggle(self) -> None:
        self._is_open = not self._is_open
        self._show_state()

    def _show_state(self) -> None:
        self.content.setVisible(self._is_open)
        self.button.setText(f"{'▾' if self._is_open else '▸'} {self._title}{self._remark}")
