"""Retouch a fused picture: paint where another image is to be taken."""

from __future__ import annotations

from typing import Any

from napari.viewer import Viewer
from qtpy.QtGui import QColor, QIcon, QPixmap
from qtpy.QtWidgets import QFormLayout, QPushButton, QVBoxLayout

from napari_qmcif.docked_widget import DockedWidget
from napari_qmcif.fold import Fold
from napari_qmcif.layer_box import LayerBox, is_index_map, is_picture
from napari_qmcif.layer_choice import LayerChoice
from napari_qmcif.message_label import MessageLabel
from napari_qmcif.retouch_session import RetouchSession, color_sources
from napari_qmcif.retouch_subject import RetouchSubject, assemble_subject, find_index, find_sources
from napari_qmcif.setting_box import CalmComboBox
from qmcif_engine import QmcifError

HINT = "Paint with napari's brush; Ctrl+Z takes a stroke back."


class RetouchWidget(DockedWidget):
    """Choose a result, then paint with the image that is to be taken."""

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__(napari_viewer)
        self.session: RetouchSession | None = None
        self.result_box = LayerBox(napari_viewer, fits=is_picture)
        self.result_box.setToolTip("The fused picture; its samples are changed in place")
        self.index_box = LayerBox(napari_viewer, fits=is_index_map)
        self.index_box.setToolTip("Which image each pixel was taken from; found by itself for our own results")
        self.sources = LayerChoice(napari_viewer)
        self.sources_fold = Fold("Sources", self.sources)
        self.start_button = QPushButton("Start")
        self.image_box = CalmComboBox()
        self.image_box.setToolTip("What the brush takes. 0 gives the pixels back to the engine.")
        self.clear_button = QPushButton("Take all strokes back")
        self.message = MessageLabel()
        self._arrange()
        self._connect()
        self.find_parts()
        if not self.sources.selected_layers():
            self.sources_fold.button.click()

    def find_parts(self) -> None:
        """Choose the index and the sources that belong to the chosen result, as far as it says them."""
        fused = self.result_box.layer
        layers = list(self._viewer.layers)
        index = None if fused is None else find_index(fused, layers)
        stack = None if fused is None else find_sources(fused, layers)
        if index is not None:
            self.index_box.choose(index)
        if stack is not None:
            self.sources.select_layers(stack.layers)
            if stack.axis is not None:
                self.sources.axis_box.setCurrentIndex(stack.axis)
        self.check()

    def check(self) -> None:
        """Say in place what stands in the way of retouching, and allow it where nothing does."""
        if self.session is not None:
            return
        try:
            subject = self._read_subject()
        except QmcifError as error:
            self.start_button.setEnabled(False)
            self.message.say(str(error))
            self.sources_fold.set_remark("")
        else:
            self.start_button.setEnabled(True)
            self.message.say("")
            self.sources_fold.set_remark(f": {subject.stack.title}")
            self._list_images(subject)

    def toggle(self) -> None:
        """Start retouching, or end it."""
        if self.session is not None:
            self.session.end()
            return
        try:
            subject = self._read_subject()
            session = RetouchSession(self._viewer, subject)
        except QmcifError as error:
            self.message.complain(error)
            return
        session.failed.connect(self.message.complain)
        session.ended.connect(self._on_end)
        session.labels.events.selected_label.connect(self._show_label)
        self.session = session
        self.image_box.setCurrentIndex(1)
        self._choose_image()
        self._show_state()
        self.message.say(HINT)

    def shut_down(self) -> None:
        """End retouching and let go of the viewer."""
        if self.session is not None:
            self.session.end()
        super().shut_down()

    def _read_subject(self) -> RetouchSubject:
        return assemble_subject(self.sources.choose(), fused=self.result_box.layer, index=self.index_box.layer)

    def _list_images(self, subject: RetouchSubject) -> None:
        """Offer the images by number, with the colors of their labels."""
        stack = subject.stack
        names = [layer.name for layer in stack.layers] if stack.axis is None else [f"plane {n}" for n in range(stack.n_images)]
        colors = color_sources(stack.n_images).color_dict
        self.image_box.clear()
        self.image_box.addItem("0: let the engine decide")
        for number, name in enumerate(names, start=1):
            swatch = QPixmap(16, 16)
            swatch.fill(QColor.fromRgbF(*(float(part) for part in colors[number])))
            self.image_box.addItem(QIcon(swatch), f"{number}: {name}")

    def _choose_image(self) -> None:
        if self.session is not None and self.image_box.currentIndex() >= 0:
            self.session.labels.selected_label = self.image_box.currentIndex()

    def _show_label(self, event: Any = None) -> None:  # noqa: ANN401 - napari's events
        if self.session is not None:
            self.image_box.setCurrentIndex(int(self.session.labels.selected_label))

    def _on_end(self, reason: str) -> None:
        if self.session is not None:
            self.session.labels.events.selected_label.disconnect(self._show_label)
        self.session = None
        self._show_state()
        self.check()
        if reason:
            self.message.say(reason)

    def _on_layers(self, event: Any = None) -> None:  # noqa: ANN401 - napari's events
        self.sources.refresh_layers()
        self.index_box.refresh_layers()
        self.result_box.refresh_layers()
        self.check()

    def _show_state(self) -> None:
        is_active = self.session is not None
        self.start_button.setText("Stop" if is_active else "Start")
        for choice in (self.result_box, self.index_box, self.sources_fold):
            choice.setEnabled(not is_active)
        for tool in (self.image_box, self.clear_button):
            tool.setEnabled(is_active)

    def _take_back(self) -> None:
        if self.session is not None:
            self.session.take_back()

    def _connect(self) -> None:
        self.follow_layers(self._on_layers)
        self.result_box.currentIndexChanged.connect(self.find_parts)
        self.index_box.currentIndexChanged.connect(self.check)
        self.sources.changed.connect(self.check)
        self.start_button.clicked.connect(self.toggle)
        self.image_box.currentIndexChanged.connect(self._choose_image)
        self.clear_button.clicked.connect(self._take_back)
        self._show_state()

    def _arrange(self) -> None:
        form = QFormLayout()
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapAllRows)
        form.addRow("Result", self.result_box)
        form.addRow("Source index", self.index_box)
        paint = QFormLayout()
        paint.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapAllRows)
        paint.addRow("Paint with", self.image_box)
        layout = QVBoxLayout(self)
        layout.addLayout(form)
        layout.addWidget(self.sources_fold)
        layout.addWidget(self.start_button)
        layout.addLayout(paint)
        layout.addWidget(self.clear_button)
        layout.addWidget(self.message)
        layout.addStretch()
