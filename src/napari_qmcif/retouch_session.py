"""Follow the strokes of a person on a labels layer, and keep the fused picture up to date.

What changed is found by comparing the labels with those already heeded: that holds for the brush, for filling, for undo and redo, and
for whatever else changes labels. The engine works in a thread of its own, on one piece at a time, so that painting goes on meanwhile.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from napari.utils.colormaps import DirectLabelColormap, ensure_colormap
from napari.viewer import Viewer
from qtpy.QtCore import QObject, Signal

from napari_qmcif.aligning import align_images
from napari_qmcif.provenance import METADATA_KEY
from napari_qmcif.retouch_subject import RetouchSubject
from napari_qmcif.worker import BackgroundJob
from qmcif_engine import FocusRange, RetouchedWindow, Stack, retouch

LARGEST_PIECE_PX = 512
"""Side of the largest piece that is fused at once: so much takes a fraction of a second."""

BRUSH_SIZE_PX = 20
Box = tuple[int, int, int, int]


class RetouchSession(QObject):
    """Add a labels layer over a result, and fuse again wherever it is painted.

    Parameters
    ----------
    viewer : napari.Viewer
    subject : RetouchSubject
    """

    updated = Signal()
    failed = Signal(object)
    ended = Signal(str)

    def __init__(self, viewer: Viewer, subject: RetouchSubject) -> None:
        super().__init__()
        self._viewer, self._subject = viewer, subject
        self._job: BackgroundJob | None = None
        self._is_over = False
        self._stack: Stack | None = None
        self._focus_range: tuple[float, float] | tuple[FocusRange, ...] | None = subject.focus_range
        self._fused, self._index = subject.fused.data.copy(), subject.index.data.copy()
        self._heeded = np.zeros(subject.stack.picture_shape, np.min_scalar_type(subject.stack.n_images))
        self.labels = viewer.add_labels(
            self._heeded.copy(),
            name="retouch",
            opacity=0.4,
            colormap=color_sources(subject.stack.n_images),
            metadata={METADATA_KEY: {"part": "retouch"}},  # whole numbers, but no source index
            **subject.stack.placement.as_layer_arguments(),
        )
        self.labels.brush_size = BRUSH_SIZE_PX
        self.labels.mode = "paint"
        self._connect()

    @property
    def is_running(self) -> bool:
        """Whether strokes are still being worked in."""
        return self._job is not None

    def take_back(self) -> None:
        """Give the whole picture back to the engine; napari can undo it."""
        if not self._is_over and self.labels.data.any():
            self.labels.data_setitem(np.nonzero(self.labels.data), 0)

    def end(self, reason: str = "") -> None:
        """Stop following strokes; what was painted stays as it is."""
        if self._is_over:
            return
        self._is_over = True
        for emitter in self._emitters():
            emitter.disconnect(self._update)
        self.labels.events.selected_label.disconnect(self._bound_label)
        self._viewer.layers.events.removed.disconnect(self._on_removed)
        if self._job is not None:
            self._job.cancel()
        self.ended.emit(reason)

    def _emitters(self) -> tuple[Any, ...]:
        events = self.labels.events
        return events.paint, events.labels_update, events.set_data, events.data

    def _connect(self) -> None:
        for emitter in self._emitters():
            emitter.connect(self._update)
        self.labels.events.selected_label.connect(self._bound_label)
        self._viewer.layers.events.removed.connect(self._on_removed)

    def _bound_label(self, event: Any = None) -> None:  # noqa: ANN401 - napari's events
        """Keep the brush from labels that stand for no image."""
        if self.labels.selected_label > self._subject.stack.n_images:
            self.labels.selected_label = self._subject.stack.n_images

    def _on_removed(self, event: Any = None) -> None:  # noqa: ANN401 - napari's events
        if self.labels not in self._viewer.layers:
            self.end("the retouch layer was deleted; its strokes stay in the picture")
        elif self._subject.fused not in self._viewer.layers:
            self.end("the fused picture was deleted")

    def _update(self, event: Any = None) -> None:  # noqa: ANN401 - napari's events
        """Work the next piece in, unless one is under way: then the end of that one comes back here."""
        if self._job is not None or self._is_over:
            return
        painted = self.labels.data
        if painted.shape != self._heeded.shape:
            self.end("the retouch layer has another size now; start again")
            return
        box = find_difference(painted, self._heeded)
        if box is None:
            self.updated.emit()
            return
        piece = slice(box[0], box[2]), slice(box[1], box[3])
        self._heeded[piece] = painted[piece]
        job = BackgroundJob(partial(self._retouch, box), owner=self)
        job.returned.connect(self._show)
        job.failed.connect(self.failed)
        job.ended.connect(self._go_on)
        self._job = job
        job.start()

    def _retouch(self, box: Box, job: BackgroundJob) -> RetouchedWindow:
        """Ask the engine; runs in the worker thread, while nobody else changes what it reads."""
        if self._stack is None:
            self._stack = align_images(self._subject.stack.cut_images(), self._subject.stack, job=job)
        return retouch(
            self._stack,
            self._heeded,
            fused=self._fused,
            source_index=self._index,
            window=box,
            focus_range=self._focus_range,
            config=self._subject.config,
        )

    def _show(self, answer: RetouchedWindow) -> None:
        if self._is_over:
            return
        self._focus_range = answer.focus_range
        for layer, samples in ((self._subject.fused, answer.fused), (self._subject.index, answer.source_index)):
            layer.data[answer.window.slices] = samples
            layer.refresh(thumbnail=False, highlight=False, extent=False)
        record = dict(self._subject.fused.metadata.get(METADATA_KEY, {}))
        self._subject.fused.metadata[METADATA_KEY] = {**record, "is_retouched": bool(self._heeded.any())}

    def _go_on(self) -> None:
        self._job = None
        self._update()


def find_difference(painted: Any, heeded: Any) -> Box | None:  # noqa: ANN401 - arrays of labels
    """Return a box of at most one piece around the first labels that differ, or None where all are heeded."""
    is_new = painted != heeded
    rows = np.flatnonzero(is_new.any(axis=1))
    if not len(rows):
        return None
    top, bottom = int(rows[0]), int(min(rows[-1] + 1, rows[0] + LARGEST_PIECE_PX))
    columns = np.flatnonzero(is_new[top:bottom].any(axis=0))
    left, right = int(columns[0]), int(min(columns[-1] + 1, columns[0] + LARGEST_PIECE_PX))
    return top, left, bottom, right


def color_sources(n_images: int) -> DirectLabelColormap:
    """Return the colors of the source index for the labels of the images, and none for what the engine decides."""
    colors: dict[int | None, Any] = {None: np.zeros(4), 0: np.zeros(4)}
    colors.update(enumerate(ensure_colormap("turbo").map(np.linspace(0, 1, n_images)), start=1))
    return DirectLabelColormap(color_dict=colors)
