"""The page that fuses: the form of the fusion, a preview, and the run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from magicgui.widgets import Container, PushButton
from napari.viewer import Viewer
from qtpy.QtGui import QGuiApplication
from qtpy.QtWidgets import QLabel

from napari_qmcif.aligning import make_aligned_layer
from napari_qmcif.chosen_stack import ChosenStack
from napari_qmcif.clipboard import write_command, write_python
from napari_qmcif.file_actions import FileActions, add_layers
from napari_qmcif.form_parts import fold_rows, group, tidy_rows
from napari_qmcif.fusing_function import EACH, SHOWN, choose_images, fuse_focus_stack, offer_for, settle_target
from napari_qmcif.layer_box import is_source, part_of
from napari_qmcif.preferences import load_kept
from napari_qmcif.preview import PreviewPanel
from napari_qmcif.provenance import METADATA_KEY, read_record
from napari_qmcif.result_parts import find_sources, prepare_alike
from napari_qmcif.settings_form import SettingsForm, find_closest_preset
from napari_qmcif.stack_series import StackSeries
from napari_qmcif.work_row import WorkRow
from napari_qmcif.worker import EngineWorker, make_worker
from qmcif_engine import FusionConfig, InvalidImageError, QmcifError

GONE, KEPT = "cancelled; nothing was added", "cancelled; the finished tiles are kept, and Run goes on from there"
CHOOSING = ("axis", "scope", "decide_by", "align", "even_exposure", "reference", "leave_out", "transforms")
FOLDS = {
    "More about the images": ("reference", "leave_out", "transforms"),
    "More results": ("with_height", "height_smoothing", "slab", "scheduler"),
}


class FusionWidget(Container[Any]):
    """The form of `fuse_focus_stack` with a preview, in-place messages and Cancel."""

    def __init__(self, napari_viewer: Viewer) -> None:
        self._viewer = napari_viewer
        self.form = fuse_focus_stack(call_button=False)
        self.files = FileActions(napari_viewer, on_open=self.select_layers)
        self.use_button = PushButton(text="Use selected layers", name="use")
        self.use_button.tooltip = "Take what is selected in the viewer's layer list"
        self.aligned_button = PushButton(text="Show the images as they are fused", name="aligned")
        self.aligned_button.tooltip = "Add the aligned and evened out images as a layer; they are moved where you look"
        self.preview = PreviewPanel(napari_viewer, choose=self.choose_shown, read_config=self.settings.get_value)
        self.python_button, self.command_button = PushButton(text="Copy Python"), PushButton(text="Copy command")
        self.python_button.tooltip = "Put a script with the same result on the clipboard: of the selected result layer, else of the form"
        self.command_button.tooltip = "The same as a command line; the layers must come from files"
        self.form.margins = (0, 0, 0, 0)
        copying = group(self.python_button, self.command_button)
        super().__init__(widgets=[self.files, self.use_button, self.form, self.preview, copying], labels=False)
        self.run_panel = WorkRow(self._start, text="Run", tooltip="Fuse the whole image (Ctrl+R)", beside=self.preview.button)
        self.native.layout().insertWidget(3, QLabel("<b>Preview</b>"))
        tidy_rows(self.form, wide=("layers", "settings"))
        self.folds = {title: fold_rows(self.form, title, names) for title, names in FOLDS.items()}
        column: Any = self.folds["More about the images"].content().layout()
        column.addWidget(self.aligned_button.native)
        # layers that were asked for and cannot be fused, which the list does not offer: the reason is said nevertheless
        self._refused: list[Any] = []
        kept = load_kept()
        if kept is not None:
            self.settings.set_value(kept)
        self._connect()
        self.use_selected_layers()

    @property
    def settings(self) -> SettingsForm:
        """The settings of the method."""
        found: SettingsForm = self.form.settings
        return found

    def choose(self, **changes: Any) -> StackSeries:  # noqa: ANN401 - arguments of `choose_images`
        """Return what is chosen, some of it replaced; refuse what cannot be fused."""
        values = {name: getattr(self.form, name).value for name in CHOOSING} | {"layers": self._refused or self.form.layers.value} | changes
        return choose_images(values.pop("layers"), str(values.pop("axis") or ""), point=self._viewer.dims.point, **values)

    def choose_shown(self) -> ChosenStack:
        """Return the one stack that the sliders show, for a preview."""
        series = self.choose()
        return self.choose(layers=self.form.layers.value[:1], scope=SHOWN, decide_by=EACH).first if series.keeps_axes else series.first

    def check(self) -> None:
        """Report in place what stands in the way of a run, and allow it where nothing does."""
        try:
            series = self.choose()
            self.settings.get_value()
            settle_target(self.form.destination.value, series, slab=self.form.slab.value)
        except QmcifError as error:
            self.run_panel.forbid(str(error))
        else:
            self.run_panel.allow(_describe(series))
        self.preview.schedule()

    def run(self) -> None:
        """Fuse what is chosen, as the settings say; a run that is under way goes on."""
        self.run_panel.start()

    def _start(self) -> EngineWorker | None:
        self.check()
        if not self.run_panel.start_button.enabled:
            return None
        worker: Any = self.form()  # type: ignore[call-arg] # it knows its own values
        # a page that is gone can show nothing, and nobody could cancel
        self.native.destroyed.connect(worker.cancel)
        worker.returned.connect(partial(self._finish, worker))
        self.run_panel.follow(
            worker,
            # one step an image and one for the decision
            steps_a_tile=self.choose().first.n_images + 1,
            if_cancelled=KEPT if worker.is_waited_for else GONE,
        )
        # followed already, with what the form knows about its steps
        return None

    def show_aligned(self) -> None:
        """Add the images as they are fused, aligned and evened out, as a lazy layer."""
        self.run_panel.attempt(self._align_shown)

    def _align_shown(self) -> EngineWorker:
        worker = make_worker(make_aligned_layer, self.choose_shown(), owner=self.native)
        worker.returned.connect(partial(add_layers, self._viewer))
        worker.start()
        return worker

    def use_selected_layers(self) -> None:
        """Choose what is selected in the viewer; what is no image stays chosen as the reason why nothing can be run."""
        selected = [layer for layer in self._viewer.layers if layer in self._viewer.layers.selection]
        self.select_layers(selected)
        if any(layer not in self.form.layers.choices for layer in selected):
            self._refused = selected
        self.check()

    def select_layers(self, layers: list[Any]) -> None:
        """Choose these layers and no others."""
        self._refused = []
        self.form.layers.value = [layer for layer in self.form.layers.choices if layer in layers]
        self.check()

    def shut_down(self) -> None:
        """Stop what runs and let go of the viewer; a closed widget adds nothing any more."""
        self.preview.shut_down()
        self.run_panel.cancel()
        self._viewer.dims.events.current_step.disconnect(self._on_sliders)

    def reset_choices(self, *_: Any) -> None:  # noqa: ANN401 - napari's events
        """Follow the layers of the viewer."""
        super().reset_choices()
        self._refused = [layer for layer in self._refused if layer in self._viewer.layers]
        # what is opened while nothing is chosen is what a person wants to fuse
        new = [layer for layer in self._viewer.layers.selection if is_source(layer) and part_of(layer) is None]
        if new and not self.form.layers.value and not self._refused:
            self.form.layers.value = [layer for layer in self.form.layers.choices if layer in new]
        offer_for(self.form)
        self.check()

    def _copy(self, write: Callable[..., str]) -> None:
        """Put the equivalent script, or command line, on the clipboard."""
        try:
            stack, preset, changes = self._find_copied()
            text = write(stack, preset=preset, changes=changes)
        except QmcifError as error:
            self.run_panel.message.complain(error)
            return
        clipboard = QGuiApplication.clipboard()
        if clipboard is not None:
            clipboard.setText(text)
            self.run_panel.message.say("copied")

    def _find_copied(self) -> tuple[ChosenStack, str, dict[str, Any]]:
        """Return what made the selected result, or what the form would make."""
        active = self._viewer.layers.selection.active
        record = {} if active is None else read_record(active)
        if "settings" not in record:
            self.settings.get_value()
            return self.choose_shown(), self.settings.preset, self.settings.list_changes()
        stack = find_sources(active, list(self._viewer.layers))
        if stack is None:
            msg = f"the images that {active.name!r} was made of are not there any more; they are needed: open them again"
            raise InvalidImageError(msg)
        return prepare_alike(stack, active), *find_closest_preset(FusionConfig.from_dict(record["settings"]))

    def _finish(self, worker: EngineWorker, layers: list[Any]) -> None:
        """Look at the result: it is on top and active, and no preview covers it."""
        self.run_panel.message.say("; ".join(worker.remarks))
        self.preview.remove()
        # magicgui was connected first and has added them
        names = [attributes["name"] for _, attributes, _ in layers if attributes["metadata"][METADATA_KEY]["part"] == "fused"]
        if names and names[-1] in self._viewer.layers:
            self._viewer.layers.selection.active = self._viewer.layers[names[-1]]

    def _on_form(self, *_: Any) -> None:  # noqa: ANN401 - magicgui's
        # what was said of the last choice does not hold for this one
        if not self.run_panel.is_running:
            self.run_panel.message.say("")
        self.check()

    def _on_layers_chosen(self) -> None:
        self._refused = []

    def _on_sliders(self, event: Any = None) -> None:  # noqa: ANN401 - napari's events
        # only then does the choice depend on the sliders
        if self.form.scope.value == SHOWN:
            self.check()

    def _connect(self) -> None:
        self._viewer.dims.events.current_step.connect(self._on_sliders)
        self.form.layers.changed.connect(self._on_layers_chosen)
        self.form.changed.connect(self._on_form)
        self.preview.said.connect(self.run_panel.message.say)
        self.preview.failed.connect(self.run_panel.message.complain)
        self.use_button.changed.connect(self.use_selected_layers)
        self.aligned_button.changed.connect(self.show_aligned)
        self.python_button.changed.connect(lambda: self._copy(write_python))
        self.command_button.changed.connect(lambda: self._copy(write_command))


def _describe(series: StackSeries) -> str:
    """Return what a person should know before a run."""
    n_channels, n_points = len(series.channels), series.n_points
    words = [series.first.note]
    if n_channels * n_points > 1:
        places = [f"{n_channels} channels"] * (n_channels > 1) + [f"{n_points} time points"] * (n_points > 1)
        words.append(f"{n_channels * n_points} stacks of {series.first.n_images} images are fused: {', '.join(places)}")
    return "; ".join(word for word in words if word)
