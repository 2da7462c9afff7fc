"""The form that fuses: images, alignment and Run; everything else in a fold that is built when it is opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from magicgui.widgets import Container, FileEdit, PushButton, create_widget
from magicgui.widgets.bases import ValueWidget
from napari.viewer import Viewer
from qtpy.QtCore import QTimer
from qtpy.QtGui import QGuiApplication
from qtpy.QtWidgets import QLabel, QVBoxLayout, QWidget

from napari_qmcif.aligning import Advice, advise, make_aligned_layer
from napari_qmcif.clipboard import options_of, write_command, write_python
from napari_qmcif.form_parts import OfferedBox, StackBox, group, make_fold, make_scroll
from napari_qmcif.fusing import FusionRequest, choose_images, choose_target, run_fusion
from napari_qmcif.layers_in import ChosenStack, finest_level, guess_focus_axis
from napari_qmcif.layers_out import add_layers, find_sources, number_run, part_of, prepare_alike, read_record
from napari_qmcif.preferences import keep, load_kept
from napari_qmcif.preview import PreviewPanel
from napari_qmcif.run_options import EACH, SHOWN, RunOptions
from napari_qmcif.settings_form import SettingsForm, find_closest_preset
from napari_qmcif.stack_series import StackSeries, choose_series, list_axes
from napari_qmcif.work_row import WorkRow
from napari_qmcif.worker import DockEntry, EngineWorker
from qmcif_engine import FusionConfig, InvalidImageError, QmcifError

GONE, KEPT = "cancelled; nothing was added", "cancelled; the finished tiles are kept, and Run goes on from there"
ADVICE_MILLISECONDS = 500
LARGEST_ADVISED_SAMPLES = 10**9
"""A larger stack is not read unasked."""

DEFAULTS = {item.name: item.default for item in fields(RunOptions)}
OPAQUE = ("opaque", "translucent", "translucent_no_depth")

SESSIONS: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
"""What the form of each viewer held, and the run that is under way, for the next time the dock is opened."""


def make_option_box(name: str, value: Any) -> ValueWidget[Any]:  # noqa: ANN401 - any value
    """Return the widget of one field of `RunOptions`."""
    look = next(item for item in fields(RunOptions) if item.name == name).metadata
    options = dict(look["options"])
    if options.get("widget_type") == "OfferedBox":
        return OfferedBox(name=name, label=look["label"], tooltip=options["tooltip"])
    made: Any = create_widget(value, annotation=look["annotation"], name=name, label=look["label"], options=options)
    if isinstance(made, FileEdit):
        made.choose_btn.text = "…"
    if name == "destination":
        made.line_edit.native.setPlaceholderText("in memory")
    return made  # type: ignore[no-any-return] # what magicgui makes is typed by its value


class FuseWidget(Container[Any]):
    """Images, Align, Run and advice, which are always seen, and a fold with all settings, which scrolls below them."""

    def __init__(self, napari_viewer: Viewer) -> None:
        self._viewer = napari_viewer
        self._session = SESSIONS.setdefault(getattr(napari_viewer, "__wrapped__", napari_viewer), {"values": dict(DEFAULTS)})
        self._values: dict[str, Any] = self._session["values"]
        tip = "The images of one scene: what is selected in the layer list, or another stack"
        self.images = StackBox(napari_viewer, label="Images", name="images", tooltip=tip)
        self.boxes: dict[str, Any] = {"align": make_option_box("align", self._values["align"])}
        self.boxes["align"].value = self._values["align"]
        self.settings = SettingsForm()
        kept = load_kept()
        if kept is not None:
            self.settings.show_config(kept)
        self.preview = PreviewPanel(napari_viewer, choose=self.choose_shown, read_config=self.settings.read_config)
        self.advice_button = PushButton(text="Align and run", visible=False)
        self.aligned_button = PushButton(text="Show the images as they are fused")
        self.aligned_button.tooltip = "Add the aligned and evened out images as a layer; they are moved where you look"
        self.python_button = PushButton(
            text="Copy Python", tooltip="Copy a script for napari's console: of the selected result, else of the form"
        )
        self.command_button = PushButton(text="Copy command", tooltip="The same as a command line; the layers must come from files")
        super().__init__(widgets=[self.images, self.boxes["align"]], labels=True)
        self.row = WorkRow(self._start, text="Run", tooltip="Fuse the whole image (Ctrl+R); Esc cancels")
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
        worker = self._session.get("worker")
        if worker is not None:
            self._follow(worker)

    @property
    def run_options(self) -> RunOptions:
        """The options of a run as they stand."""
        return RunOptions(**self._values)

    def set_options(self, **changes: Any) -> None:  # noqa: ANN401 - fields of `RunOptions`
        """Change options, and show them where they have a box."""
        self._values |= changes
        for name, value in changes.items():
            if name in self.boxes:
                with self.boxes[name].changed.blocked():
                    self.boxes[name].value = value
        self._on_change()

    def choose(self, options: RunOptions | None = None) -> StackSeries:
        """Return what is chosen; refuse what cannot be fused."""
        return choose_images(self.images.value, options or self.run_options, point=self._viewer.dims.point)

    def choose_shown(self) -> ChosenStack:
        """Return the one stack that the sliders show, for a preview."""
        series = self.choose()
        if not series.keeps_axes:
            return series.first
        shown = RunOptions(**{**self._values, "scope": SHOWN, "decide_by": EACH})
        return choose_images(self.images.value[:1], shown, point=self._viewer.dims.point).first

    def check(self) -> None:
        """Report in place what stands in the way of a run, and allow it where nothing does."""
        try:
            series = self.choose()
            self.settings.read_config()
            choose_target(self.run_options, series)
        except QmcifError as error:
            self.row.forbid(str(error))
        else:
            n_channels, n_points = len(series.channels), series.n_points
            words = [series.first.note] * bool(series.first.note)
            if n_channels * n_points > 1:
                places = [f"{n_channels} channels"] * (n_channels > 1) + [f"{n_points} time points"] * (n_points > 1)
                words.append(f"{n_channels * n_points} stacks of {series.first.n_images} images are fused: {', '.join(places)}")
            self.row.allow("; ".join(words))

    def run(self) -> None:
        """Fuse what is chosen, as the settings say; a run that is under way goes on."""
        self.row.start()

    def show_aligned(self) -> None:
        """Add the images as they are fused, aligned and evened out, as a lazy layer."""
        self.row.attempt(self._align_shown)

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

    def _start(self) -> EngineWorker | None:
        self.check()
        if not self.row.is_allowed:
            return None
        self._stop_advice()
        self.preview.stop()
        series, config = self.choose(), self.settings.read_config()
        request = FusionRequest(series=series, config=config, options=self.run_options, target=choose_target(self.run_options, series))
        # kept when they are used: what was only tried out is not brought back
        keep(config)
        titles = [channel.title for channel in series.channels]
        number = number_run(titles, taken=[layer.name for layer in self._viewer.layers])
        worker = EngineWorker(run_fusion, request, number, is_waited_for=request.target is not None)
        # kept alive by the signals of the worker
        DockEntry(worker, title=f"Fusing {titles[0]}")
        # the window of the viewer, not the dock: a run goes on when that is closed
        self.native.window().destroyed.connect(worker.cancel)
        worker.returned.connect(partial(_finish, self._viewer, series))
        worker.finished.connect(partial(self._session.pop, "worker", None))
        # one step an image and one for the decision
        self._session |= {"worker": worker, "steps": series.first.n_images + 1}
        self._follow(worker)
        worker.start()
        return None  # followed already, with what the form knows about its steps

    def _follow(self, worker: EngineWorker) -> None:
        worker.returned.connect(lambda _: self._finish(worker))
        self.row.follow(worker, steps_a_tile=self._session["steps"], if_cancelled=KEPT if worker.is_waited_for else GONE)

    def _finish(self, worker: EngineWorker) -> None:
        self.row.message.say("; ".join(worker.remarks))
        # the whole is there
        self.preview.stop()
        self.preview.remove()

    def _align_shown(self) -> EngineWorker:
        worker = EngineWorker(make_aligned_layer, self.choose_shown())
        worker.returned.connect(partial(add_layers, self._viewer))
        worker.start()
        return worker

    def _build_settings(self) -> QWidget:
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.preview.native)
        column.addWidget(self.settings.native)
        grouped: dict[str, list[Any]] = {}
        for item in fields(RunOptions):
            if item.name not in self.boxes:
                box: Any = make_option_box(item.name, self._values[item.name])
                self.boxes[item.name] = box
                grouped.setdefault(item.metadata["group"], []).append(box)
                box.changed.connect(lambda value, name=item.name: self._on_box(name, value))
        for title, boxes in grouped.items():
            rows: Container[Any] = Container(widgets=boxes, labels=True)
            rows.margins = (0, 0, 0, 0)
            if title == "Images":
                rows.append(self.aligned_button)
            column.addWidget(QLabel(f"<b>{title}</b>"))
            column.addWidget(rows.native)
        column.addWidget(group(self.python_button, self.command_button).native)
        self._offer()
        return content

    def _offer(self) -> None:
        """Offer the axes and channels of the chosen layers; hide what they do not have."""
        if "axis" not in self.boxes:
            return
        layers = self.images.value
        is_stack = bool(layers) and layers[0].ndim > 2
        names = list_axes(layers[0]) if is_stack else []
        lengths = finest_level(layers[0]).shape if is_stack else ()
        guess = names[guess_focus_axis(layers[0])] if is_stack else ""
        self.boxes["axis"].offer(
            [(f"{name} ({length})", name) for name, length in zip(names, lengths, strict=False)] or [("", "")], first=guess
        )
        try:
            series = choose_series(layers, self._values["axis"])
        except QmcifError:  # what is wrong is shown where Run is
            titles, keeps_axes = [], False
        else:
            titles, keeps_axes = [channel.title for channel in series.channels], series.keeps_axes
        self.boxes["decide_by"].offer([("each channel", EACH), *((title, title) for title in titles if len(titles) > 1)])
        self.boxes["axis"].visible, self.boxes["scope"].visible, self.boxes["decide_by"].visible = is_stack, keeps_axes, len(titles) > 1

    def _advise(self) -> None:
        """Find out beside the GUI thread whether the images moved or differ in brightness."""
        try:
            stack = self.choose_shown()
        except QmcifError:
            return
        if self.row.is_running or stack.n_images * stack.n_channels * stack.size_px[0] * stack.size_px[1] > LARGEST_ADVISED_SAMPLES:
            return
        self._adviser = EngineWorker(advise, stack)
        self._adviser.returned.connect(self._show_advice)
        self._adviser.start()

    def _show_advice(self, advice: Advice) -> None:
        self._advice = advice
        words = ["align"] * ("align" in advice.changes) + ["even out"] * ("even_exposure" in advice.changes) + ["run"]
        self.advice_button.text = " and ".join(words).capitalize()
        self.advice_button.visible = bool(advice.changes)
        if advice.text and not self.row.is_running:
            self.row.message.say(advice.text)

    def _stop_advice(self) -> None:
        self._timer.stop()
        self.advice_button.visible = False
        if self._adviser is not None:
            self._adviser.returned.disconnect(self._show_advice)
            self._adviser.cancel()
            self._adviser = None

    def _take_advice(self) -> None:
        self.set_options(**self._advice.changes)
        self.run()

    def _copy(self, write: Callable[[], str]) -> None:
        """Put the equivalent script, or command line, on the clipboard."""
        try:
            text = write()
        except QmcifError as error:
            self.row.message.complain(error)
            return
        clipboard = QGuiApplication.clipboard()
        if clipboard is not None:
            clipboard.setText(text)
            self.row.message.say("copied")

    def _write_python(self) -> str:
        stack, preset, changes = self._find_copied()
        if stack is None:
            self.choose()
            return write_python(self.images.value, self.run_options, preset=preset, changes=changes)
        return write_python(stack.layers, options_of(stack), preset=preset, changes=changes)

    def _write_command(self) -> str:
        stack, preset, changes = self._find_copied()
        return write_command(self.choose_shown() if stack is None else stack, preset=preset, changes=changes)

    def _find_copied(self) -> tuple[ChosenStack | None, str, dict[str, Any]]:
        """Return what made the selected result; None for the form."""
        active = self._viewer.layers.selection.active
        record = {} if active is None else read_record(active)
        if "settings" not in record:
            self.settings.read_config()
            return None, self.settings.preset, self.settings.list_changes()
        stack = find_sources(active, list(self._viewer.layers))
        if stack is None:
            msg = f"the images that {active.name!r} was made of are not there any more; they are needed: open them again"
            raise InvalidImageError(msg)
        return prepare_alike(stack, active), *find_closest_preset(FusionConfig.from_dict(record["settings"]))

    def _on_box(self, name: str, value: Any) -> None:  # noqa: ANN401 - any value
        if value != self._values[name] and not (name == "axis" and not value):
            self._values[name] = value
            self._on_change()

    def _on_images(self) -> None:
        # what was chosen of the last stack means nothing for this one
        self._values |= {"axis": "", "decide_by": EACH}
        self._on_change()

    def _on_change(self) -> None:
        if not self.row.is_running:
            # what was shown of the last choice does not hold for this one
            self.row.message.say("")
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
        if self._values["scope"] == SHOWN:
            self.check()

    def _connect(self) -> None:
        self._timer.timeout.connect(self._advise)
        self._viewer.dims.events.current_step.connect(self._on_sliders)
        # layers are selected after they were inserted
        self._viewer.layers.selection.events.changed.connect(self.reset_choices)
        self.images.changed.connect(self._on_images)
        self.boxes["align"].changed.connect(lambda value: self._on_box("align", value))
        self.settings.configured.connect(self._on_settings)
        self.preview.said.connect(self.row.message.say)
        self.preview.failed.connect(self.row.message.complain)
        self.advice_button.changed.connect(self._take_advice)
        self.aligned_button.changed.connect(self.show_aligned)
        self.python_button.changed.connect(lambda: self._copy(self._write_python))
        self.command_button.changed.connect(lambda: self._copy(self._write_command))


def _finish(viewer: Viewer, series: StackSeries, layers: list[Any]) -> None:
    """Add a result, and hide sources that would shine through it: channels are shown as the sum of all that is visible."""
    add_layers(viewer, layers)
    for layer in [layer for channel in series.channels for layer in channel.stacks[0].layers]:
        layer.visible &= layer.blending in OPAQUE
