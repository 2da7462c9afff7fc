"""Messages in place: what stands in the way, what became of something, what went wrong."""

from __future__ import annotations

from napari.utils.notifications import notification_manager, show_error
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QLabel

from qmcif_engine import QmcifError


class MessageLabel(QLabel):
    """Show a text that wraps and can be copied; without one take no room."""

    def __init__(self) -> None:
        super().__init__()
        self.setWordWrap(True)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.say("")

    def say(self, text: str) -> None:
        """Show a text in place of the last one."""
        self.setText(text)
        self.setVisible(bool(text))

    def complain(self, error: Exception) -> None:
        """Show an error here and as a notification: in the engine's words where it was foreseen, with its traceback where not."""
        if isinstance(error, QmcifError | OSError):
            self.say(str(error))
            show_error(str(error))
        else:
            self.say(f"{type(error).__name__}: {error}")
            notification_manager.receive_error(type(error), error, error.__traceback__)
