"""The form that fuses: images, alignment and Run; everything else in a fold that is built when it is opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from magicgui.widgets import Container, FileEdit, PushButton, create_widget
from napari.viewer import Viewer
from qtpy.QtCore import QTimer
from qtpy.QtGui import QGuiApplication
from qtpy.QtWidgets import QLabel, QVBoxLayout, QWidget

from napari_qmcif.aligning import Advice, advise, make_aligned_layer
from napari_qmcif.clipboard import options_of, write_command, write_python
from napari_qmcif.form_parts import StackBox, group, make_fold, make_scroll
from napari_qmcif.fusing import FusionRequest, choose_images, choose_target, run_fusion
from napari_qmcif.layers_in import ChosenStack, StackSeries, choose_series, finest_level, guess_focus_axis, list_axes
from napari_qmcif.layers_out import add_layers, find_sources, number_run, part_of, prepare_alike, read_record
from napari_qmcif.preferences import EACH, SHOWN, RunOptions, keep, load_kept
from napari_qmcif.preview import PreviewPanel
from napari_qmcif.settings_form import SettingsForm, find_closest_preset
from napari_qmcif.work_row import WorkRow
from napari_qmcif.worker import DockEntry, EngineWorker
from qmcif_engine import FusionConfig, InvalidImageError, QmcifError

GONE, KEPT = "cancelled; nothing was added", "cancelled; the finished tiles are kept, and Run goes on from there"
ADVICE_MILLISECONDS = 500
LARGEST_ADVISED_SAMPLES = 10**9
"""A larger stack is not read unasked."""

OPAQUE = ("opaque", "translucent", "translucent_no_depth")

SESSIONS: WeakKeyDictionary[Any, SimpleNamespace] = WeakKeyDictionary()
"""The options in the form of each viewer, and the run that is under way, for the next time the dock is opened."""


class FuseWidget(Container[Any]):
    """Images, Align, Run and advice, which are always seen, and a fold with all settings, which scrolls below them."""

    def __init__(self, napari_viewer: Viewer) -> None:
        self._viewer = napari_viewer
        key = getattr(napari_viewer, "__wrapped__", napari_viewer)
        self._session = SESSIONS.setdefault(key, SimpleNamespace(options=RunOptions(), worker=None))
        tip = "The images of one scene: what is selected in the layer list, or another stack"
        self.images = StackBox(napari_viewer, label="Images", name="images", tooltip=tip)
        self.boxes: dict[str, Any] = {}
        align = self._make_box("align")
        self.settings = SettingsForm()
        kept = load_kept()
        if kept is not None:
            self.settings.show_config(kept)
        self.row = WorkRow(self._make_work, text="Run", tooltip="Fuse the whole image (Ctrl+R); Esc cancels")
        self.preview = PreviewPanel(
            napari_viewer, choose=self.choose_shown, read_config=self.settings.read_config, message=self.row.message
        )
        self.advice_button = PushButton(text="Align and run", visible=False)
        self.aligned_button = PushButton(text="Show the images as they are fused")
        self.aligned_button.tooltip = "Add the aligned and evened out images as a layer; they are moved where you look"
        tip = "Copy a script for napari's console: of the selected result, else of the form"
        self.python_button = PushButton(text="Copy Python", tooltip=tip)
        self.command_button = PushButton(text="Copy command", tooltip="The same as a command line; the layers must come from files")
        super().__init__(widgets=[self.images, align], labels=True)
        self.row.native.layout().addWidget(self.advice_button.native)
        self.fold = make_fold("Settings", self._build_settings)
        settings = QWidget()
        column = QVBoxLayout(settings)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.fold)
        column.addStretch()
        self.native.layout().addWidget(self.row.native)
        self.native.layout().addWidget(make_scroll(settings), 1)
        self._advice = Advice("", {})
        self._adviser: EngineWorker | None = None
        self._timer = QTimer(self.native)
        self._timer.setSingleShot(True)
        self._timer.setInterval(ADVICE_MILLISECONDS)
        self._connect()
        self.reset_choices()
        self._timer.start()
        if self._session.worker is not None:
            self.row.follow(self._session.worker)

    @property
    def run_options(self) -> RunOptions:
        """The options of a run as they stand."""
        options: RunOptions = self._session.options
        return options

    def set_options(self, **changes: Any) -> None:  # noqa: ANN401 - fields of `RunOptions`
        """Change options, and show them where they have a box."""
        self._session.options = replace(self.run_options, **changes)
        for name, value in changes.items():
            if name in self.boxes:
                with self.boxes[name].changed.blocked():
                    self.boxes[name].value = value
        self._on_change()

    def choose(self) -> StackSeries:
        """Return what is chosen; refuse what cannot be fused."""
        return choose_images(self.images.value, self.run_options, point=self._viewer.dims.point)

    def choose_shown(self) -> ChosenStack:
        """Return the one stack that the sliders show, for a preview."""
        series = self.choose()
        if not series.keeps_axes:
            return series.first
        shown = replace(self.run_options, scope=SHOWN, decide_by=EACH)
        return choose_images(self.images.value[:1], shown, point=self._viewer.dims.point).first

    def check(self) -> None:
        """Report in place what stands in the way of a run, and allow it where nothing does."""
        self.row.check(self._describe)

    def _describe(self) -> str:
        """Return what is fused, in words; refuse what cannot be."""
        series = self.choose()
        self.settings.read_config()
        choose_target(self.run_options, series)
        n_channels, n_points = len(series.titles), series.n_points
        words = [series.first.note] * bool(series.first.note)
        if n_channels * n_points > 1:
            places = [f"{n_channels} channels"] * (n_channels > 1) + [f"{n_points} time points"] * (n_points > 1)
            words.append(f"{n_channels * n_points} stacks of {series.first.n_images} images are fused: {', '.join(places)}")
        return "; ".join(words)

    def run(self) -> None:
        """Fuse what is chosen with the present settings; a run that is under way goes on."""
        self.row.start()

    def reset_choices(self, *_: Any) -> None:  # noqa: ANN401 - napari's events
        """Follow the layers of the viewer and their selection."""
        active = self._viewer.layers.selection.active
        made_from = find_sources(active, list(self._viewer.layers)) if active is not None and part_of(active) == "fused" else None
        self.images.choose_obvious(() if made_from is None else made_from.layers)
        self.preview.area_box.reset_choices()
        self.check()

    def shut_down(self) -> None:
        """Let go of the viewer; a run goes on, and is seen in napari's activity dock."""
        self.preview.shut_down()
        self._stop_advice()
        self.row.leave()
        self._viewer.dims.events.current_step.disconnect(self._on_sliders)
        self._viewer.layers.selection.events.changed.disconnect(self.reset_choices)

    def _make_work(self) -> EngineWorker | None:
        self.check()
        if not self.row.is_allowed:
            return None
        self._stop_advice()
        self.preview.stop()
        series, config = self.choose(), self.settings.read_config()
        request = FusionRequest(series=series, config=config, options=self.run_options, target=choose_target(self.run_options, series))
        # kept when they are used: what was only tried out is not brought back
        keep(config)
        number = number_run(series.titles, taken=[layer.name for layer in self._viewer.layers])
        finish = partial(_finish, self._viewer, series)
        worker = EngineWorker(run_fusion, request, number, on_return=finish, is_waited_for=request.target is not None)
        # one step an image and one for the decision
        worker.steps_a_tile, worker.if_cancelled = series.first.n_images + 1, KEPT if worker.is_waited_for else GONE
        # kept alive by the signals of the worker
        DockEntry(worker, title=f"Fusing {series.titles[0]}")
        # the window of the viewer, not the dock: a run goes on when that is closed
        self.native.window().destroyed.connect(worker.cancel)
        worker.finished.connect(partial(setattr, self._session, "worker", None))
        self._session.worker = worker
        # the whole is there
        worker.returned.connect(self.preview.drop)
        return worker

    def _show_aligned(self) -> None:
        """Add the images as they are fused, aligned and evened out, as a lazy layer."""
        show = partial(add_layers, self._viewer)
        self.row.attempt(lambda: EngineWorker(make_aligned_layer, self.choose_shown(), on_return=show))

    def _build_settings(self) -> QWidget:
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.preview.native)
        column.addWidget(self.settings.native)
        grouped: dict[str, list[Any]] = {}
        for item in fields(RunOptions):
            if item.name not in self.boxes:
                grouped.setdefault(item.metadata["group"], []).append(self._make_box(item.name))
        for title, boxes in grouped.items():
            rows = group(*boxes, layout="vertical", labels=True)
            if title == "Images":
                rows.append(self.aligned_button)
            column.addWidget(QLabel(f"<b>{title}</b>"))
            column.addWidget(rows.native)
        column.addWidget(group(self.python_button, self.command_button).native)
        self._offer()
        return content

    def _make_box(self, name: str) -> Any:  # noqa: ANN401 - a widget
        look = next(item.metadata for item in fields(RunOptions) if item.name == name)
        options = {"annotation": look["annotation"], "label": look["label"], "options": dict(look["options"])}
        box: Any = create_widget(getattr(self.run_options, name), name=name, **options)
        self.boxes[name] = box
        if isinstance(box, FileEdit):
            box.choose_btn.text = "…"
        if name == "destination":
            box.line_edit.native.setPlaceholderText("in memory")
        box.changed.connect(lambda value: self._on_box(name, value))
        return box

    def _offer(self) -> None:
        """Offer the axes and channels of the chosen layers; hide what they do not have."""
        if "axis" not in self.boxes:
            return
        layers = self.images.value
        is_stack = bool(layers) and layers[0].ndim > 2
        names, options = list_axes(layers[0]) if is_stack else [""], self.run_options
        axis = options.axis if options.axis in names else names[guess_focus_axis(layers[0]) if is_stack else 0]
        lengths = finest_level(layers[0]).shape if is_stack else ()
        try:
            series = choose_series(layers, options.axis)
        except QmcifError:  # what is wrong is shown where Run is
            titles, keeps_axes = tuple[str, ...](), False
        else:
            titles, keeps_axes = series.titles, series.keeps_axes
        several = titles if len(titles) > 1 else ()
        axes = [(f"{name} ({length})", name) for name, length in zip(names, lengths, strict=False)] or [("", "")]
        channels = [("each channel", EACH), *((title, title) for title in several)]
        decide_by = options.decide_by if options.decide_by in several else EACH
        for name, choices, shown in (("axis", axes, axis), ("decide_by", channels, decide_by)):
            with self.boxes[name].changed.blocked():
                self.boxes[name].choices = choices
                self.boxes[name].value = shown
        self.boxes["axis"].visible, self.boxes["scope"].visible, self.boxes["decide_by"].visible = is_stack, keeps_axes, bool(several)

    def _advise(self) -> None:
        """Find out beside the GUI thread whether the images moved or differ in brightness."""
        try:
            stack = self.choose_shown()
        except QmcifError:
            return
        if self.row.is_running or stack.n_images * stack.n_channels * stack.size_px[0] * stack.size_px[1] > LARGEST_ADVISED_SAMPLES:
            return
        self._adviser = EngineWorker(advise, stack, on_return=self._show_advice)
        self._adviser.start()

    def _show_advice(self, advice: Advice) -> None:
        self._advice = advice
        words = ["align"] * ("align" in advice.changes) + ["even out"] * ("even_exposure" in advice.changes) + ["run"]
        self.advice_button.text = " and ".join(words).capitalize()
        self.advice_button.visible = bool(advice.changes)
        if advice.text and not self.row.is_running:
            self.row.message.show_text(advice.text)

    def _stop_advice(self) -> None:
        self._timer.stop()
        self.advice_button.visible = False
        if self._adviser is not None:
            self._adviser.cancel()

    def _take_advice(self) -> None:
        self.set_options(**self._advice.changes)
        self.run()

    def _copy(self, write: Callable[..., str]) -> None:
        """Put the equivalent script, or command line, on the clipboard."""
        clipboard = QGuiApplication.clipboard()
        try:
            layers, options, preset, changes = self._find_copied()
            text = write(layers, options, preset=preset, changes=changes)
        except QmcifError as error:
            self.row.message.show_error(error)
        else:
            if clipboard is not None:
                clipboard.setText(text)
                self.row.message.show_text("copied")

    def _find_copied(self) -> tuple[Sequence[Any], RunOptions, str, dict[str, Any]]:
        """Return layers, options, preset and changed settings of the selected result, else of the form."""
        active = self._viewer.layers.selection.active
        record = {} if active is None else read_record(active)
        if "settings" not in record:
            self.choose()
            self.settings.read_config()
            return self.images.value, self.run_options, self.settings.preset_box.value, self.settings.list_changes()
        stack = find_sources(active, list(self._viewer.layers))
        if stack is None:
            msg = f"the images that {active.name!r} was made of are not there any more; they are needed: open them again"
            raise InvalidImageError(msg)
        options = options_of(prepare_alike(stack, active))
        return stack.layers, options, *find_closest_preset(FusionConfig.from_dict(record["settings"]))

    def _on_box(self, name: str, value: Any) -> None:  # noqa: ANN401 - any value
        if value != getattr(self.run_options, name):
            self._session.options = replace(self.run_options, **{name: value})
            self._on_change()

    def _on_images(self) -> None:
        # what was chosen of the last stack means nothing for this one
        self._session.options = replace(self.run_options, axis="", decide_by=EACH)
        self._on_change()

    def _on_change(self) -> None:
        if not self.row.is_running:
            # what was shown of the last choice does not hold for this one
            self.row.message.show_text("")
        self._offer()
        self.check()
        self._stop_advice()
        self._timer.start()
        if self.preview.layer is not None:
            self.preview.schedule()

    def _on_settings(self) -> None:
        self.check()
        if not self.row.is_running:
            self.preview.schedule()

    def _on_sliders(self, event: Any = None) -> None:  # noqa: ANN401 - napari's events
        # only then does the choice depend on the sliders
        if self.run_options.is_shown_only:
            self.check()

    def _connect(self) -> None:
        self._timer.timeout.connect(self._advise)
        self._viewer.dims.events.current_step.connect(self._on_sliders)
        # layers are selected after they were inserted
        self._viewer.layers.selection.events.changed.connect(self.reset_choices)
        self.images.changed.connect(self._on_images)
        self.settings.configured.connect(self._on_settings)
        self.advice_button.changed.connect(self._take_advice)
        self.aligned_button.changed.connect(self._show_aligned)
        self.python_button.changed.connect(lambda: self._copy(write_python))
        self.command_button.changed.connect(lambda: self._copy(write_command))


def _finish(viewer: Viewer, series: StackSeries, layers: list[Any]) -> None:
    """Add a result, and hide sources that would shine through it: channels are shown as the sum of all that is visible."""
    add_layers(viewer, layers)
    for layer in {layer for stacks in series.stacks for layer in stacks[0].layers}:
        layer.visible &= layer.blending in OPAQUE
