"""The strokes of a person on a labels layer, followed by the fused image.

What changed is found by comparing the labels with those already heeded: that holds for the brush, for filling, for undo and redo, and
for whatever else changes labels. The engine works in a thread of its own, on one piece at a time, so that painting goes on meanwhile.
A result with several images, one per time point, has one labels layer with the same axes: a stroke belongs to the time it was painted at.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from napari.layers import Layer
from napari.utils.colormaps import DirectLabelColormap, ensure_colormap
from napari.viewer import Viewer
from numpy.typing import NDArray
from qtpy.QtCore import QObject, Signal

from napari_qmcif.aligning import align_images
from napari_qmcif.layers_in import ChosenStack, transform_of
from napari_qmcif.layers_out import METADATA_KEY, Place, find_sources, prepare_alike, read_record, read_settings
from napari_qmcif.worker import EngineWorker
from qmcif_engine import FocusRange, FusionConfig, InvalidImageError, RetouchedWindow, retouch

LARGEST_PIECE_PX = 512
"""Side of the largest piece that is fused at once: so much takes a fraction of a second."""

BRUSH_SIZE_PX = 20
ORIGINAL_KEY = "qmcif_original"
"""Under this name the metadata of a retouched image hold what the engine made of it, as long as the viewer is open."""

Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetouchSubject:
    """A result in memory, which is changed in place, the images of the time point that is shown, and the settings of the fusion.

    Settings are the defaults where the result does not say them; the focus range is that of the first time point.
    """

    stack: ChosenStack
    fused: Any
    index: Any
    config: FusionConfig
    focus_range: tuple[float, float] | None

    def stack_at(self, place: Place, layers: Sequence[Layer]) -> ChosenStack:
        """Return the images that one of several fused images was made from."""
        found = find_sources(self.fused, layers, place=place) if place else None
        return self.stack if found is None else prepare_alike(found, self.fused)


def assemble_subject(stack: ChosenStack, *, fused: Layer, index: Layer | None) -> RetouchSubject:
    """Return what is to be retouched, once everything is known to belong together."""
    if index is None:
        msg = "no source index is chosen; that of the result is needed: fuse a stack first, or choose it"
        raise InvalidImageError(msg)
    for layer in (fused, index):
        if layer.multiscale or not isinstance(layer.data, np.ndarray):
            msg = f"{layer.name!r} is on disk; retouching changes samples in memory: run the fusion without a place under Result"
            raise InvalidImageError(msg)
        shape = layer.data.shape[: layer.ndim]
        if shape[-2:] != stack.size_px:
            msg = (
                f"{layer.name!r} has {shape[-2:]} pixels and the sources {stack.size_px}; equal ones are needed: "
                "choose the images it was fused from"
            )
            raise InvalidImageError(msg)
    if fused.data.shape[: fused.ndim] != index.data.shape:
        msg = (
            f"{fused.name!r} has shape {fused.data.shape[: fused.ndim]} and {index.name!r} {index.data.shape}; "
            "a source index of the same result is needed: choose it"
        )
        raise InvalidImageError(msg)
    config, focus_range = read_settings(fused)
    return RetouchSubject(stack=prepare_alike(stack, fused), fused=fused, index=index, config=config, focus_range=focus_range)


@dataclass(frozen=True, slots=True, eq=False)
class Original:
    """What the engine decided, and the strokes that lie in the result now: so a person can go on, or take everything back.

    The name identifies the labels layer with the strokes; `heeded`, shape (…, Y, X), has the labels that are worked in and is changed in
    place. A result that was saved and opened again may have been retouched before. By place, `images` keep the fused image and its source
    index from before any retouching; they are copied when a place is first painted on.
    """

    name: str
    heeded: NDArray[Any]
    was_retouched: bool
    images: dict[Place, tuple[NDArray[Any], NDArray[Any]]] = field(default_factory=dict)

    @classmethod
    def of_subject(cls, subject: RetouchSubject) -> Original:
        """Return what an earlier session kept, or keep it from now on."""
        kept = subject.fused.metadata.get(ORIGINAL_KEY)
        if isinstance(kept, cls) and kept.heeded.shape == subject.index.data.shape:
            return kept
        # label 0 leaves the decision to the engine, so that images count from 1
        labels = np.zeros(subject.index.data.shape, np.min_scalar_type(subject.stack.n_images))
        made = cls(uuid.uuid4().hex, labels, read_record(subject.fused).get("is_retouched") is True)
        subject.fused.metadata[ORIGINAL_KEY] = made
        return made

    def keep(self, subject: RetouchSubject, place: Place) -> None:
        """Copy an image and its decisions before they are first changed."""
        if place not in self.images:
            self.images[place] = subject.fused.data[place].copy(), subject.index.data[place].copy()


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """A box of one image that is worked in, with the labels that were heeded there before."""

    place: Place
    box: Box
    cut: tuple[int | slice, ...]
    before: NDArray[Any]


class RetouchSession(QObject):
    """Strokes on a labels layer over a result, which is fused again wherever it is painted.

    A second session on the same result goes on with the layer of the first, its undo history included; where that layer was deleted,
    with a new one that shows the strokes.
    """

    updated = Signal()
    failed = Signal(object)
    ended = Signal(str)

    def __init__(self, viewer: Viewer, subject: RetouchSubject) -> None:
        super().__init__()
        self._viewer, self._subject = viewer, subject
        self._job: EngineWorker | None = None
        self._piece: _Piece | None = None
        self._is_over = False
        # what the record says was measured there; other time points tell theirs when they are first painted on
        first = (0,) * (subject.index.ndim - 2)
        self._focus_ranges: dict[Place, tuple[float, float] | FocusRange | tuple[FocusRange, ...]] = (
            {} if subject.focus_range is None else {first: subject.focus_range}
        )
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
        """Give every pixel back to the engine; napari can undo it."""
        if not self._is_over and self.labels.data.any():
            # through the layer, so that it has its place in the history of undo
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
        if self._job is not None and self._piece is not None:
            self._job.cancel()
            self._original.heeded[self._piece.cut] = self._piece.before  # given up, so not in the image
        if self.labels in self._viewer.layers:
            # else strokes would have no effect; a layer that is not editable would lose its history of undo
            self.labels.mode = "pan_zoom"
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
            **transform_of(self._subject.fused),
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
            self.end("the retouch layer was deleted; its strokes stay in the result, and Start brings them back")
        elif self._subject.fused not in self._viewer.layers:
            self.end("the fused image was deleted")

    def _update(self, event: Any = None) -> None:  # noqa: ANN401 - napari's events
        """Work the next piece in, unless one is under way: then the end of that one comes back here."""
        if self._job is not None or self._is_over:
            return
        painted, heeded = self.labels.data, self._original.heeded
        if painted.shape != heeded.shape:
            self.end("the retouch layer has another size now; start again")
            return
        found = find_piece(painted, heeded)
        if found is None:
            self.updated.emit()
            return
        place, box = found
        cut: tuple[int | slice, ...] = (*place, slice(box[0], box[2]), slice(box[1], box[3]))
        self._piece = piece = _Piece(place, box, cut, heeded[cut].copy())
        # before the work: strokes that come meanwhile differ from it, and are found afterwards
        heeded[cut] = painted[cut]
        self._original.keep(self._subject, piece.place)
        # on the GUI thread, since it looks at layers
        stack = self._subject.stack_at(piece.place, list(self._viewer.layers))
        job = EngineWorker(self._retouch, piece, stack)
        job.returned.connect(self._show)
        job.errored.connect(self.failed)
        job.finished.connect(self._go_on)
        self._job = job
        job.start()

    def _retouch(self, piece: _Piece, stack: ChosenStack, *, job: EngineWorker) -> RetouchedWindow:
        """Ask the engine; runs in the worker thread, while nobody else changes what it reads."""
        fused, index = self._original.images[piece.place]
        return retouch(
            align_images(stack.cut_images(), stack, job=job),
            self._original.heeded[piece.place],
            fused=fused.astype(stack.dtype, copy=False),
            source_index=index,
            window=piece.box,
            focus_range=self._focus_ranges.get(piece.place),
            config=self._subject.config,
        )

    def _show(self, answer: RetouchedWindow) -> None:
        # the session has ended meanwhile
        if self._piece is None:
            return
        place = self._piece.place
        self._focus_ranges[place] = answer.focus_range
        # no label is left where all strokes were taken back
        is_retouched = self._original.was_retouched or bool(self._original.heeded.any())
        fused = self._subject.stack.restored(answer.fused)
        for layer, samples in ((self._subject.fused, fused), (self._subject.index, answer.source_index)):
            layer.data[(*place, *answer.window.slices)] = samples
            # what is seen, and nothing that would be computed from the whole image
            layer.refresh(thumbnail=False, highlight=False, extent=False)
            layer.metadata[METADATA_KEY] = {**read_record(layer), "is_retouched": is_retouched}

    def _go_on(self) -> None:
        self._job = self._piece = None
        self._update()


def find_piece(painted: Any, heeded: Any) -> tuple[Place, Box] | None:  # noqa: ANN401 - arrays of labels
    """Return the place and a box of at most one piece around the first labels that differ, or None where all are heeded."""
    for place in np.ndindex(*painted.shape[:-2]):
        box = find_difference(painted[place], heeded[place])
        if box is not None:
            return place, box
    return None


def find_difference(painted: Any, heeded: Any) -> Box | None:  # noqa: ANN401 - arrays of labels
    """Return a box of at most one piece around the first labels of one image that differ, or None where all are heeded."""
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
