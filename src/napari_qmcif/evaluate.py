"""Evaluation of fusions: how much of their sources, and of the truth where it is known, the images keep."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from magicgui.widgets import PushButton
from napari.layers import Layer
from napari.viewer import Viewer
from qtpy.QtWidgets import QFileDialog

from napari_qmcif import layers_out as out
from napari_qmcif.aligning import align_images, drop_opacity
from napari_qmcif.form_parts import BarPlot, LayerBox, StackBox, make_table
from napari_qmcif.layers_in import ChosenStack, lazy_level
from napari_qmcif.preferences import write_text
from napari_qmcif.work_row import Page, WorkRow
from napari_qmcif.worker import EngineWorker
from qmcif_engine import FusionProgress, InvalidImageError, evaluate

MEANINGS = {
    "Q_MI": "mutual information kept from the sources",
    "Q_G": "gradients kept from the sources",
    "Q_P": "phase congruency kept from the sources",
    "Q_E": "edge-dependent similarity to the sources",
    "Q_Y": "structural similarity to the sources",
    "Q_CB": "contrast kept, as the eye sees it",
    "PSNR": "peak signal-to-noise ratio against the truth",
    "PSNR_inner": "the same without a border of 8 px",
    "SSIM": "structural similarity of the gray levels to the truth",
    "Q_SSIM": "quaternion structural similarity of the colors to the truth",
}
TABLE_HEIGHT_PX = 110


class EvaluationRequest(NamedTuple):
    """What is evaluated, the samples of black and white where their type leaves that open, and a note for the user."""

    name: str
    stack: ChosenStack
    result: Any
    truth: Any
    sample_range: tuple[float, float] | None
    note: str = ""


def assemble_request(stack: ChosenStack, *, result: Layer, truth: Layer | None, point: Sequence[float] = ()) -> EvaluationRequest:
    """Return the request, once everything is known to be of one size and type.

    Of a result with several images, such as one per time point, the one at a point of the world is evaluated.
    Floats have no black and white of their own: what the result's layer shows as such is taken.
    """
    samples = {layer: lazy_level(layer)[out.find_place(layer, point)] for layer in (result, truth) if layer is not None}
    for layer, array in samples.items():
        if array.shape[:2] != stack.size_px or bool(layer.rgb) != stack.is_color or array.dtype != stack.stored_dtype:
            msg = (
                f"{layer.name!r} is {array.dtype} of shape {array.shape}, the sources are {stack.stored_dtype} of {stack.size_px} pixels; "
                "equal ones are needed: choose the images that were fused"
            )
            raise InvalidImageError(msg)
    low, high = (float(bound) for bound in result.contrast_limits)
    # such types are rarely filled: what the layer shows as black and white is meant
    sample_range = (low, high) if stack.dtype.kind == "f" or stack.dtype == np.uint32 else None
    record = out.read_record(result)
    was_moved = record.get("align", "none") != "none" or record.get("has_transforms") is True
    note = "the images were aligned to make this result; it is compared with them as they are, so the figures are low"
    name = f"{result.name}{out.name_place(result, out.find_place(result, point))}"
    return EvaluationRequest(
        name, stack, samples[result], samples.get(truth), sample_range, note if was_moved and not stack.is_prepared else ""
    )


def evaluate_layers(request: EvaluationRequest, *, job: EngineWorker) -> tuple[str, dict[str, float]]:
    """Return the name of the result and its figures by symbol; those that need a truth there is none of are left out."""

    def report(progress: Any) -> None:  # noqa: ANN401 - steps of the evaluation
        # the evaluation itself has no other way to be cancelled
        job.check_cancelled()
        job.report(FusionProgress(progress.done, progress.total))

    images = request.stack.cut_images()
    if request.stack.is_prepared:
        # as the result was made: moved images would lower all of its figures
        images = list(align_images(images, request.stack, job=job).to_dask())
    sources = [drop_opacity(image) for image in images]
    truth = None if request.truth is None else drop_opacity(request.truth).astype(request.stack.dtype)
    result = drop_opacity(request.result).astype(request.stack.dtype)
    scores = evaluate(sources, result, truth=truth, sample_range=request.sample_range, progress=report)
    return request.name, {symbol: figure for symbol, figure in scores.list_by_symbol().items() if figure is not None}


class EvaluateWidget(Page):
    """Choice of a result, with the figures as bars and as a table of all results, and their export."""

    def __init__(self, napari_viewer: Viewer) -> None:
        self.figures: dict[str, dict[str, float]] = {}
        self.result = LayerBox(napari_viewer, out.is_fused_or_flat, label="Result")
        self.sources = StackBox(napari_viewer, label="Sources", tooltip="What it was made from: images, or one stack")
        tip = "The scene with everything in focus, where it is known"
        self.truth = LayerBox(napari_viewer, out.is_fused_or_flat, label="Truth", nullable=True, tooltip=tip)
        self.plot, self.table = BarPlot(), make_table(TABLE_HEIGHT_PX)
        self.plot.setToolTip("\n".join(f"{symbol}: {meaning}" for symbol, meaning in MEANINGS.items()))
        self.export_button = PushButton(text="Export as CSV …", visible=False)
        shown = [self.table.native, self.export_button.native, self.plot]
        super().__init__(napari_viewer, [self.result, self.sources, self.truth], WorkRow(self._make_work, text="Evaluate"), *shown)
        self.result.changed.connect(self.find_sources)
        for part in (self.sources, self.truth):
            part.changed.connect(self.check)
        self.export_button.changed.connect(self._ask_export)
        self.find_sources()

    def reset_choices(self, *_: Any) -> None:  # noqa: ANN401 - events
        """Offer the layers there are now."""
        super().reset_choices()
        self.find_sources()

    def find_sources(self) -> None:
        """Choose the sources that the result was made from according to its record."""
        self.sources.choose_sources(self.result.value)
        self.check()

    def check(self) -> None:
        """Report in place what stands in the way, and allow the evaluation where nothing does."""
        self.row.check(lambda: self._assemble().note)

    def export(self, path: Path) -> None:
        """Write the figures as CSV: one row a figure, the first column names the result."""
        table = io.StringIO()
        # all digits: only the screen rounds
        rows = [(name, symbol, repr(figure)) for name, figures in self.figures.items() for symbol, figure in figures.items()]
        csv.writer(table, lineterminator="\n").writerows([("result", "metric", "value"), *rows])
        try:
            write_text(path, table.getvalue())
        except OSError as error:
            self.row.message.show_error(error)
        else:
            self.row.message.show_text(f"written to {path.name}")

    def _assemble(self) -> EvaluationRequest:
        result = self.result.value
        if result is None:
            msg = "no result is chosen; the fused image is needed: fuse a stack first, or choose a layer"
            raise InvalidImageError(msg)
        stack, is_recorded = out.choose_sources(result, self.sources.value, self._viewer)
        if is_recorded:
            with suppress(InvalidImageError):  # where it cannot be done any more, a note is shown
                stack = out.prepare_alike(stack, result)
        return assemble_request(stack, result=result, truth=self.truth.value, point=self._viewer.dims.point)

    def _make_work(self) -> EngineWorker:
        return EngineWorker(evaluate_layers, self._assemble(), on_return=self._show)

    def _show(self, found: tuple[str, dict[str, float]]) -> None:
        name, figures = found
        self.figures[name] = figures
        # decibels are no shares
        self.plot.show_figures({symbol: figure for symbol, figure in figures.items() if not symbol.startswith("PSNR")})
        # results without a truth have fewer figures; their cells stay empty
        symbols = list(dict.fromkeys(symbol for known in self.figures.values() for symbol in known))
        cells = [[f"{known[symbol]:.4g}" if symbol in known else "" for symbol in symbols] for known in self.figures.values()]
        self.table.value = {"data": cells, "index": tuple(self.figures), "columns": tuple(symbols)}
        self.table.native.resizeColumnsToContents()
        self.table.visible = self.export_button.visible = True

    def _ask_export(self) -> None:
        name, _ = QFileDialog.getSaveFileName(self.native, "Write the figures to", "evaluation.csv", "CSV (*.csv)")
        if name:
            self.export(Path(name))
