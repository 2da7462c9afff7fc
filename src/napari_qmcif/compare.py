"""Two images compared by a wipe or by blinking, and the focus of every image where one points, which explains why a pixel was taken."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from magicgui.widgets import CheckBox, FloatSlider
from napari.layers import Layer
from napari.viewer import Viewer
from qtpy.QtCore import QTimer

from napari_qmcif import layers_out as out
from napari_qmcif.aligning import align_images
from napari_qmcif.form_parts import BarPlot, LayerBox, MessageLabel
from napari_qmcif.layers_in import ChosenStack, finest_level, transform_of
from napari_qmcif.preview import find_middle, find_visible_area
from napari_qmcif.work_row import Page, WorkRow
from napari_qmcif.worker import EngineWorker
from qmcif_engine import FusionConfig, InvalidImageError, Window, focus_response

BLINK_MILLISECONDS = 600
LARGEST_AREA_PX = 2**17
"""Pixels of the largest area whose focus is measured: so much takes seconds, not minutes."""


def measure_area(stack: ChosenStack, area: Window, settings: tuple[FusionConfig, Any], *, job: EngineWorker) -> list[float]:
    """Return the focus response of every image, the mean over an area; runs in a worker thread."""
    opened = align_images(stack.cut_images(), stack, job=job)
    config, focus_range = settings
    levels = focus_response(opened, area, config=config, focus_range=focus_range, check_cancelled=job.check_cancelled)
    return [float(level) for level in levels.mean(axis=(1, 2))]


class CompareWidget(Page):
    """A wipe or blink between two layers, and bars with the focus of every image at a pixel or in what the canvas shows."""

    def __init__(self, napari_viewer: Viewer) -> None:
        self.result = LayerBox(napari_viewer, out.is_fused_or_flat, label="Result")
        tip = "Another result, or a source: a stack is shown where its slider stands"
        self.other = LayerBox(napari_viewer, out.is_source, label="Beside", tooltip=tip)
        self.wipes = CheckBox(text="Wipe: the result left of the line")
        self.wipe_at = FloatSlider(label="Line at", min=0.0, max=1.0, step=0.005, value=0.5)
        self.blinks = CheckBox(text="Blink between both")
        tip = "How sharp every image is there: why was this pixel taken from its image?"
        self.points = CheckBox(text="Focus where I click", tooltip=tip)
        self.title, self.plot = MessageLabel(), BarPlot()
        choices = [self.result, self.other, self.wipes, self.wipe_at, self.blinks, self.points]
        row = WorkRow(self._measure_shown, text="Sharpness of every image")
        super().__init__(napari_viewer, choices, row, self.title, self.plot)
        # owned by the page: it ends with it
        self._timer = QTimer(self.native)
        self._timer.setInterval(BLINK_MILLISECONDS)
        self._timer.timeout.connect(self._blink)
        self._wiped: Layer | None = None
        self._shown_before: list[Layer] = []
        # that of another result is another layer
        for follow in (self._remove_wipe, self._choose_other):
            self.result.changed.connect(follow)
        for part in (self.result, self.other, self.wipes, self.wipe_at):
            part.changed.connect(self._wipe)
        self.blinks.changed.connect(self._toggle_blinking)
        napari_viewer.mouse_drag_callbacks.append(self._on_click)
        self._choose_other()

    def shut_down(self) -> None:
        """Leave the layers as they were and let go of the viewer."""
        self.blinks.value = self.wipes.value = False
        super().shut_down()
        if self._on_click in self._viewer.mouse_drag_callbacks:
            self._viewer.mouse_drag_callbacks.remove(self._on_click)

    def reset_choices(self, *_: Any) -> None:  # noqa: ANN401 - events
        """Offer the layers there are now."""
        super().reset_choices()
        self._choose_other()

    def measure_at(self, row: int, column: int) -> EngineWorker:
        """Return the work that shows the focus of every image at one pixel of the result."""
        fused = self.result.value
        parts, place = out.find_parts(fused, list(self._viewer.layers)), out.find_place(fused, self._viewer.dims.point)
        taken = int(np.asarray(finest_level(parts["source_index"])[(*place, row, column)])) if "source_index" in parts else None
        return self._measure(Window(row, column, row + 1, column + 1), f"focus at row {row}, column {column}", taken=taken)

    def _choose_other(self) -> None:
        """Compare a result with its source where nothing else was chosen."""
        fused = self.result.value
        if fused is not None and self.other.value in (None, fused):
            stack = out.find_sources(fused, list(self._viewer.layers))
            others = [layer for layer in (stack.layers if stack is not None else self.other.choices) if layer in self.other.choices]
            for layer in [layer for layer in others if layer != fused][:1]:  # none while the boxes are filled one after the other
                self.other.value = layer

    def _measure_shown(self) -> EngineWorker:
        middle = find_middle(find_visible_area(self._find_stack(), self._viewer.dims), LARGEST_AREA_PX)
        return self._measure(middle, f"mean focus of {middle.shape[1]} x {middle.shape[0]} px in view")

    def _measure(self, area: Window, title: str, *, taken: int | None = None) -> EngineWorker:
        stack = self._find_stack()
        names = out.name_images(stack)

        def show(levels: list[float]) -> None:
            # focus has no unit; shares of the sharpest image can be read
            highest = max(levels) or 1.0
            shares = [(f"{number}: {name}", level / highest) for number, (name, level) in enumerate(zip(names, levels, strict=True), 1)]
            self.plot.show_figures(dict(shares), marked=taken)
            self.title.show_text(title + ("" if taken is None else f"; taken from image {taken + 1}, {names[taken]}"))

        return EngineWorker(measure_area, stack, area, out.read_settings(self.result.value), on_return=show)

    def _find_stack(self) -> ChosenStack:
        fused = self.result.value
        stack = out.find_shown_sources(fused, self._viewer)
        if stack is None:
            msg = "the images of this result are not there; they are needed to measure their focus: open them"
            raise InvalidImageError(msg)
        return out.prepare_alike(stack, fused)

    def _on_click(self, viewer: Any, event: Any) -> Iterator[None]:  # noqa: ANN401 - napari's
        """Measure where a person clicks; a drag moves the canvas as ever."""
        # napari calls this at the press and goes on with it at the next event: a move, if it is a drag, or the release
        yield
        if event.type != "mouse_release" or not self.points.value or self.result.value is None:
            return
        place = self.result.value.world_to_data(event.position)
        # a pixel reaches half of itself to either side of its coordinate
        row, column = (int(np.floor(number + 0.5)) for number in place[-2:])
        height, width = finest_level(self.result.value).shape[self.result.value.ndim - 2 : self.result.value.ndim]
        if 0 <= row < height and 0 <= column < width:
            self.row.attempt(partial(self.measure_at, row, column))

    def _wipe(self, _: object = None) -> None:
        """Show the left part of the result over the other layer: a view of its samples, none is copied."""
        first, second = self.result.value, self.other.value
        if not self.wipes.value or first is None or second is None or first == second:
            self._remove_wipe()
            return
        share, before = self.wipe_at.value, (slice(None),) * (first.ndim - 1)
        levels = [
            # napari takes no layer without columns
            level[(*before, slice(max(1, round(share * level.shape[first.ndim - 1]))))]
            for level in (first.data if first.multiscale else [first.data])
        ]
        shown: Any = levels if first.multiscale else levels[0]
        if self._wiped is not None and self._wiped in self._viewer.layers:
            # the same layer while the line moves: another one would be added at every step of the slider
            self._wiped.data = shown
        else:
            look = {} if first.rgb else {"contrast_limits": first.contrast_limits, "colormap": first.colormap, "gamma": first.gamma}
            look |= {"rgb": first.rgb, "multiscale": first.multiscale, "metadata": {out.METADATA_KEY: {"part": "wipe"}}}
            with out.selection_kept(self._viewer):
                self._wiped = self._viewer.add_image(shown, name="wipe", **look, **transform_of(first))
        self._show_only(self._wiped, second)

    def _remove_wipe(self) -> None:
        if self._wiped is not None:
            if self._wiped in self._viewer.layers:
                self._viewer.layers.remove(self._wiped)
            self._wiped = None
            self._show_all()

    def _toggle_blinking(self, is_wanted: bool) -> None:
        if is_wanted:
            self.wipes.value = False
            self._timer.start()
        else:
            self._timer.stop()
            self._show_all()

    def _blink(self) -> None:
        first, second = self.result.value, self.other.value
        if first is not None and second is not None and first != second:
            self._show_only(second if first.visible else first)

    def _show_only(self, *shown: Layer) -> None:
        """Hide every other layer, so that nothing lies over what is compared."""
        # noted once: later calls find what this one has hidden
        if not self._shown_before:
            self._shown_before = [layer for layer in self._viewer.layers if layer.visible and layer != self._wiped]
        for layer in self._viewer.layers:
            layer.visible = layer in shown

    def _show_all(self) -> None:
        """Bring back what was visible before the comparison, and the result in any case."""
        for layer in self._viewer.layers:
            layer.visible |= layer in self._shown_before or layer == self.result.value
        self._shown_before = []
