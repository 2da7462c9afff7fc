"""Retouching of a fused image: paint where another image is to be taken, and the fused image follows.

What changed is found by comparing the labels with those already applied: that holds for the brush, for filling, for undo and redo, and
for whatever else changes labels. The engine works in a thread of its own, on one piece at a time, so that painting goes on meanwhile.
A result with several images, one per time point, has one labels layer with the same axes: a stroke belongs to the time it was painted at.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from magicgui.widgets import CheckBox, ComboBox, Container, PushButton
from napari.layers import Layer
from napari.viewer import Viewer
from numpy.typing import NDArray
from qtpy.QtCore import QObject, Signal
from qtpy.QtGui import QColor, QIcon, QPixmap

from napari_qmcif import layers_out as out
from napari_qmcif.aligning import align_images
from napari_qmcif.form_parts import LayerBox, MessageLabel, StackBox
from napari_qmcif.layers_in import ChosenStack, transform_of
from napari_qmcif.worker import EngineWorker
from qmcif_engine import InvalidImageError, QmcifError, RetouchedWindow, Window, retouch

LARGEST_PIECE_PX = 512
"""Side of the largest piece that is fused at once: so much takes a fraction of a second."""

BRUSH_SIZE_PX = 20
ORIGINAL_KEY = "qmcif_original"
"""Under this name the metadata of a retouched image hold what the engine made of it, as long as the viewer is open."""

HINT = "Paint with napari's brush; Ctrl+Z takes a stroke back, - and = choose another image. Stop and Start go on with the same strokes."
STROKES = {"outlined": (1, 1.0), "tinted": (0, 0.4), "hidden": (0, 0.0)}
"""Width of the outline, 0 for an area, and opacity: an outline hides nothing of the image."""


def prepare_sources(stack: ChosenStack, *, fused: Layer, index: Layer | None) -> ChosenStack:
    """Return the images of a result as they were fused, once it is known that it can be retouched and that all belong together."""
    if index is None:
        msg = "no source index is chosen; that of the result is needed: fuse a stack first, or choose it"
        raise InvalidImageError(msg)
    for layer in (fused, index):
        if layer.multiscale or not isinstance(layer.data, np.ndarray):
            msg = f"{layer.name!r} is on disk; retouching changes samples in memory: run the fusion without a place under Result"
            raise InvalidImageError(msg)
    shapes = [tuple(layer.data.shape[: layer.ndim]) for layer in (fused, index)]
    if shapes[0] != shapes[1] or shapes[0][-2:] != stack.size_px:
        found = f"{fused.name!r} has shape {shapes[0]}, {index.name!r} {shapes[1]} and the sources {stack.size_px}"
        msg = f"{found}; the source map and the images of one result are needed: choose them"
        raise InvalidImageError(msg)
    return out.prepare_alike(stack, fused)


@dataclass(frozen=True, slots=True, eq=False)
class Original:
    """What the engine decided, and the strokes that lie in the result now: so a person can go on, or take everything back.

    The name identifies the labels layer with the strokes; `applied`, shape (…, Y, X), has the labels that are worked in and is changed in
    place. A result that was saved and opened again may have been retouched before. By place, `images` keep the fused image and its source
    index from before any retouching; they are copied when a place is first painted on.
    """

    name: str
    applied: NDArray[Any]
    was_retouched: bool
    images: dict[out.Place, tuple[NDArray[Any], NDArray[Any]]] = field(default_factory=dict)

    @classmethod
    def of_result(cls, fused: Layer, *, shape: tuple[int, ...], n_images: int) -> Original:
        """Return what an earlier session kept, or keep it from now on."""
        kept = fused.metadata.get(ORIGINAL_KEY)
        if isinstance(kept, cls) and kept.applied.shape == shape:
            return kept
        # label 0 leaves the decision to the engine, so that images count from 1
        labels = np.zeros(shape, np.min_scalar_type(n_images))
        fused.metadata[ORIGINAL_KEY] = made = cls(uuid.uuid4().hex, labels, out.read_record(fused).get("is_retouched") is True)
        return made


class _Piece(NamedTuple):
    """A window of one image that is worked in, what cuts it out of the labels, and the labels that were applied there before."""

    place: out.Place
    window: Window
    cut: Any
    before: NDArray[Any]


class RetouchSession(QObject):
    """Strokes on a labels layer over a result in memory, which is fused again, in place, wherever it is painted.

    The stack holds the images of the time point that is shown. A second session on the same result goes on with the layer of the first,
    its undo history included; where that layer was deleted, with a new one that shows the strokes.
    """

    failed = Signal(object)
    ended = Signal(str)

    def __init__(self, viewer: Viewer, stack: ChosenStack, *, fused: Any, index: Any) -> None:  # noqa: ANN401 - layers
        super().__init__()
        self._viewer, self._stack, self._fused, self._index = viewer, stack, fused, index
        self._job: EngineWorker | None = None
        self._piece: _Piece | None = None
        self._is_over = False
        self._config, focus_range = out.read_settings(fused)
        # the record has that of the first time point; that of others is known when they are first painted on
        self._focus_ranges: dict[out.Place, Any] = {} if focus_range is None else {(0,) * (index.ndim - 2): focus_range}
        self._original = Original.of_result(fused, shape=index.data.shape, n_images=stack.n_images)
        self.labels = self._open_labels()
        self.labels.mode = "paint"
        viewer.layers.selection.active = self.labels
        for emitter, follow in self._list_connections():
            emitter.connect(follow)
        self._update()

    @property
    def is_running(self) -> bool:
        """Whether strokes are still being worked in."""
        return self._job is not None

    def take_back(self) -> None:
        """Give every pixel back to the engine; napari can undo it."""
        if not self._is_over and self.labels.data.any():
            # through the layer, so that it has its place in the history of undo
            self.labels.data_setitem(np.nonzero(self.labels.data), 0)

    def end(self, reason: str = "") -> None:
        """Stop following strokes; what was painted stays as it is."""
        if self._is_over:
            return
        self._is_over = True
        for emitter, follow in self._list_connections():
            emitter.disconnect(follow)
        if self._job is not None and self._piece is not None:
            self._job.cancel()
            self._original.applied[self._piece.cut] = self._piece.before  # given up, so not in the image
        if self.labels in self._viewer.layers:
            # else strokes would have no effect; a layer that is not editable would lose its history of undo
            self.labels.mode = "pan_zoom"
        self.ended.emit(reason)

    def _open_labels(self) -> Any:  # noqa: ANN401 - a layer
        """Return the layer of an earlier session, or a new one with the same strokes."""
        original = self._original
        found = [layer for layer in self._viewer.layers if out.read_record(layer).get("of") == original.name]
        if found and found[-1].data.shape == original.applied.shape:
            return found[-1]
        # whole numbers, but no source index
        look = {"name": "retouch", "metadata": {out.METADATA_KEY: {"part": "retouch", "of": original.name}}}
        colors = out.color_sources(self._stack.n_images)
        labels = self._viewer.add_labels(original.applied.copy(), colormap=colors, **look, **transform_of(self._fused))
        labels.brush_size = BRUSH_SIZE_PX
        return labels

    def _list_connections(self) -> list[tuple[Any, Any]]:
        events = self.labels.events
        strokes = [(emitter, self._update) for emitter in (events.paint, events.labels_update, events.set_data, events.data)]
        return [*strokes, (events.selected_label, self._bound_label), (self._viewer.layers.events.removed, self._on_removed)]

    def _bound_label(self, _: object = None) -> None:
        """Keep the brush from labels that stand for no image."""
        if self.labels.selected_label > self._stack.n_images:
            self.labels.selected_label = self._stack.n_images

    def _on_removed(self, _: object = None) -> None:
        if self.labels not in self._viewer.layers:
            self.end("the retouch layer was deleted; its strokes stay in the result, and Start brings them back")
        elif self._fused not in self._viewer.layers:
            self.end("the fused image was deleted")

    def _update(self, _: object = None) -> None:
        """Work the next piece in, unless one is under way: then the end of that one comes back here."""
        painted, applied = self.labels.data, self._original.applied
        if painted.shape != applied.shape:
            self.end("the retouch layer has another size now; start again")
        found = None if self._job is not None or self._is_over else find_piece(painted, applied)
        if found is None:
            return
        place, window = found
        cut: Any = (*place, *window.slices)
        self._piece = _Piece(place, window, cut, applied[cut].copy())
        # before the work: strokes that come meanwhile differ from it, and are found afterwards
        applied[cut] = painted[cut]
        # before they are first changed
        if place not in self._original.images:
            self._original.images[place] = self._fused.data[place].copy(), self._index.data[place].copy()
        # on the GUI thread, since it looks at layers: the images that this one of several fused images was made from
        source = out.find_sources(self._fused, list(self._viewer.layers), place=place) if place else None
        stack = self._stack if source is None else out.prepare_alike(source, self._fused)
        self._job = EngineWorker(self._retouch, self._piece, stack, on_return=self._show)
        self._job.errored.connect(self.failed)
        self._job.finished.connect(self._go_on)
        self._job.start()

    def _retouch(self, piece: _Piece, stack: ChosenStack, *, job: EngineWorker) -> RetouchedWindow:
        """Retouch by the engine; runs in the worker thread, while nothing changes what it reads."""
        fused, index = self._original.images[piece.place]
        return retouch(
            align_images(stack.cut_images(), stack, job=job),
            self._original.applied[piece.place],
            fused=fused.astype(stack.dtype, copy=False),
            source_index=index,
            window=piece.window,
            focus_range=self._focus_ranges.get(piece.place),
            config=self._config,
        )

    def _show(self, answer: RetouchedWindow) -> None:
        # the session has ended meanwhile
        if self._piece is None:
            return
        place = self._piece.place
        self._focus_ranges[place] = answer.focus_range
        # no label is left where all strokes were taken back
        is_retouched = self._original.was_retouched or bool(self._original.applied.any())
        fused = self._stack.restored(answer.fused)
        for layer, samples in ((self._fused, fused), (self._index, answer.source_index)):
            layer.data[(*place, *answer.window.slices)] = samples
            # what is seen, and nothing that would be computed from the whole image
            layer.refresh(thumbnail=False, highlight=False, extent=False)
            layer.metadata[out.METADATA_KEY] = {**out.read_record(layer), "is_retouched": is_retouched}

    def _go_on(self) -> None:
        self._job = self._piece = None
        self._update()


def find_piece(painted: Any, applied: Any) -> tuple[out.Place, Window] | None:  # noqa: ANN401 - arrays of labels
    """Return the place and a window of at most one piece around the first labels that differ, or None where all are applied."""
    for place in np.ndindex(*painted.shape[:-2]):
        is_new = painted[place] != applied[place]
        rows = np.flatnonzero(is_new.any(axis=1))
        if len(rows):
            top, bottom = int(rows[0]), int(min(rows[-1] + 1, rows[0] + LARGEST_PIECE_PX))
            columns = np.flatnonzero(is_new[top:bottom].any(axis=0))
            return place, Window(top, int(columns[0]), bottom, int(min(columns[-1] + 1, columns[0] + LARGEST_PIECE_PX)))
    return None


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
        napari_viewer.dims.events.current_step.connect(self._follow_slider)
        self._show_state()
        self.find_parts()

    def reset_choices(self, *_: Any) -> None:  # noqa: ANN401 - events
        """Offer the layers there are now."""
        super().reset_choices()
        # offering the entries anew took their swatches away
        self._color_images()
        self.find_parts()

    def find_parts(self) -> None:
        """Choose the source map and the sources that belong to the chosen result, as far as it records them, unless one is retouched."""
        if self.session is not None:
            return
        fused = self.result.value
        index = None if fused is None else out.find_parts(fused, list(self._viewer.layers)).get("source_index")
        if index is not None:
            self.source_index.value = index
        self.sources.choose_sources(fused)
        self.check()

    def check(self) -> None:
        """Report in place what stands in the way of retouching, and allow it where nothing does."""
        if self.session is not None:
            return
        try:
            names = ["let the engine decide", *out.name_images(self._find_stack())]
        except QmcifError as error:
            self.message.show_error(error)
            self.start_button.enabled = False
            return
        self._images = [(f"{number}: {name}", number) for number, name in enumerate(names)]
        self.paint_with.reset_choices()
        self._color_images()
        self.message.show_text("")
        self.start_button.enabled = True

    def toggle(self) -> None:
        """Start retouching, or end it; starting again goes on where it was ended."""
        if self.session is not None:
            self.session.end()
            return
        try:
            stack = self._find_stack()
        except QmcifError as error:
            self.message.show_error(error)
            return
        session = RetouchSession(self._viewer, stack, fused=self.result.value, index=self.source_index.value)
        session.failed.connect(self.message.show_error)
        session.ended.connect(self._on_end)
        session.labels.events.selected_label.connect(self._show_label)
        # one that is over does nothing
        self.clear_button.changed.connect(session.take_back)
        self._slider = stack.layers[0], stack.axis, stack.frame_numbers
        # 0 would paint nothing, which looks like a fault
        self.paint_with.value = self.paint_with.value or 1
        self.session = session
        for prepare in (self._show_strokes, self._choose_image, self._follow_slider, self._show_state):
            prepare()
        self.message.show_text(HINT)

    def shut_down(self) -> None:
        """End retouching and let go of the viewer."""
        if self.session is not None:
            self.session.end()
        self._viewer.dims.events.current_step.disconnect(self._follow_slider)

    def _find_stack(self) -> ChosenStack:
        fused = self.result.value
        if fused is None:
            msg = "no fused image is chosen; that of a result is needed: fuse a stack first, or choose it"
            raise InvalidImageError(msg)
        stack, _ = out.choose_sources(fused, self.sources.value, self._viewer)
        return prepare_sources(stack, fused=fused, index=self.source_index.value)

    def _color_images(self) -> None:
        for number, color in out.color_sources(max(len(self._images) - 1, 1)).color_dict.items():
            if number:
                swatch = QPixmap(16, 16)
                swatch.fill(QColor.fromRgbF(*(float(part) for part in color)))
                self.paint_with.native.setItemIcon(number, QIcon(swatch))

    def _show_label(self, _: object = None) -> None:
        if self.session is not None:
            self.paint_with.value = int(self.session.labels.selected_label)

    def _show_strokes(self, _: object = None) -> None:
        if self.session is not None:
            self.session.labels.contour, self.session.labels.opacity = STROKES[self.strokes.value]

    def _choose_image(self, _: object = None) -> None:
        if self.session is not None:
            self.session.labels.selected_label = self.paint_with.value

    def _follow_slider(self, _: object = None) -> None:
        """Paint with the image that the focus slider stands at, where that is wanted; one that was left out changes nothing."""
        layer, axis, frames = self._slider
        if self.session is not None and self.follows_slider.value and axis is not None:
            # the slider moves in the world, whose steps may be micrometers
            step = round(float(layer.world_to_data(self._viewer.dims.point)[axis]))
            if step in frames:
                self.paint_with.value = frames.index(step) + 1

    def _on_end(self, reason: str) -> None:
        if self.session is not None:
            self.session.labels.events.selected_label.disconnect(self._show_label)
        self.session = None
        self._show_state()
        self.check()
        if reason:
            self.message.show_text(reason)

    def _show_state(self) -> None:
        is_active = self.session is not None
        self.start_button.text = "Stop" if is_active else "Start"
        for choice in self._choices:
            choice.enabled = not is_active
        for tool in self._tools:
            tool.enabled = is_active and (tool is not self.follows_slider or self._slider[1] is not None)
