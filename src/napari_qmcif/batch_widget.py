"""Fusion of many stacks below one folder, with a table of the outcome of each and a click to look at it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from magicgui.types import FileDialogMode
from magicgui.widgets import CheckBox, ComboBox, FileEdit, LineEdit
from napari.viewer import Viewer

from napari_qmcif.form_parts import make_table
from napari_qmcif.layers_out import ALIGNMENTS, add_layers
from napari_qmcif.reader import open_files
from napari_qmcif.settings_form import PRESET_WORDS
from napari_qmcif.work_row import Page, WorkRow
from napari_qmcif.worker import EngineWorker
from qmcif_engine import (
    PRESETS,
    BatchRow,
    Group,
    HeightRequest,
    InvalidConfigError,
    QmcifError,
    find_groups,
    fuse_to_file,
    open_stack,
    prepare_stack,
    run_batch,
)

SUFFIXES = (".ome.tif", ".ome.zarr", ".tif", ".png", ".jpg")
ONE_FILE_PATTERNS = tuple(f"{{group}}{suffix}" for suffix in (".ome.tif", ".ome.tiff", ".tif", ".tiff", ".czi", ".lif", ".nd2"))
"""For a folder with one file for each stack, where nobody gave a pattern."""

TABLE_HEIGHT_PX = 200
NARROWEST_PX = 50
"""Of a column; the reason of a failure gets the room that is left."""


class Batch(NamedTuple):
    """The stacks of a batch and how they are fused; what follows the stacks are the values of the form."""

    groups: tuple[Group, ...]
    folder: Path
    results: Path
    pattern: str
    align: str
    even_exposure: bool
    preset: str
    suffix: str
    with_maps: bool
    with_heights: bool
    overwrite: bool

    def outputs_of(self, group: Group) -> dict[str, Path]:
        """Return where the fused image of a stack goes, its maps, and its heights, as far as they are wanted."""
        places = {"image": self.results / f"{group.name}{self.suffix}"}
        places |= {"maps": self.results / f"{group.name}_maps"} if self.with_maps else {}
        return places | ({"height": self.results / f"{group.name}_height.tif"} if self.with_heights else {})

    def fuse(self, group: Group, job: EngineWorker) -> Sequence[Path]:
        """Fuse one stack, unless its result is there; an interrupted one is gone on with."""
        job.check_cancelled()
        job.note(f"{self.groups.index(group) + 1} of {len(self.groups)}: {group.name}")
        places = self.outputs_of(group)
        if places["image"].exists() and not self.overwrite:
            return ()
        with open_stack(list(group.inputs)) as opened:
            stack = prepare_stack(opened, align=self.align, even_exposure=self.even_exposure, check_cancelled=job.check_cancelled)
            height, z_step = None, stack.metadata.z_step
            if "height" in places:
                height = HeightRequest(target=places["height"], z_step=z_step or 1.0, unit=stack.metadata.unit if z_step else None)
            options: dict[str, Any] = {"on_progress": job.report, "is_cancelled": job.is_cancelled}
            options |= {"resume": not self.overwrite, "overwrite": self.overwrite}
            fuse_to_file(stack, places["image"], PRESETS[self.preset], maps=places.get("maps"), height=height, **options)
        return (places["image"],)


def fuse_groups(batch: Batch, *, job: EngineWorker) -> None:
    """Fuse one stack after the other, past those that fail, and report the outcome of each."""
    batch.results.mkdir(parents=True, exist_ok=True)
    run_batch(batch.groups, partial(batch.fuse, job=job), on_row=job.yielded.emit)


def find_stacks(folder: Path, pattern: str, results: Path) -> tuple[Group, ...]:
    """Return the stacks below a folder: those of the pattern, else folders of images, else files with one stack each."""
    # the value of an empty file box, which would mean wherever napari was started
    if Path() in (folder, results):
        msg = "no folder is chosen; one with the stacks and one for the results are needed: choose them, or give their whole paths"
        raise InvalidConfigError(msg)
    refused: list[QmcifError] = []
    for tried in (pattern,) if pattern else (None, *ONE_FILE_PATTERNS):
        try:
            # results may lie below the folder: they are no stacks of the next run
            return tuple(find_groups(folder, tried, leave_out=results))
        except QmcifError as error:
            refused.append(error)
    raise refused[0]


def make_boxes() -> list[Any]:
    """Return the form of a batch, by the names of its fields."""
    tip = "Every folder of images below it, and every OME-Zarr, is a stack; where there are none, every file that holds one."
    folder = FileEdit(name="folder", label="Folder", mode=FileDialogMode.EXISTING_DIRECTORY, tooltip=tip)
    tip = "Folder for the fused images, which are named after their stacks; a stack whose fused image is already there is skipped."
    results = FileEdit(name="results", label="Results", mode=FileDialogMode.EXISTING_DIRECTORY, tooltip=tip)
    for place in (folder, results):
        # "Choose directory" would take half of a narrow dock
        place.choose_btn.text = "…"
    tip = "Or names of files below the folder, such as {group}_z{frame}.tif."
    presets = [(PRESET_WORDS.get(name, name), name) for name in PRESETS]
    return [
        folder,
        results,
        LineEdit(name="pattern", label="Pattern", tooltip=tip),
        ComboBox(name="align", label="Align", choices=ALIGNMENTS, tooltip="As for one stack."),
        CheckBox(name="even_exposure", text="Even exposure", tooltip="As for one stack."),
        ComboBox(name="preset", label="Quality", choices=presets, tooltip="As for one stack."),
        ComboBox(name="suffix", label="Format", choices=SUFFIXES, tooltip="Format of the images."),
        CheckBox(name="with_maps", text="Maps", value=True, tooltip="Write the source map and the other maps, too."),
        CheckBox(name="with_heights", text="Heights", tooltip="Write the height of every pixel, too."),
        CheckBox(name="overwrite", text="Overwrite", tooltip="Fuse all stacks again, and replace their results."),
    ]


def _open(paths: list[Path], *, job: EngineWorker) -> list[Any]:
    job.note(f"opening {paths[0].name}")
    return list(open_files(paths, remark=job.remark))


class BatchWidget(Page):
    """The form of a batch with a table of the outcomes; a click on a row opens its result, or its images where there is none."""

    def __init__(self, napari_viewer: Viewer) -> None:
        self.rows: list[BatchRow] = []
        self._batch: Batch | None = None
        self._reason: str | None = None
        self.table = make_table(TABLE_HEIGHT_PX, tooltip="Click on a row to open its result, or its images")
        self.table.native.horizontalHeader().setDefaultSectionSize(NARROWEST_PX)
        self.table.native.horizontalHeader().setStretchLastSection(True)
        self.table.native.cellClicked.connect(self.inspect)
        super().__init__(napari_viewer, make_boxes(), WorkRow(self._make_work, text="Fuse all", on_end=self._end), self.table.native)

    def inspect(self, number: int, _: int = 0) -> None:
        """Open the result of a stack, or its images where there is none, and show why."""
        # the row shows one piece of work at a time, and the batch goes first
        if self._batch is not None and not self.row.is_running:
            found = self.rows[number]
            group = next(group for group in self._batch.groups if group.name == found.name)
            paths = [path for path in self._batch.outputs_of(group).values() if path.exists()] or list(group.inputs)
            # opening has messages of its own: the reason is shown once they are over
            self._reason = found.message
            self.row.attempt(lambda: EngineWorker(_open, paths, on_return=partial(add_layers, self._viewer)))

    def _make_work(self) -> EngineWorker:
        values: dict[str, Any] = self.form.asdict()
        self._batch = Batch(groups=find_stacks(values["folder"], values["pattern"], values["results"]), **values)
        self.rows.clear()
        # waited for after Cancel, since a second run would meet the files it still writes
        worker = EngineWorker(fuse_groups, self._batch, is_waited_for=True)
        worker.yielded.connect(self._add)
        return worker

    def _add(self, row: BatchRow) -> None:
        self.rows.append(row)
        suffix = "" if self._batch is None else self._batch.suffix
        cells = [[known.status, f"{known.seconds:.1f} s", known.message or f"{known.name}{suffix}"] for known in self.rows]
        self.table.value = {"data": cells, "index": tuple(known.name for known in self.rows), "columns": ("status", "time", "result")}
        for column in (0, 1):
            self.table.native.resizeColumnToContents(column)
        self.table.visible = True

    def _end(self) -> None:
        """Show why a stack failed that was opened, or how many have which outcome."""
        if self._reason is not None:
            self.row.message.show_text(self._reason or self.row.message.text())
            self._reason = None
            return
        counts = {status: sum(row.status == status for row in self.rows) for status in ("fused", "skipped", "failed")}
        n_left = (0 if self._batch is None else len(self._batch.groups)) - len(self.rows)
        words = [f"{count} {status}" for status, count in counts.items() if count] + [f"{n_left} not begun or interrupted"] * (n_left > 0)
        self.row.message.show_text(", ".join(words))
