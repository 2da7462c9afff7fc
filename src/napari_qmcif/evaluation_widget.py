"""Evaluation of fusions: how much of their sources, and of the truth where it is known, the pictures keep."""

from pathlib import Path
from typing import Any

from magicgui import magic_factory
from magicgui.widgets import Container, FunctionGui, PushButton, Table
from napari.viewer import Viewer
from qtpy.QtWidgets import QFileDialog

from napari_qmcif.bar_plot import BarPlot
from napari_qmcif.closing import call_when_closed
from napari_qmcif.evaluating import MEANINGS, EvaluationRequest, assemble_request, evaluate_layers, is_decibel
from napari_qmcif.layer_types import OptionalPicture, Picture, Sources, shorten_list
from napari_qmcif.result_parts import choose_sources, find_sources
from napari_qmcif.table_file import write_table
from napari_qmcif.wheel import calm_wheel
from napari_qmcif.work_row import WorkRow
from napari_qmcif.worker import EngineWorker, make_worker
from qmcif_engine import QmcifError

TABLE_HEIGHT_PX = 110


@magic_factory(
    call_button="Evaluate",
    result={"label": "Result"},
    sources={"label": "Sources"},
    truth={"label": "Truth", "tooltip": "The scene with everything in focus, where it is known"},
)
def evaluate_fusion(napari_viewer: Viewer, result: Picture, sources: Sources, truth: OptionalPicture = None) -> EngineWorker:
    """Evaluate a fused picture against its sources, and against the truth where it is known.

    Parameters
    ----------
    napari_viewer : napari.Viewer
    result : napari.layers.Image
        The fused picture.
    sources : list of napari.layers.Image
        What it was made from: pictures, or one stack.
    truth : napari.layers.Image, optional

    Returns
    -------
    EngineWorker
        Under way; its signal `returned` passes the name of the result and its figures by symbol.
    """
    worker = make_worker(evaluate_layers, _assemble(napari_viewer, result, sources, truth))
    worker.start()
    return worker


def _assemble(viewer: Viewer | None, result: Any, sources: Any, truth: Any) -> EvaluationRequest:  # noqa: ANN401 - layers
    stack = None if result is None or viewer is None else find_sources(result, list(viewer.layers))
    if stack is None or list(stack.layers) != list(sources):
        stack = choose_sources(sources, point=() if viewer is None else viewer.dims.point)
    return assemble_request(stack, result=result, truth=truth)


class EvaluationWidget(Container[Any]):
    """The form of `evaluate_fusion` with the figures as bars and as a table of all results, and their export.

    Parameters
    ----------
    napari_viewer : napari.Viewer
    """

    def __init__(self, napari_viewer: Viewer) -> None:
        self._viewer = napari_viewer
        self.figures: dict[str, dict[str, float]] = {}
        self.form: FunctionGui[..., Any] = evaluate_fusion(call_button=False)
        self.row, self.plot, self.table = WorkRow(self.form, text="Evaluate"), BarPlot(), Table()
        self.plot.setToolTip("\n".join(f"{symbol}: {meaning}" for symbol, meaning in MEANINGS.items()))
        self.table.native.setFixedHeight(TABLE_HEIGHT_PX)
        self.export_button = PushButton(text="Export as CSV …")
        super().__init__(widgets=[self.form, self.row, self.table, self.export_button], labels=False)
        self.native.layout().addWidget(self.plot)
        self.native.layout().addStretch()
        self.table.visible = self.export_button.visible = False
        shorten_list(self.form.sources)
        self.form.margins = (0, 0, 0, 0)
        self.form.result.changed.connect(self.find_sources)
        for part in (self.form.sources, self.form.truth):
            part.changed.connect(self.check)
        self.form.called.connect(lambda worker: worker.returned.connect(self._show))
        self.export_button.changed.connect(self._ask_export)
        calm_wheel(self.native)
        call_when_closed(self.native, self.shut_down)

    def reset_choices(self, *_: Any) -> None:  # noqa: ANN401 - events
        """Offer the layers there are now."""
        super().reset_choices()
        if self.form.sources.value:
            self.check()
        else:
            self.find_sources()

    def shut_down(self) -> None:
        """Stop what runs."""
        self.row.cancel()

    def find_sources(self) -> None:
        """Choose the sources that the result says it was made from."""
        result = self.form.result.value
        stack = None if result is None else find_sources(result, list(self._viewer.layers))
        if stack is not None:
            self.form.sources.value = list(stack.layers)
        self.check()

    def check(self) -> None:
        """Say in place what stands in the way, and allow the evaluation where nothing does."""
        form = self.form
        try:
            request = _assemble(self._viewer, form.result.value, form.sources.value, form.truth.value)
        except QmcifError as error:
            self.row.allow(str(error))
        else:
            self.row.allow(note=request.note)

    def export(self, path: Path) -> None:
        """Write the figures as CSV: one row a figure, the first column names the result."""
        rows = [(name, symbol, repr(figure)) for name, figures in self.figures.items() for symbol, figure in figures.items()]
        try:
            write_table(path, [("result", "metric", "value"), *rows])
        except OSError as error:
            self.row.message.complain(error)
        else:
            self.row.message.say(f"written to {path.name}")

    def _show(self, judged: tuple[str, dict[str, float]]) -> None:
        name, figures = judged
        self.figures[name] = figures
        self.plot.follow_theme(self._viewer.theme)
        self.plot.show_figures({symbol: figure for symbol, figure in figures.items() if not is_decibel(symbol)})
        symbols = list(dict.fromkeys(symbol for known in self.figures.values() for symbol in known))
        cells = [[f"{known[symbol]:.4g}" if symbol in known else "" for symbol in symbols] for known in self.figures.values()]
        self.table.value = {"data": cells, "index": tuple(self.figures), "columns": tuple(symbols)}
        self.table.native.resizeColumnsToContents()
        self.table.visible = self.export_button.visible = True

    def _ask_export(self) -> None:
        name, _ = QFileDialog.getSaveFileName(self.native, "Write the figures to", "evaluation.csv", "CSV (*.csv)")
        if name:
            self.export(Path(name))
