"""The buttons Open stack and Save result: files of the viewer's layers through the engine, with scale, units, channels and record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from magicgui.widgets import Container, PushButton
from napari.layers import Layer
from napari.viewer import Viewer
from qtpy.QtWidgets import QFileDialog, QWidget

from napari_qmcif.chosen_stack import finest_level
from napari_qmcif.form_parts import group
from napari_qmcif.layer_box import part_of
from napari_qmcif.reader import open_files
from napari_qmcif.result_parts import find_parts
from napari_qmcif.work_row import WorkRow
from napari_qmcif.worker import EngineWorker, make_worker
from napari_qmcif.writer import write_layer, write_result

FOLDER_FILTER = "Folder with the fused image and its maps (*)"
IMAGE_FILTERS = ("OME-TIFF (*.ome.tif)", "OME-Zarr (*.ome.zarr)", "TIFF (*.tif)", "PNG (*.png)", "JPEG (*.jpg)")


def open_stack_layers(viewer: Viewer, paths: Sequence[Path], *, on_open: Callable[[list[Layer]], None] = lambda _: None) -> EngineWorker:
    """Open a stack or a result in a worker and add its layers: scale, units, axes and channels as the files say them."""
    worker = make_worker(_open, list(paths))
    worker.returned.connect(lambda layers: on_open(add_layers(viewer, layers)))
    worker.start()
    return worker


def add_layers(viewer: Viewer, layers: Sequence[Any]) -> list[Layer]:
    """Add what a reader returned, and select what is seen of it: the maps of a result lie hidden on top."""
    added: list[Layer] = []
    for samples, attributes, _ in layers:
        made = viewer.add_image(samples, **attributes)
        # napari makes a layer per channel where there is a channel axis
        added += made if isinstance(made, list) else [made]
    viewer.layers.selection = set([layer for layer in added if layer.visible][-1:])
    return added


def save_result(path: Path, result: Layer, layers: Sequence[Layer] = ()) -> EngineWorker:
    """Write a result in a worker: one image where the name ends as one, else a folder with the image and its maps among the layers."""
    parts = {"fused": result, **find_parts(result, layers)} if part_of(result) == "fused" else {"": result}
    chosen = [layer for part, layer in parts.items() if part not in ("preview", "retouch", "surface")]
    # data and attributes, taken on the GUI thread: the thread that writes must not touch layers
    worker = make_worker(_save, path, [layer.as_layer_data_tuple() for layer in chosen], result.as_layer_data_tuple(), is_waited_for=True)
    worker.start()
    return worker


def ask_and_save(result: Layer, layers: Sequence[Layer], *, parent: QWidget) -> EngineWorker | None:
    """Ask where to, and write there; None where nobody wanted to. The dialog asks before it replaces something."""
    # several time points do not go into one file: a folder only
    has_several = any(length > 1 for length in finest_level(result).shape[: result.ndim - 2])
    filters = [*[FOLDER_FILTER] * (has_several or len(layers) > 0), *IMAGE_FILTERS * (not has_several)]
    # a colon is refused by Windows, and a slash would name a folder
    stem = str(result.name).replace(": ", " ").replace("/", " ")
    name, chosen = QFileDialog.getSaveFileName(parent, "Save result to", stem, ";;".join(filters))
    if not name:
        return None
    suffix = "" if chosen == FOLDER_FILTER else chosen.partition("(*")[2].rstrip(")")
    # dialogs do not add suffixes of two parts, such as .ome.tif
    return save_result(Path(name if name.endswith(suffix) else name + suffix), result, layers)


class FileActions(Container[Any]):
    """Buttons that open stacks and save results, with the progress of the one that runs; stacks that were opened are handed on."""

    def __init__(self, napari_viewer: Viewer, *, on_open: Callable[[list[Layer]], None] = lambda _: None) -> None:
        self._viewer, self._on_open = napari_viewer, on_open
        tip = "OME-TIFF, ImageJ and other files with a stack, or one file per image: with scale, units, axes and channels"
        self.open_button = PushButton(text="Open stack …", tooltip=tip)
        tip = "A folder of images, an OME-Zarr, or a result that was saved as a folder"
        self.folder_button = PushButton(text="Open folder …", tooltip=tip)
        tip = "The topmost result with its maps, pixel size, z step and how it was made"
        self.save_button = PushButton(text="Save result …", tooltip=tip)
        self.row = WorkRow()
        super().__init__(widgets=[group(self.open_button, self.folder_button), self.save_button, self.row], labels=False)
        self.margins = (0, 0, 0, 0)
        self.open_button.changed.connect(self._open_files)
        self.folder_button.changed.connect(self._open_folder)
        self.save_button.changed.connect(self._save)

    def _open_files(self) -> None:
        names, _ = QFileDialog.getOpenFileNames(self.native, "Open a stack: one file that holds it, or all of its images")
        self._open([Path(name) for name in names])

    def _open_folder(self) -> None:
        name = QFileDialog.getExistingDirectory(self.native, "Open a folder of images, an OME-Zarr or a saved result")
        self._open([Path(name)] if name else [])

    def _open(self, paths: list[Path]) -> None:
        if paths:
            self.row.attempt(partial(self._start_opening, paths))

    def _start_opening(self, paths: list[Path]) -> EngineWorker:
        def pass_on(layers: list[Layer]) -> None:
            """Hand stacks of one size on, which can be fused together; the layers of a result are no sources."""
            said, sizes = list(worker.remarks), [finest_level(layer).shape for layer in layers]
            if all(part_of(layer) is None for layer in layers):
                chosen = [layer for layer, size in zip(layers, sizes, strict=True) if size == sizes[0]]
                note = f"{len(chosen)} of {len(layers)} layers are chosen, which have the size of the first: choose others under Images"
                said += [note] * (len(chosen) < len(layers))
                self._on_open(chosen)
            self.row.message.say("; ".join(said))

        worker = open_stack_layers(self._viewer, paths, on_open=pass_on)
        return worker

    def _save(self) -> None:
        """Save the selected result, or the topmost one."""
        layers = list(self._viewer.layers)
        chosen = [layer for layer in layers if layer in self._viewer.layers.selection and part_of(layer) == "fused"]
        results = chosen or [layer for layer in layers if part_of(layer) == "fused"]
        if not results:
            self.row.message.say("there is no result; a fused image is needed: fuse a stack first")
            return
        worker = ask_and_save(results[-1], layers, parent=self.native)
        if worker is not None:
            self.row.follow(worker)
            worker.returned.connect(self.row.message.say)


def _open(paths: list[Path], *, job: EngineWorker) -> list[Any]:
    job.note(f"opening {paths[0].name}")
    return list(open_files(paths, remark=job.remark))


def _save(path: Path, layers: list[Any], result: Any, *, job: EngineWorker) -> str:  # noqa: ANN401 - a layer's data
    job.note(f"saving {path.name}")
    is_image = path.name.lower().endswith((".tif", ".tiff", ".zarr", ".png", ".jpg", ".jpeg"))
    written = write_layer(str(path), *result[:2]) if is_image else write_result(str(path), layers)
    return f"saved to {path.name}" if is_image else f"saved {len(written)} files to {path.name}"
