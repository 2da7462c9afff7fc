"""Retouching of a fused image: paint where another image is to be taken."""

from __future__ import annotations

from typing import Any

from magicgui.widgets import CheckBox, ComboBox, Container, PushButton
from napari.viewer import Viewer
from qtpy.QtGui import QColor, QIcon, QPixmap

from napari_qmcif import layers_out as out
from napari_qmcif.form_parts import LayerBox, MessageLabel, StackBox
from napari_qmcif.retouch_session import RetouchSession, RetouchSubject, assemble_subject, color_sources
from qmcif_engine import InvalidImageError, QmcifError

HINT = "Paint with napari's brush; Ctrl+Z takes a stroke back, - and = choose another image. Stop and Start go on with the same strokes."
STROKES = {"outlined": (1, 1.0), "tinted": (0, 0.4), "hidden": (0, 0.0)}
"""Width of the outline, 0 for an area, and opacity: an outline hides nothing of what one judges."""


class RetouchWidget(Container[Any]):
    """Choice of a result and of the image that the brush takes."""

    def __init__(self, napari_viewer: Viewer) -> None:
        self._viewer = napari_viewer
        self.session: RetouchSession | None = None
        self._slider: tuple[Any, int | None, tuple[int, ...]] = None, None, ()
        tip = "The fused image; its samples are changed in place"
        self.result = LayerBox(napari_viewer, out.is_fused_or_flat, label="Result", tooltip=tip)
        tip = "Which image each pixel was taken from; found by itself for our own results"
        self.source_index = LayerBox(napari_viewer, out.is_index_map, label="Source map", tooltip=tip)
        tip = "What the result was made from; found by itself for our own results"
        self.sources = StackBox(napari_viewer, label="Sources", tooltip=tip)
        self.start_button = PushButton(text="Start")
        self._images: list[tuple[str, int]] = []
        tip = "What the brush takes. 0 gives the pixels back to the engine."
        self.paint_with = ComboBox(label="Paint with", choices=lambda _: self._images, tooltip=tip)
        self.follows_slider = CheckBox(text="Follow the focus slider", tooltip="Paint with the image that it shows")
        self.strokes = ComboBox(label="Strokes", choices=list(STROKES), tooltip="How the strokes are shown over the image")
        self.clear_button = PushButton(text="Take all strokes back")
        self.message = MessageLabel()
        self._choices = [self.result, self.source_index, self.sources]
        self._tools = [self.paint_with, self.follows_slider, self.strokes, self.clear_button]
        super().__init__(widgets=[*self._choices, self.start_button, *self._tools])
        self.native.layout().addWidget(self.message)
        self.result.changed.connect(self.find_parts)
        for box in (self.source_index, self.sources):
            box.changed.connect(self.check)
        self.start_button.changed.connect(self.toggle)
        self.paint_with.changed.connect(self._choose_image)
        self.strokes.changed.connect(self._show_strokes)
        self.follows_slider.changed.connect(self._follow_slider)
        self.clear_button.changed.connect(self._take_back)
        napari_viewer.dims.events.current_step.connect(self._follow_slider)
        self._show_state()
        self.find_parts()

    def reset_choices(self, *_: Any) -> None:  # noqa: ANN401 - events
        """Offer the layers there are now."""
        super().reset_choices()
        # offering the entries anew took their swatches away
        self._color_images()
        if self.session is None:
            self.find_parts()

    def find_parts(self) -> None:
        """Choose the source map and the sources that belong to the chosen result, as far as it records them."""
        fused, layers = self.result.value, list(self._viewer.layers)
        index, stack = (
            (None, None) if fused is None else (out.find_parts(fused, layers).get("source_index"), out.find_sources(fused, layers))
        )
        if index is not None:
            self.source_index.value = index
        if stack is not None and stack.layers in self.sources.choices:
            self.sources.value = stack.layers
        self.check()

    def check(self) -> None:
        """Report in place what stands in the way of retouching, and allow it where nothing does."""
        if self.session is not None:
            return
        try:
            subject = self._read_subject()
        except QmcifError as error:
            self.message.say(str(error))
            self.start_button.enabled = False
            return
        names = ["let the engine decide", *out.name_images(subject.stack)]
        self._images = [(f"{number}: {name}", number) for number, name in enumerate(names)]
        self.paint_with.reset_choices()
        self._color_images()
        self.message.say("")
        self.start_button.enabled = True

    def toggle(self) -> None:
        """Start retouching, or end it; starting again goes on where it was ended."""
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
        self._slider = subject.stack.layers[0], subject.stack.axis, subject.stack.frame_numbers
        # 0 would paint nothing, which looks like a fault
        session.labels.selected_label = self.paint_with.value or 1
        self._show_label()
        self._show_state()
        self._show_strokes()
        self._follow_slider()
        self.message.say(HINT)

    def shut_down(self) -> None:
        """End retouching and let go of the viewer."""
        if self.session is not None:
            self.session.end()
        self._viewer.dims.events.current_step.disconnect(self._follow_slider)

    def _read_subject(self) -> RetouchSubject:
        fused = self.result.value
        if fused is None:
            msg = "no fused image is chosen; that of a result is needed: fuse a stack first, or choose it"
            raise InvalidImageError(msg)
        stack = out.find_shown_sources(fused, self._viewer)
        # a person may have chosen others than those of the record
        if stack is None or stack.layers != self.sources.value:
            stack = out.choose_sources(self.sources.value, point=self._viewer.dims.point)
        return assemble_subject(stack, fused=fused, index=self.source_index.value)

    def _color_images(self) -> None:
        for number, color in color_sources(max(len(self._images) - 1, 1)).color_dict.items():
            if number:
                swatch = QPixmap(16, 16)
                swatch.fill(QColor.fromRgbF(*(float(part) for part in color)))
                self.paint_with.native.setItemIcon(number, QIcon(swatch))

    def _choose_image(self, number: int | None) -> None:
        if self.session is not None and number is not None:
            self.session.labels.selected_label = number

    def _show_label(self, event: Any = None) -> None:  # noqa: ANN401 - napari's events
        if self.session is not None:
            self.paint_with.value = int(self.session.labels.selected_label)

    def _show_strokes(self, _: object = None) -> None:
        if self.session is not None:
            self.session.labels.contour, self.session.labels.opacity = STROKES[self.strokes.value]

    def _follow_slider(self, event: Any = None) -> None:  # noqa: ANN401 - napari's events
        """Take the image that the focus slider stands at, where that is wanted; one that was left out changes nothing."""
        if self.session is None or not self.follows_slider.value or self._slider[1] is None:
            return
        layer, axis, frames = self._slider
        # the slider moves in the world, whose steps may be micrometers
        step = round(float(layer.world_to_data(self._viewer.dims.point)[axis]))
        if step in frames:
            self._choose_image(frames.index(step) + 1)

    def _take_back(self) -> None:
        if self.session is not None:
            self.session.take_back()

    def _on_end(self, reason: str) -> None:
        if self.session is not None:
            self.session.labels.events.selected_label.disconnect(self._show_label)
        self.session = None
        self._show_state()
        self.check()
        if reason:
            self.message.say(reason)

    def _show_state(self) -> None:
        is_active = self.session is not None
        self.start_button.text = "Stop" if is_active else "Start"
        for choice in self._choices:
            choice.enabled = not is_active
        for tool in self._tools:
            tool.enabled = is_active and (tool is not self.follows_slider or self._slider[1] is not None)
