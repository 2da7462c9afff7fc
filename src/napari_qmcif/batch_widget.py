"""Fusion of many stacks below one folder, with a table of the outcome of each and a click to look at it."""
# annotations stay evaluated: magicgui reads them

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from magicgui import magic_factory
from magicgui.widgets import Container, FunctionGui
from napari.viewer import Viewer

from napari_qmcif.form_parts import make_table
from napari_qmcif.layers_out import ALIGNMENTS, add_layers
from napari_qmcif.reader import open_files
from napari_qmcif.settings_form import PRESET_WORDS
from napari_qmcif.work_row import WorkRow
from napari_qmcif.worker import EngineWorker
from qmcif_engine import (
    PRESETS,
    BatchRow,
    FusionConfig,
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

Folder = Annotated[Path, {"mode": "d"}]


class Batch(NamedTuple):
    """The stacks of a batch and how they are fused."""

    groups: tuple[Group, ...]
    results: Path
    config: FusionConfig
    align: str = "none"
    even_exposure: bool = False
    suffix: str = ".ome.tif"
    with_maps: bool = False
    with_heights: bool = False
    overwrite: bool = False

    def outputs_of(self, group: Group) -> list[Path]:
        """Return where the fused image of a stack goes, its maps, and its heights, as far as they are wanted."""
        places = [self.results / f"{group.name}{self.suffix}"]
        places += [self.results / f"{group.name}_maps"] * self.with_maps
        return places + [self.results / f"{group.name}_height.tif"] * self.with_heights

    def fuse(self, group: Group, job: EngineWorker) -> Sequence[Path]:
        """Fuse one stack, unless its result is there; an interrupted one is gone on with."""
        job.check_cancelled()
        job.note(f"{self.groups.index(group) + 1} of {len(self.groups)}: {group.name}")
        target, *_ = self.outputs_of(group)
        if target.exists() and not self.overwrite:
            return ()
        with open_stack(list(group.inputs)) as opened:
            stack = prepare_stack(opened, align=self.align, even_exposure=self.even_exposure, check_cancelled=job.check_cancelled)
            options: dict[str, Any] = {"on_progress": job.report, "is_cancelled": job.is_cancelled, "overwrite": self.overwrite}
            if self.with_maps:
                options["maps"] = self.results / f"{group.name}_maps"
            if self.with_heights:
                unit = stack.metadata.unit if stack.metadata.z_step else None
                place = self.results / f"{group.name}_height.tif"
                options["height"] = HeightRequest(target=place, z_step=stack.metadata.z_step or 1.0, unit=unit)
            fuse_to_file(stack, target, self.config, resume=not self.overwrite, **options)
        return (target,)


def fuse_groups(batch: Batch, *, job: EngineWorker) -> None:
    """Fuse one stack after the other, past those that fail, and report the outcome of each."""
    batch.results.mkdir(parents=True, exist_ok=True)
    run_batch(batch.groups, partial(batch.fuse, job=job), on_row=job.tell)


def find_stacks(folder: Path, pattern: str, results: Path) -> tuple[Group, ...]:
    """Return the stacks below a folder: those of the pattern, else folders of images, else files with one stack each."""
    try:
        # results may lie below the folder: they are no stacks of the next run
        return tuple(find_groups(folder, pattern or None, leave_out=results))
    except QmcifError as error:
        refused = error
    for one_file in () if pattern else ONE_FILE_PATTERNS:
        try:
            return tuple(find_groups(folder, one_file, leave_out=results))
        except QmcifError:
            continue
    raise refused


@magic_factory(
    call_button=False,
    folder={"label": "Folder"},
    results={"label": "Results"},
    pattern={"label": "Pattern"},
    align={"label": "Align", "choices": ALIGNMENTS},
    even_exposure={"label": "Even exposure"},
    overwrite={"label": "Overwrite"},
    preset={"label": "Quality", "choices": [(PRESET_WORDS.get(name, name), name) for name in PRESETS]},
    suffix={"choices": SUFFIXES, "label": "Format"},
    with_maps={"label": "Maps"},
    with_heights={"label": "Heights"},
)
def fuse_many(
    folder: Folder,
    results: Folder,
    pattern: str = "",
    align: str = "none",
    even_exposure: bool = False,
    preset: str = "default",
    suffix: str = ".ome.tif",
    with_maps: bool = True,
    with_heights: bool = False,
    overwrite: bool = False,
) -> Batch:
    """Return what is to be fused: every stack below a folder, one after the other; one that fails does not hinder the others.

    Parameters
    ----------
    folder : Path
        Every folder of images below it, and every OME-Zarr, is a stack; where there are none, every file that holds one.
    results : Path
        Folder for the fused images, which are named after their stacks; a stack whose fused image is already there is skipped.
    pattern : str
        Or names of files below the folder, such as {group}_z{frame}.tif.
    align, even_exposure, preset
        As for one stack.
    suffix : str
        Format of the images.
    with_maps : bool
        Write the source map and the other maps, too.
    with_heights : bool
        Write the height of every pixel, too.
    overwrite : bool
        Fuse all stacks again, and replace their results.
    """
    # the value of an empty file box, which would mean wherever napari was started
    if Path() in (folder, results):
        msg = "no folder is chosen; one with the stacks and one for the results are needed: choose them, or give their whole paths"
        raise InvalidConfigError(msg)
    groups = find_stacks(folder, pattern, results)
    return Batch(groups, results, PRESETS[preset], align, even_exposure, suffix, with_maps, with_heights, overwrite)


def _open(paths: list[Path], *, job: EngineWorker) -> list[Any]:
    job.note(f"opening {paths[0].name}")
    return list(open_files(paths, remark=job.remark))


class BatchWidget(Container[Any]):
    """The form of `fuse_many` with a table of the outcomes; a click on a row opens its result, or its images where there is none."""

    def __init__(self, napari_viewer: Viewer) -> None:
        self._viewer = napari_viewer
        self.rows: list[BatchRow] = []
        self._batch: Batch | None = None
        self._reason: str | None = None
        self.form: FunctionGui[..., Any] = fuse_many()
        self.row = WorkRow(self._start, text="Fuse all", on_end=self._end)
        self.table = make_table(TABLE_HEIGHT_PX, tooltip="Click on a row to open its result, or its images")
        self.table.native.horizontalHeader().setDefaultSectionSize(NARROWEST_PX)
        self.table.native.horizontalHeader().setStretchLastSection(True)
        super().__init__(widgets=[self.form, self.row, self.table], labels=False)
        self.form.margins = (0, 0, 0, 0)
        for place in (self.form.folder, self.form.results):
            # "Choose directory" would take half of a narrow dock
            place.choose_btn.text = "…"
        self.table.native.cellClicked.connect(self.inspect)

    def shut_down(self) -> None:
        """Stop what runs; what is finished is kept, and the next run goes on from there."""
        self.row.cancel()

    def inspect(self, number: int, _: int = 0) -> None:
        """Open the result of a stack, or its images where there is none, and show why."""
        # the row shows one piece of work at a time, and the batch goes first
        if self._batch is not None and not self.row.is_running:
            found = self.rows[number]
            group = next(group for group in self._batch.groups if group.name == found.name)
            paths = [path for path in self._batch.outputs_of(group) if path.exists()] or list(group.inputs)
            worker = EngineWorker(_open, paths)
            worker.returned.connect(partial(add_layers, self._viewer))
            # opening has messages of its own: the reason is shown once they are over
            self._reason = found.message
            self.row.follow(worker)
            worker.start()

    def _start(self) -> EngineWorker:
        self._batch = self.form()
        self.rows.clear()
        # waited for after Cancel, since a second run would meet the files it still writes
        worker = EngineWorker(fuse_groups, self._batch, is_waited_for=True)
        worker.told.connect(self._add)
        worker.start()
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
            self.row.message.say(self._reason or self.row.message.text())
            self._reason = None
            return
        counts = {status: sum(row.status == status for row in self.rows) for status in ("fused", "skipped", "failed")}
        n_left = (0 if self._batch is None else len(self._batch.groups)) - len(self.rows)
        words = [f"{count} {status}" for status, count in counts.items() if count] + [f"{n_left} not begun or interrupted"] * (n_left > 0)
        self.row.message.say(", ".join(words))
