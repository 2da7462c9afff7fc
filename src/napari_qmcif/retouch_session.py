"""The strokes of a person on a labels layer, followed by the fused picture.

What changed is found by comparing the labels with those already heeded: that holds for the brush, for filling, for undo and redo, and
for whatever else changes labels. The engine works in a thread of its own, on one piece at a time, so that painting goes on meanwhile.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import numpy as np
from napari.layers import Layer
from napari.utils.colormaps import DirectLabelColormap, ensure_colormap
from napari.viewer import Viewer
from numpy.typing import NDArray
from qtpy.QtCore import QObject, Signal

from napari_qmcif.aligning import align_images
from napari_qmcif.provenance import METADATA_KEY, read_record
from napari_qmcif.retouch_subject import RetouchSubject
from napari_qmcif.worker import EngineWorker, make_worker
from qmcif_engine import FocusRange, RetouchedWindow, retouch

LARGEST_PIECE_PX = 512
"""Side of the largest piece that is fused at once: so much takes a fraction of a second."""

BRUSH_SIZE_PX = 20
ORIGINAL_KEY = "qmcif_original"
"""Under this name the metadata of a retouched picture hold what the engine made of it, as long as the viewer is open."""

Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Original:
    """What the engine decided, and the strokes that lie in the picture now: so a person can go on, or take everything back.

    Attributes
    ----------
    name : str
        Identifies the labels layer with the strokes.
    fused, index : ndarray
        Copies from before any retouching.
    heeded : ndarray of int, shape (Y, X)
        The labels that are worked into the picture; changed in place.
    was_retouched : bool
        Whether the copies themselves hold earlier strokes, of a result that was saved and opened again.
    """

    name: str
    fused: NDArray[Any]
    index: NDArray[Any]
    heeded: NDArray[Any]
    was_retouched: bool

    @classmethod
    def of_subject(cls, subject: RetouchSubject) -> Original:
        """Return what an earlier session kept, or keep it from now on."""
        kept = subject.fused.metadata.get(ORIGINAL_KEY)
        if isinstance(kept, cls) and kept.fused.shape == subject.fused.data.shape:
            return kept
        labels = np.zeros(subject.stack.picture_shape, np.min_scalar_type(subject.stack.n_images))
        was_retouched = read_record(subject.fused).get("is_retouched") is True
        made = cls(uuid.uuid4().hex, subject.fused.data.copy(), subject.index.data.copy(), labels, was_retouched)
        subject.fused.metadata[ORIGINAL_KEY] = made
        return made


class RetouchSession(QObject):
    """Strokes on a labels layer over a result, which is fused again wherever it is painted.

    A second session on the same result goes on with the layer of the first, its undo history included; where that layer was deleted,
    with a new one that shows the strokes.

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
        self._job: EngineWorker | None = None
        self._pending: tuple[tuple[slice, slice], NDArray[Any]] | None = None
        self._is_over = False
        self._focus_range: tuple[float, float] | tuple[FocusRange, ...] | None = subject.focus_range
        self._original = Original.of_subject(subject)
        self.labels = self._find_labels() or self._add_labels()
        self.labels.mode = "paint"
        viewer.layers.selection.active = self.labels
        self._connect()
        self._update()

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
        if self._job is not None and self._pending is not None:
            self._job.cancel()
            piece, before = self._pending
            self._original.heeded[piece] = before  # given up, so not in the picture
        self.ended.emit(reason)

    def _find_labels(self) -> Any:  # noqa: ANN401 - a layer, or None
        """Return the layer of an earlier session."""
        found = [layer for layer in self._viewer.layers if read_record(layer).get("of") == self._original.name]
        return found[-1] if found and found[-1].data.shape == self._original.heeded.shape else None

    def _add_labels(self) -> Layer:
        labels = self._viewer.add_labels(
            self._original.heeded.copy(),
            name="retouch",
            colormap=color_sources(self._subject.stack.n_images),
            metadata={METADATA_KEY: {"part": "retouch", "of": self._original.name}},  # whole numbers, but no source index
            **self._subject.stack.placement.as_layer_arguments(),
        )
        labels.brush_size = BRUSH_SIZE_PX
        return labels

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
            self.end("the retouch layer was deleted; its strokes stay in the picture, and Start brings them back")
        elif self._subject.fused not in self._viewer.layers:
            self.end("the fused picture was deleted")

    def _update(self, event: Any = None) -> None:  # noqa: ANN401 - napari's events
        """Work the next piece in, unless one is under way: then the end of that one comes back here."""
        if self._job is not None or self._is_over:
            return
        painted, heeded = self.labels.data, self._original.heeded
        if painted.shape != heeded.shape:
            self.end("the retouch layer has another size now; start again")
            return
        box = find_difference(painted, heeded)
        if box is None:
            self.updated.emit()
            return
        piece = slice(box[0], box[2]), slice(box[1], box[3])
        self._pending = piece, heeded[piece].copy()
        heeded[piece] = painted[piece]
        job = make_worker(self._retouch, box, owner=self)
        job.returned.connect(self._show)
        job.errored.connect(self.failed)
        job.finished.connect(self._go_on)
        self._job = job
        job.start()

    def _retouch(self, box: Box, *, job: EngineWorker) -> RetouchedWindow:
        """Ask the engine; runs in the worker thread, while nobody else changes what it reads."""
        return retouch(
            align_images(self._subject.stack.cut_images(), self._subject.stack, job=job),
            self._original.heeded,
            fused=self._original.fused.astype(self._subject.stack.dtype, copy=False),
            source_index=self._original.index,
            window=box,
            focus_range=self._focus_range,
            config=self._subject.config,
        )

    def _show(self, answer: RetouchedWindow) -> None:
        self._focus_range = answer.focus_range
        is_retouched = self._original.was_retouched or bool(self._original.heeded.any())
        fused = self._subject.stack.restored(answer.fused)
        for layer, samples in ((self._subject.fused, fused), (self._subject.index, answer.source_index)):
            layer.data[answer.window.slices] = samples
            layer.refresh(thumbnail=False, highlight=False, extent=False)
            layer.metadata[METADATA_KEY] = {**read_record(layer), "is_retouched": is_retouched}

    def _go_on(self) -> None:
        self._job = self._pending = None
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
