"""Evaluate a fusion: how much of its sources, and of the truth where it is known, the picture keeps."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from napari.utils.theme import get_theme
from napari.viewer import Viewer
from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QFileDialog,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QProgressBar,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from napari_qmcif.bar_plot import BarPlot
from napari_qmcif.docked_widget import DockedWidget
from napari_qmcif.evaluating import EvaluationRequest, assemble_request, evaluate_layers
from napari_qmcif.figure_table import FigureTable, is_decibel
from napari_qmcif.fold import Fold
from napari_qmcif.layer_box import LayerBox, is_picture
from napari_qmcif.layer_choice import LayerChoice
from napari_qmcif.message_label import MessageLabel
from napari_qmcif.retouch_subject import find_sources
from napari_qmcif.table_file import write_table
from napari_qmcif.worker import BackgroundJob
from qmcif_engine import QmcifError


class EvaluationWidget(DockedWidget):
    """Choose sources, result and truth; read the figures, see them as bars, keep them as CSV."""

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__(napari_viewer)
        self._job: BackgroundJob | None = None
        self._figures: dict[str, float] = {}
        self._judged = ""
        self.sources = LayerChoice(napari_viewer)
        self.sources_fold = Fold("Sources", self.sources)
        self.result_box = LayerBox(napari_viewer, fits=is_picture)
        self.truth_box = LayerBox(napari_viewer, fits=is_picture, none_text="none")
        self.truth_box.setToolTip("The scene with everything in focus, where it is known")
        self.evaluate_button, self.cancel_button = QPushButton("Evaluate"), QPushButton("Cancel")
        self.progress_bar, self.message = QProgressBar(), MessageLabel()
        self.table, self.plot = FigureTable(), BarPlot()
        self.export_button = QPushButton("Export as CSV …")
        self._arrange()
        self._connect()
        self._follow_theme()
        self.find_sources()
        if not self.sources.selected_layers():
            self.sources_fold.button.click()
        self._show_state()

    @property
    def is_running(self) -> bool:
        """Whether an evaluation is under way."""
        return self._job is not None

    @property
    def figures(self) -> dict[str, float]:
        """The figures shown, by symbol."""
        return dict(self._figures)

    def find_sources(self) -> None:
        """Choose the sources that the result says it was made from."""
        stack = None if self.result_box.layer is None else find_sources(self.result_box.layer, list(self._viewer.layers))
        if stack is not None:
            self.sources.select_layers(stack.layers)
        self.check()

    def check(self) -> None:
        """Say in place what stands in the way, and allow the evaluation where nothing does."""
        try:
            request = self._read_request()
        except QmcifError as error:
            self.sources_fold.set_remark("")
            self.evaluate_button.setEnabled(False)
            self.message.say(str(error))
        else:
            self.sources_fold.set_remark(f": {request.stack.title}")
            self.evaluate_button.setEnabled(not self.is_running)
            self.message.say(request.note)

    def start(self) -> None:
        """Evaluate in a thread of its own."""
        try:
            request = self._read_request()
        except QmcifError as error:
            self.message.say(str(error))
            return
        job = BackgroundJob(partial(evaluate_layers, request), owner=self)
        job.progressed.connect(self._show_step)
        job.returned.connect(self._show_figures)
        job.failed.connect(self.message.complain)
        job.ended.connect(self._end)
        self._job = job
        self.progress_bar.setRange(0, 0)
        self._show_state()
        job.start()

    def cancel(self) -> None:
        """Ask the evaluation to stop."""
        if self._job is not None:
            self._job.cancel()

    def export(self, path: Path) -> None:
        """Write the figures as CSV: one row a figure, the first column names the result."""
        rows = [("result", "metric", "value"), *((self._judged, symbol, repr(figure)) for symbol, figure in self._figures.items())]
        try:
            write_table(path, rows)
        except OSError as error:
            self.message.complain(error)
        else:
            self.message.say(f"written to {path.name}")

    def shut_down(self) -> None:
        """Stop what runs and let go of the viewer."""
        self.cancel()
        super().shut_down()

    def _read_request(self) -> EvaluationRequest:
        return assemble_request(self.sources.choose(), result=self.result_box.layer, truth=self.truth_box.layer)

    def _show_step(self, done: int, total: int) -> None:
        self.progress_bar.setRange(0, total)
        self.progress_bar.setValue(done)

    def _show_figures(self, judged: tuple[str, dict[str, float]]) -> None:
        self._judged, self._figures = judged
        self.table.show_figures(self._figures)
        self.plot.show_figures({symbol: figure for symbol, figure in self._figures.items() if not is_decibel(symbol)})

    def _end(self) -> None:
        self._job = None
        self._show_state()
        self.check()

    def _show_state(self) -> None:
        self.cancel_button.setEnabled(self.is_running)
        self.progress_bar.setVisible(self.is_running)
        self.export_button.setEnabled(bool(self._figures))
        if self.is_running:
            self.evaluate_button.setEnabled(False)

    def _ask_export(self) -> None:
        name, _ = QFileDialog.getSaveFileName(self, "Write the figures to", "evaluation.csv", "CSV (*.csv)")
        if name:
            self.export(Path(name))

    def _on_layers(self, event: Any = None) -> None:  # noqa: ANN401 - napari's events
        self.sources.refresh_layers()
        self.truth_box.refresh_layers()
        self.result_box.refresh_layers()
        self.check()

    def _follow_theme(self, event: Any = None) -> None:  # noqa: ANN401 - napari's events
        theme = get_theme(self._viewer.theme)
        self.plot.set_colors(text=theme.text.as_hex(), bar=theme.current.as_hex(), ground=theme.foreground.as_hex())

    def _connect(self) -> None:
        self.follow_layers(self._on_layers)
        self.follow(self._viewer.events.theme, self._follow_theme)
        self.sources.changed.connect(self.check)
        self.result_box.currentIndexChanged.connect(self.find_sources)
        self.truth_box.currentIndexChanged.connect(self.check)
        self.evaluate_button.clicked.connect(self.start)
        self.cancel_button.clicked.connect(self.cancel)
        self.export_button.clicked.connect(self._ask_export)

    def _arrange(self) -> None:
        form = QFormLayout()
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapAllRows)
        form.addRow("Result", self.result_box)
        form.addRow("Truth", self.truth_box)
        buttons = QHBoxLayout()
        buttons.addWidget(self.evaluate_button)
        buttons.addWidget(self.cancel_button)
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 0, 4, 0)
        column.addLayout(form)
        column.addWidget(self.sources_fold)
        column.addLayout(buttons)
        for part in (self.progress_bar, self.message, self.table, self.plot, self.export_button):
            column.addWidget(part)
        column.addStretch()
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(content)
        QVBoxLayout(self).addWidget(scroll)
