"""Evaluation of fusions: how much of their sources, and of the truth where it is known, the images keep."""

import csv
import io
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from magicgui import magic_factory
from magicgui.widgets import Container, FunctionGui, PushButton
from napari.layers import Layer
from napari.viewer import Viewer
from qtpy.QtWidgets import QFileDialog

from napari_qmcif.aligning import align_images
from napari_qmcif.bar_plot import BarPlot
from napari_qmcif.chosen_stack import ChosenStack, drop_opacity, lazy_level
from napari_qmcif.form_parts import make_table
from napari_qmcif.layer_box import FusedImage, OptionalImage, Sources, shorten_list
from napari_qmcif.preferences import write_text
from napari_qmcif.provenance import read_record
from napari_qmcif.result_parts import choose_sources, find_place, find_shown_sources, find_sources, name_place, prepare_alike
from napari_qmcif.work_row import WorkRow
from napari_qmcif.worker import EngineWorker, Progress, make_worker
from qmcif_engine import InvalidImageError, QmcifError, evaluate

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


class EvaluationRequest(NamedTuple):
    """What is to be judged, what counts as black and white where the type of the samples leaves that open, and what to tell the user."""

    name: str
    stack: ChosenStack
    result: Any
    truth: Any
    sample_range: tuple[float, float] | None
    note: str = ""


def assemble_request(stack: ChosenStack, *, result: Layer, truth: Layer | None, point: Sequence[float] = ()) -> EvaluationRequest:
    """Return the request, once everything is known to be of one size and type.

    Of a result with several images, such as one per time point, the one at a point of the world is judged.
    Floats have no black and white of their own: what the result's layer shows as such is taken.
    """
    place, judged = find_place(result, point), {}
    for layer in (result, truth):
        if layer is None:
            continue
        array = judged[layer] = lazy_level(layer)[find_place(layer, point)]
        if array.shape[:2] != stack.size_px or bool(layer.rgb) != stack.is_color or array.dtype != stack.stored_dtype:
            msg = (
                f"{layer.name!r} is {array.dtype} of shape {array.shape}, "
                f"the sources are {stack.stored_dtype} of {stack.size_px} pixels; "
                "equal ones are needed: choose the images that were fused"
            )
            raise InvalidImageError(msg)
    low, high = (float(bound) for bound in result.contrast_limits)
    # such types are rarely filled: what the layer shows as black and white is meant
    sample_range = (low, high) if stack.dtype.kind == "f" or stack.dtype == np.uint32 else None
    name = f"{result.name}{name_place(result, place)}"
    return EvaluationRequest(name, stack, judged[result], judged.get(truth), sample_range, _note_alignment(result, stack))


def evaluate_layers(request: EvaluationRequest, *, job: EngineWorker) -> tuple[str, dict[str, float]]:
    """Return the name of the result and its figures by symbol; those that need a truth there is none of are left out."""

    def report(progress: Progress) -> None:
        # the evaluation asks nobody whether to go on; between its steps this does
        job.check_cancelled()
        job.report(progress)

    images = request.stack.cut_images()
    if request.stack.is_prepared:
        # as the result was made: moved images would lower all of its figures
        images = list(align_images(images, request.stack, job=job).to_dask())
    sources = [drop_opacity(image) for image in images]
    truth = None if request.truth is None else drop_opacity(request.truth).astype(request.stack.dtype)
    result = drop_opacity(request.result).astype(request.stack.dtype)
    scores = evaluate(sources, result, truth=truth, sample_range=request.sample_range, progress=report)
    return request.name, {symbol: figure for symbol, figure in scores.list_by_symbol().items() if figure is not None}


def _note_alignment(result: Layer, stack: ChosenStack) -> str:
    """Return a warning where a result of aligned images is compared with images that are not."""
    record = read_record(result)
    was_moved = record.get("align", "none") != "none" or record.get("has_transforms") is True
    note = "the images were aligned to make this result; it is compared with them as they are, so the figures are low"
    return note if was_moved and not stack.is_prepared else ""


TABLE_HEIGHT_PX = 110


@magic_factory(call_button="Evaluate")
def evaluate_fusion(napari_viewer: Viewer, result: FusedImage, sources: Sources, truth: OptionalImage = None) -> EngineWorker:
    """Evaluate a fused image against its sources, and against the truth where it is known.

    Parameters
    ----------
    napari_viewer : napari.Viewer
    result : napari.layers.Image
        The fused image.
    sources : list of napari.layers.Image
        What it was made from: images, or one stack.
    truth : napari.layers.Image, optional
        The scene with everything in focus, where it is known.

    Returns
    -------
    EngineWorker
        Under way; its signal `returned` passes the name of the result and its figures by symbol.
    """
    worker = make_worker(evaluate_layers, _assemble(napari_viewer, result, sources, truth))
    worker.start()
    return worker


def _assemble(viewer: Viewer, result: Any, sources: Any, truth: Any) -> EvaluationRequest:  # noqa: ANN401 - layers
    if result is None:
        msg = "no result is chosen; the fused image is needed: fuse a stack first, or choose a layer"
        raise InvalidImageError(msg)
    point = viewer.dims.point
    stack = find_shown_sources(result, viewer)
    # a person may have chosen others than those of the record
    if stack is None or list(stack.layers) != list(sources):
        stack = choose_sources(sources, point=point)
    else:
        with suppress(InvalidImageError):  # where it cannot be done any more, a note says so
            stack = prepare_alike(stack, result)
    return assemble_request(stack, result=result, truth=truth, point=point)


class EvaluationWidget(Container[Any]):
    """The form of `evaluate_fusion` with the figures as bars and as a table of all results, and their export."""

    def __init__(self, napari_viewer: Viewer) -> None:
        self._viewer = napari_viewer
        self.figures: dict[str, dict[str, float]] = {}
        self.form: FunctionGui[..., Any] = evaluate_fusion(call_button=False)
        self.row, self.plot, self.table = WorkRow(self.form, text="Evaluate"), BarPlot(), make_table(TABLE_HEIGHT_PX)
        self.plot.setToolTip("\n".join(f"{symbol}: {meaning}" for symbol, meaning in MEANINGS.items()))
        self.export_button = PushButton(text="Export as CSV …")
        super().__init__(widgets=[self.form, self.row, self.table, self.export_button], labels=False)
        self.native.layout().addWidget(self.plot)
        self.export_button.visible = False
        shorten_list(self.form.sources)
        self.form.margins = (0, 0, 0, 0)
        self.form.result.changed.connect(self.find_sources)
        for part in (self.form.sources, self.form.truth):
            part.changed.connect(self.check)
        self.form.called.connect(lambda worker: worker.returned.connect(self._show))
        self.export_button.changed.connect(self._ask_export)

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
        """Report in place what stands in the way, and allow the evaluation where nothing does."""
        form = self.form
        try:
            request = _assemble(self._viewer, form.result.value, form.sources.value, form.truth.value)
        except QmcifError as error:
            self.row.forbid(str(error))
        else:
            self.row.allow(request.note)

    def export(self, path: Path) -> None:
        """Write the figures as CSV: one row a figure, the first column names the result."""
        table = io.StringIO()
        # all digits: only the screen rounds
        rows = [(name, symbol, repr(figure)) for name, figures in self.figures.items() for symbol, figure in figures.items()]
        csv.writer(table, lineterminator="\n").writerows([("result", "metric", "value"), *rows])
        try:
            write_text(path, table.getvalue())
        except OSError as error:
            self.row.message.complain(error)
        else:
            self.row.message.say(f"written to {path.name}")

    def _show(self, judged: tuple[str, dict[str, float]]) -> None:
        name, figures = judged
        self.figures[name] = figures
        self.plot.follow_theme(self._viewer.theme)
        self.plot.show_figures(
            {symbol: figure for symbol, figure in figures.items() if not symbol.startswith("PSNR")}
        )  # decibels are no shares
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
