"""Fusion of many stacks: every folder below one, with a table of what became of them and a click to look at each."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from magicgui import magic_factory
from magicgui.widgets import Container, FunctionGui
from napari.viewer import Viewer

from napari_qmcif.aligning import ALIGNMENTS
from napari_qmcif.file_actions import open_stack_layers
from napari_qmcif.form_parts import make_table
from napari_qmcif.task_choices import PRESET_WORDS
from napari_qmcif.work_row import WorkRow
from napari_qmcif.worker import EngineWorker, make_worker
from qmcif_engine import (
    PRESETS,
    BatchRow,
    FusionConfig,
    Group,
    InvalidConfigError,
    find_groups,
    fuse_to_file,
    open_stack,
    prepare_stack,
    run_batch,
)

SUFFIXES = (".ome.tif", ".ome.zarr", ".tif", ".png", ".jpg")
TABLE_HEIGHT_PX = 200
NARROWEST_PX = 50
"""Of a column; the reason of a failure gets the room that is left."""

COLUMNS = ("status", "time", "result")

Folder = Annotated[Path, {"mode": "d"}]


class Batch(NamedTuple):
    """The stacks of a batch and how they are fused."""

    groups: tuple[Group, ...]
    results: Path
    config: FusionConfig
    align: str
    even_exposure: bool
    suffix: str
    with_maps: bool

    def target_of(self, group: Group) -> Path:
        """Return where the fused image of a stack goes."""
        return self.results / f"{group.name}{self.suffix}"

    def maps_of(self, group: Group) -> Path | None:
        """Return the folder of the maps of a stack, where they are wanted."""
        return self.results / f"{group.name}_maps" if self.with_maps else None

    def fuse(self, group: Group, job: EngineWorker) -> Sequence[Path]:
        """Fuse one stack, unless its result is there; an interrupted one is gone on with."""
        job.check_cancelled()
        job.note(f"{self.groups.index(group) + 1} of {len(self.groups)}: {group.name}")
        target = self.target_of(group)
        if target.exists():
            return ()
        with open_stack(list(group.inputs)) as opened:
            stack = prepare_stack(opened, align=self.align, even_exposure=self.even_exposure, check_cancelled=job.check_cancelled)
            options: dict[str, Any] = {"on_progress": job.report, "is_cancelled": job.is_cancelled}
            fuse_to_file(stack, target, self.config, maps=self.maps_of(group), resume=True, **options)
        return (target,)


def fuse_groups(batch: Batch, *, job: EngineWorker) -> None:
    """Fuse one stack after the other, past those that fail, and tell what became of each."""
    batch.results.mkdir(parents=True, exist_ok=True)
    run_batch(batch.groups, partial(batch.fuse, job=job), on_row=job.tell)


@magic_factory(
    call_button="Fuse all",
    align={"choices": ALIGNMENTS},
    preset={"label": "Quality", "choices": [(PRESET_WORDS.get(name, name), name) for name in PRESETS]},
    suffix={"choices": SUFFIXES, "label": "Format"},
)
def fuse_many(
    napari_viewer: Viewer,
    folder: Folder,
    results: Folder,
    pattern: str = "",
    align: str = "none",
    even_exposure: bool = False,
    preset: str = "default",
    suffix: str = ".ome.tif",
    with_maps: bool = True,
) -> EngineWorker:
    """Fuse every stack below a folder, one after the other; one that fails does not keep the others from being fused.

    Parameters
    ----------
    napari_viewer : napari.Viewer
    folder : Path
        Every folder of images below it, and every OME-Zarr, is a stack.
    results : Path
        Folder for the fused images, which are named after their stacks; a stack whose fused image is already there is skipped.
    pattern : str
        Or names of files below the folder, such as {group}_z{frame}.tif.
    align, even_exposure, preset
        As for one stack.
    suffix : str
        Format of the images.
    with_maps : bool
        Write the source index and the other maps, too.

    Returns
    -------
    EngineWorker
        Under way; its signal `told` passes a `BatchRow` for every stack.

    Raises
    ------
    QmcifError
        When there is no stack.
    """
    # the value of an empty file box, which would mean wherever napari was started
    if Path() in (folder, results):
        msg = "no folder is chosen; one with the stacks and one for the results are needed: choose them, or give their whole paths"
        raise InvalidConfigError(msg)
    # results may lie below the folder: they are no stacks of the next run
    groups = tuple(find_groups(folder, pattern or None, leave_out=results))
    batch = Batch(groups, results, PRESETS[preset], align, even_exposure, suffix, with_maps)
    # waited for after Cancel, since a second run would meet the files it still writes
    worker = make_worker(fuse_groups, batch, is_waited_for=True)
    # rows come by name; the table looks up here what belongs to one
    worker.batch = batch
    worker.start()
    return worker


class BatchWidget(Container[Any]):
    """The form of `fuse_many` with a table of what became of the stacks; a click on a row opens it."""

    def __init__(self, napari_viewer: Viewer) -> None:
        self._viewer = napari_viewer
        self.rows: list[BatchRow] = []
        self._told: str | None = None
        self.form: FunctionGui[..., Any] = fuse_many(call_button=False)
        self.row = WorkRow(self.form, text="Fuse all", on_end=self._end)
        self.table = make_table(TABLE_HEIGHT_PX, tooltip="Click on a row to open its result, or its images")
        self.table.native.horizontalHeader().setDefaultSectionSize(NARROWEST_PX)
        self.table.native.horizontalHeader().setStretchLastSection(True)
        super().__init__(widgets=[self.form, self.row, self.table], labels=False)
        self.form.margins = (0, 0, 0, 0)
        for place in (self.form.folder, self.form.results):
            # "Choose directory" would take half of a narrow dock
            place.choose_btn.text = "…"
        self.form.called.connect(self._follow)
        self.table.native.cellClicked.connect(self.inspect)

    def shut_down(self) -> None:
        """Stop what runs; what is finished is kept, and the next run goes on from there."""
        self.row.cancel()

    def inspect(self, number: int, _: int = 0) -> None:
        """Open the result of a stack, or its images where there is none, and say why."""
        found = self.rows[number]
        group = next(group for group in self._batch.groups if group.name == found.name)
        # the row shows one piece of work at a time, and the batch goes first
        if not self.row.is_running:
            written = [path for path in (self._batch.target_of(group), self._batch.maps_of(group)) if path is not None and path.exists()]
            # opening has messages of its own: the reason is said once they are over
            self._told = found.message
            self.row.attempt(lambda: open_stack_layers(self._viewer, written or list(group.inputs)))

    def _follow(self, worker: EngineWorker) -> None:
        self.rows.clear()
        self._batch: Batch = worker.batch
        worker.told.connect(self._add)

    def _add(self, row: BatchRow) -> None:
        self.rows.append(row)
        cells = [[known.status, f"{known.seconds:.1f} s", known.message or f"{known.name}{self._batch.suffix}"] for known in self.rows]
        self.table.value = {"data": cells, "index": tuple(known.name for known in self.rows), "columns": COLUMNS}
        for column in (0, 1):
            self.table.native.resizeColumnToContents(column)
        self.table.visible = True

    def _end(self) -> None:
        """Report why a stack failed that was opened, or how many did what."""
        if self._told is not None:
            self.row.message.say(self._told or self.row.message.text())
            self._told = None
            return
        counts = {status: sum(row.status == status for row in self.rows) for status in ("fused", "skipped", "failed")}
        n_left = len(self._batch.groups) - len(self.rows)
        told = [f"{count} {status}" for status, count in counts.items() if count] + [f"{n_left} not begun or interrupted"] * (n_left > 0)
        self.row.message.say(", ".join(told))
