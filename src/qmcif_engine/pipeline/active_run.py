"""A run from files to files that has begun: what is missing is computed, and then all outputs are written."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.errors import Cancelled
from qmcif_engine.io.output.formats import place_contents
from qmcif_engine.io.output.windowed_image import ImageContent
from qmcif_engine.io.remote_path import RemotePath
from qmcif_engine.io.zarr.zarr_writer import Extremes, ImageArray, ImageStore, halve_window
from qmcif_engine.pipeline.outputs import Outputs
from qmcif_engine.pipeline.pipeline import Pipeline
from qmcif_engine.pipeline.results import FusedPart, JoinedSlabs, join_times, stack_slabs
from qmcif_engine.run.execution import FusionProgress, Steps, run_tiles
from qmcif_engine.run.job import EncodedTile, Job
from qmcif_engine.run.job_folder import digest
from qmcif_engine.stack.deciding import choose_focus_range
from qmcif_engine.stack.samples import GivenRanges
from qmcif_engine.tiles.plan import Tile, TilePlan
from qmcif_engine.tiles.task import FusedTile, TileTask

if TYPE_CHECKING:
    from distributed import Client

    from qmcif_engine.pipeline.file_run import FileReport, FileRun

logger = logging.getLogger(__name__)


class ActiveRun:
    """A run that has begun: its job, who computes, and how far it is."""

    def __init__(
        self,
        run: FileRun,
        job: Job,
        *,
        client: Client | None,
        on_progress: Callable[[FusionProgress], None] | None,
        is_over: Callable[[], bool],
    ) -> None:
        self._run, self._job, self._client = run, job, client
        self._on_progress, self._is_over = on_progress, is_over
        self._tiles = run.pipeline.plan
        self._extremes = Extremes(1 if job.store is None else job.store.n_colors)
        # asked once: tiles that others finish while this run lasts do not count as resumed
        self._finished = {number: [job.is_finished(number, tile) for tile in self._checked_tiles()] for number in range(len(job.parts))}
        self._n_steps = [
            self._finished[number].count(False) * (run.pipeline.stack.n_decisions * part.n_images + 1)
            for number, part in enumerate(job.parts)
        ]

    def complete(self) -> list[FileReport]:
        """Compute what is missing and write everything."""
        run, job = self._run, self._job
        reports: list[FileReport] = []
        contents: dict[Path, ImageContent] = {}
        points: list[dict[Path, ImageContent]] = []
        images: list[ImageContent] = []
        for point, (place, open_point) in enumerate(zip(run.places, run.points, strict=True)):
            with open_point() as (stack, guide):
                pipeline = run.prepare_point(stack, guide)
                pipeline.stack.expect_all()
                fused, report = self._fuse_point(point, pipeline)
            reports.append(report)
            points.append(fused.list_contents(run.outputs, has_image=not run.is_store))
            images.append((fused.choice if isinstance(fused, JoinedSlabs) else fused).describe_image())
            if isinstance(fused, JoinedSlabs):
                contents |= fused.list_further(place)
        if len(points) > 1:
            series = run.describe_series(reports)
            contents |= join_times(points, series, time_step=run.pipeline.stack.metadata.time_step)
            images[0] = replace(images[0], provenance=series)
        else:
            contents |= points[0]
        if job.store is not None:
            # after all tiles: a smaller level mixes pixels of neighboring tiles
            grow_smaller_levels(job.store, tiles_at_once=run.pipeline.tiles_at_once, client=self._client, is_cancelled=self._is_over)
            job.finish_store(images[0], self._extremes)
        self._place(contents)
        return reports

    def _fuse_point(self, point: int, pipeline: Pipeline) -> tuple[FusedPart | JoinedSlabs, FileReport]:
        """Fuse one time point, at once or in slabs."""
        run, spans = self._run, self._run.spans
        last = (point + 1) * (len(spans) + 1) - 1
        if not spans:
            return self._fuse(last, pipeline, run.options["focus_range"])
        # chosen once for the whole stack: slabs with ranges of their own would be decided on at different contrast
        bounds = choose_focus_range(pipeline.stack, run.options["focus_range"])
        parts = [run.prepare_point(pipeline.stack.choose(span), None) for span in spans]
        slabs = tuple(self._fuse(last - len(spans) + number, part, bounds)[0] for number, part in enumerate(parts))
        further = () if pipeline.companions is None else [slab.image("companions") for slab in slabs]
        results = stack_slabs(pipeline.stack, spans, [slab.image("fused") for slab in slabs], further)
        choice, report = self._fuse(last, run.prepare_point(results, None), bounds)
        joined = JoinedSlabs(stack=pipeline.stack, slabs=slabs, choice=choice, spans=spans)
        return joined, replace(report, n_images=pipeline.stack.n_images, pixels_by_image=joined.count_pixels())

    def _fuse(self, number: int, pipeline: Pipeline, focus_range: GivenRanges | None) -> tuple[FusedPart, FileReport]:
        """Compute the tiles of one fusion that no earlier run has finished."""
        job, run, part = self._job, self._run, self._job.parts[number]
        asked = {"with_position": "position" in part.planes, "with_maps": "base_map" in part.planes}
        task = pipeline.measure(focus_range, **asked, client=self._client)
        description = pipeline.describe(task.focus_range)
        # noise too: tiles of another noise level cannot be used
        noise = [statistics.noise for statistics in task.measured.statistics]
        job.begin_part(number, [description, noise])
        is_finished = self._finished[number]
        # finished tiles are trusted only if the samples under them are still the same
        self._check_input(number, task, (tile for tile, is_there in zip(self._checked_tiles(), is_finished, strict=True) if is_there))
        logger.info(
            "fusing %d images of shape %s, %d of %d tiles",
            pipeline.stack.n_images,
            pipeline.stack.image_shape,
            is_finished.count(False),
            len(self._tiles),
        )
        steps = Steps(
            n_tiles=is_finished.count(False),
            steps_a_tile=pipeline.steps_a_tile,
            n_before=sum(self._n_steps[:number]),
            n_total=sum(self._n_steps),
            on_progress=self._on_progress,
            is_cancelled=self._is_over,
        )
        missing = (tile for tile, is_there in zip(self._tiles, is_finished, strict=True) if not is_there)
        pipeline.run(task, missing, sink=PartSink(job, number), steps=steps, client=self._client)
        digests, counts = self._gather_receipts(number, task)
        identity = digest([description, digests])
        # edges of the image are on the scale of its own samples
        guide_range = task.focus_range if pipeline.guide is None else choose_focus_range(pipeline.stack, None)
        fused = FusedPart(
            stack=pipeline.stack,
            image=lambda name: job.image(number, name),
            shown=run.shown,
            provenance={**description, "identity": identity},
            guide_range=guide_range,
        )
        return fused, run.report(pipeline, task.focus_range, identity=identity, n_resumed=is_finished.count(True), pixels_by_image=counts)

    def _checked_tiles(self) -> Iterator[Tile]:
        """Yield tiles, each after a chance to stop: on a large job even looking at what is there takes long."""
        for number, tile in enumerate(self._tiles):
            if self._is_over():
                msg = (
                    f"the run was cancelled while its finished tiles were looked at, after {number}; they are kept: continue with --resume"
                )
                raise Cancelled(msg)
            yield tile

    def _check_input(self, number: int, task: TileTask, finished: Iterable[Tile]) -> None:
        """Refuse to go on with tiles that were made of other samples."""
        if any(self._job.receipt(number, tile).input_digest != task.digest_input(tile).hex() for tile in finished):
            raise self._job.refuse_other_input()

    def _gather_receipts(self, number: int, task: TileTask) -> tuple[list[str], tuple[int, ...]]:
        """Return the digests of all tiles and how many pixels each image gave, and take the extremes of the image into account.

        In the order of the plan, so that the identity does not depend on the order of computation. Tiles that neither this run wrote nor
        were compared with its input when it began come from a run that lost the folder to this one; they are compared now.
        """
        digests, counts = [], np.zeros(task.stack.n_images, np.int64)
        for tile, was_there in zip(self._checked_tiles(), self._finished[number], strict=True):
            receipt = self._job.receipt(number, tile)
            if receipt.session != self._job.session and not was_there:
                self._check_input(number, task, [tile])
            digests.append(receipt.input_digest)
            counts += receipt.pixels_by_image
            if receipt.extremes is not None:
                self._extremes.widen(np.array(receipt.extremes))
        return digests, tuple(counts.tolist())

    def _place(self, contents: Mapping[Path, ImageContent]) -> None:
        """Write all outputs; a store is complete and only moved."""
        run, job = self._run, self._job
        for number in range(len(job.parts) if contents else 0):
            for tile in self._checked_tiles():
                job.check_finished(number, tile)
        built = {} if job.store is None or not isinstance(job.store.folder, Path) else {Path(str(run.outputs.image)): job.store.folder}
        if not contents and not built:
            job.journal().commit()  # the store is where it belongs, and nothing else is to be placed
            return

        def check_cancelled() -> None:
            if self._is_over():
                msg = "the run was cancelled while its outputs were written; finished tiles are kept: continue with --resume"
                raise Cancelled(msg)

        place_contents(
            contents,
            overwrite=job.may_replace,
            folders=list(dict.fromkeys(path.parent for path in contents if path.parent not in _targets(run.outputs))),
            built=built,
            scratch_folder=job.folder,
            journal=job.journal(),
            n_workers=run.pipeline.tiles_at_once,
            check_cancelled=check_cancelled,
        )


def _targets(outputs: Outputs) -> set[Path]:
    """Return the folders that have to be there."""
    places = (outputs.image, *((outputs.height.target,) if outputs.height is not None else ()))
    return {place.parent for place in places if isinstance(place, Path)}


@dataclass(frozen=True, slots=True)
class PartSink:
    """One fusion of a job as the place where tiles go."""

    job: Job
    part: int

    def share(self, client: Client | None) -> Callable[[Tile, FusedTile], object] | None:
        """Return what other processes of this machine, or the workers of a client, call with their tiles."""
        if self.job.is_held:
            return None
        if client is None or _share_folder(client, self.job.folder):
            return self.write
        return self._write_chunks if self.job.reaches_bucket else None

    def write(self, tile: Tile, result: FusedTile | EncodedTile) -> None:
        """Put a tile on the disk."""
        self.job.write(self.part, tile, result)

    def _write_chunks(self, tile: Tile, result: FusedTile) -> EncodedTile:
        """Write the chunks of a tile to a bucket, in a worker that does not see the folder; return what the client has to write."""
        return self.job.encode(self.part, tile, result)


@dataclass(frozen=True, slots=True)
class HalvingTask:
    """What makes a window of a level of the one before; it can be sent to another process."""

    larger: ImageArray
    image: int

    def __call__(
        self, tile: Tile, *, check_cancelled: Callable[[], None] = lambda: None, report_image: Callable[[], None] = lambda: None
    ) -> NDArray[Any]:
        """Return the means of the samples that a window stands for."""
        return halve_window(self.larger, tile.core, self.image)


@dataclass(frozen=True, slots=True)
class LevelSink:
    """One image of a level as the place where tiles go."""

    level: ImageArray
    image: int

    def write(self, tile: Tile, result: NDArray[Any]) -> None:
        """Write the window of a tile."""
        self.level.write(tile.core, result, self.image)

    def share(self, client: Client | None) -> Callable[[Tile, NDArray[Any]], None] | None:
        """Return `write` where workers reach the level."""
        folder = self.level.scratch_folder
        return self.write if client is None or isinstance(folder, RemotePath) or _share_folder(client, folder) else None


def grow_smaller_levels(store: ImageStore, *, tiles_at_once: int, client: Client | None, is_cancelled: Callable[[], bool] | None) -> None:
    """Make the smaller levels of images whose full level is complete."""
    # one level after the other: each is made of the chunks of the one before
    for larger, smaller in itertools.pairwise(store.levels):
        smaller.create()
        rows, columns = (
            tuple((start, min(start + block, side)) for start in range(0, side, block))
            for side, block in zip(smaller.shape[:2], store.block_px, strict=True)
        )
        tiles = TilePlan(shape=(smaller.shape[0], smaller.shape[1]), overlap_px=0, rows=rows, columns=columns)
        for image in range(store.n_images):
            steps = Steps(n_tiles=len(tiles), steps_a_tile=1, is_cancelled=is_cancelled)
            sink = LevelSink(smaller, image)
            run_tiles(HalvingTask(larger, image), tiles, sink=sink, tiles_at_once=tiles_at_once, steps=steps, client=client)


def _share_folder(client: Client, folder: Path) -> bool:
    """Return whether all workers of a client see a folder."""
    from qmcif_engine.run.cluster import share_folder

    return share_folder(client, folder)
