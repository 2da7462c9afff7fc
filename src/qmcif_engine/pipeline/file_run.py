"""A run from files to files: its fusions, one after the other, in one job, and then all outputs at once.

A time series has a fusion for each time point, a deep stack one for each slab and one that chooses between them; all share a plan of tiles,
a folder, a lock and an identity, and are resumed in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from qmcif_engine import __version__
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.depth import describe_request
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.io.output.formats import choose_format
from qmcif_engine.io.output.placement import check_sources_kept
from qmcif_engine.io.output.windowed_image import StackImage
from qmcif_engine.io.remote_path import Location, RemotePath
from qmcif_engine.io.zarr.zarr_writer import ImageStore
from qmcif_engine.pipeline.active_run import ActiveRun
from qmcif_engine.pipeline.outputs import (
    Outputs,
    are_all_there,
    check_outputs,
    holds_provenance,
    label_times,
    plan_slabs,
    refuse_other_result,
)
from qmcif_engine.pipeline.pipeline import Pipeline
from qmcif_engine.pipeline.results import stack_slabs
from qmcif_engine.run.execution import FusionProgress
from qmcif_engine.run.job import Job, PartKind, PlaneKind
from qmcif_engine.run.job_folder import name_job_folder
from qmcif_engine.stack.deciding import EACH, choose_deciding_channels, choose_focus_range
from qmcif_engine.stack.samples import FocusRanges, GivenRanges, list_bounds
from qmcif_engine.stack.stack import Stack
from qmcif_engine.stack.window import multiple_above
from qmcif_engine.tiles.output_maps import OUTPUT_MAPS, WRITTEN_MAPS
from qmcif_engine.tiles.plan import chunk_side

if TYPE_CHECKING:
    from distributed import Client

OpenPoint: TypeAlias = Callable[[], AbstractContextManager[tuple[Stack, Stack | None]]]
"""Opens one time point, aligned and so on, with its guide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """What a finished run did.

    Attributes
    ----------
    outputs : tuple of Path or RemotePath
    n_images : int
    image_shape : tuple of int
    dtype : str
    focus_range : FocusRange, or tuple of one per channel
    n_tiles, n_resumed : int
        Tiles in all, and those that an earlier, interrupted run had finished.
    pixels_by_image : tuple of int
        How many pixels each image gave; images with none could have been left out. Empty where a resumed run had nothing left to do.
    identity : str
        Digest of version, settings and every sample that went in, as `Pipeline.identify` returns it.
    """

    outputs: tuple[Location, ...]
    n_images: int
    image_shape: tuple[int, ...]
    dtype: str
    focus_range: FocusRanges
    n_tiles: int
    n_resumed: int
    pixels_by_image: tuple[int, ...]
    identity: str


@dataclass(frozen=True, kw_only=True)
class FileRun:
    """A run from files to files that is known to be possible. Calling it computes and writes everything: all outputs appear, or none.

    Attributes
    ----------
    pipeline : Pipeline
        Of the stack as it was opened, which all time points are like.
    outputs : Outputs
    points : tuple of callable
        Open the time points, one after the other.
    options : mapping
        The channels that decide, the focus range, and memory and workers as they were given.
    resume, may_replace : bool
        Whether an unfinished run is continued, and whether outputs may be replaced.
    """

    pipeline: Pipeline
    outputs: Outputs
    points: tuple[OpenPoint, ...]
    options: Mapping[str, Any]
    resume: bool
    may_replace: bool

    @classmethod
    def prepare(
        cls,
        stack: Stack,
        outputs: Outputs,
        config: FusionConfig | None = None,
        *,
        points: Sequence[OpenPoint] = (),
        guide: Stack | None = None,
        channels: Sequence[int | str] | str | None = None,
        focus_range: GivenRanges | None = None,
        memory_bytes: int | None = None,
        workers: int | None = None,
        resume: bool = False,
        overwrite: bool = False,
    ) -> FileRun:
        """Refuse what cannot be met, before anything is computed or an image is decoded.

        Parameters
        ----------
        stack : Stack
            What is fused, or, where there are `points`, what is known of them.
        outputs : Outputs
        points : sequence of callable, optional
            Open the time points of a series, or the only one.
        channels : optional
            ``"each"``, or, with slabs, the channels that decide as they were given to `qmcif_engine.open_stack`.
        config, guide, focus_range, memory_bytes, workers, resume, overwrite
            See `qmcif_engine.fuse_to_file`.
        """
        stack = choose_deciding_channels(stack, channels if isinstance(channels, str) else None)
        if not points:
            # tiles overlap, so most samples are read more than once: readers may keep what they decode
            stack.expect_all()
        run = cls(
            pipeline=Pipeline.prepare(stack, config, guide=guide, memory_bytes=memory_bytes, workers=workers),
            outputs=outputs,
            points=tuple(points) or (lambda: nullcontext((stack, guide)),),
            options={"channels": channels, "focus_range": focus_range, "memory_bytes": memory_bytes, "workers": workers},
            resume=resume,
            may_replace=False,
        )
        further = [path for place in run.places for path in _list_slab_files(place, stack)]
        may_replace = check_outputs(stack, outputs, further, n_times=len(run.points), overwrite=overwrite, resume=resume)
        check_sources_kept((*outputs.files, *further), () if guide is None else guide.sources)
        return replace(run, may_replace=may_replace)

    @cached_property
    def places(self) -> tuple[Outputs, ...]:
        """Where the results of each time point go; those of a series go to the same files, and slabs to folders of their own."""
        if len(self.points) == 1:
            return (self.outputs,)
        return tuple(replace(self.outputs, slabs=self.outputs.slabs_at_time(label)) for label in label_times(len(self.points)).values())

    @cached_property
    def files(self) -> tuple[Location, ...]:
        """All files of the run."""
        return (*self.outputs.files, *(path for place in self.places for path in _list_slab_files(place, self.pipeline.stack)))

    @cached_property
    def spans(self) -> tuple[range, ...]:
        """The images of each slab; none where all images are fused at once."""
        slabs = self.outputs.slabs
        return () if slabs is None else plan_slabs(self.pipeline.stack.n_images, size=slabs.size, overlap=slabs.overlap)

    @cached_property
    def planes(self) -> dict[str, PlaneKind]:
        """The planes that are kept of every tile, the image first."""
        stack = self.pipeline.stack
        companions = stack.further_planes
        planes = {"fused": PlaneKind(stack.dtype, stack.image_shape[2:])}
        if companions is not None:
            planes["companions"] = PlaneKind(companions.dtype, companions.image_shape[2:])
        with_maps = self.outputs.maps is not None or self.outputs.slabs is not None
        wanted = [*(WRITTEN_MAPS if with_maps else ()), *(("confidence", "position") if self.outputs.height is not None else ())]
        # confidence may be asked for twice, as a map and with the heights
        return planes | {name: PlaneKind(np.dtype(OUTPUT_MAPS[name].dtype), stack.decision_channels) for name in dict.fromkeys(wanted)}

    @cached_property
    def shown(self) -> tuple[str, ...]:
        """The planes that are the fused image: all channels where only some decide, else the stack and its alpha."""
        if self.pipeline.stack.companions is not None:
            return ("companions",)
        return ("fused",) if self.pipeline.stack.alpha is None else ("fused", "companions")

    @property
    def is_store(self) -> bool:
        """Whether the image becomes an OME-Zarr."""
        return choose_format(self.outputs.image).is_store

    @property
    def output_bytes(self) -> int:
        """Size of the outputs, without those of slabs, before compression."""
        return self._count_bytes(self.planes)

    @property
    def job_bytes(self) -> int:
        """Disk space beside the target while the run lasts, and beside the store that becomes the target."""
        # the image of a store goes to it at once
        waiting = [name for name in self.planes if not (self.is_store and name in self.shown)]
        return self._count_bytes(waiting) + len(self.spans) * self.output_bytes

    @property
    def transcoded_bytes(self) -> int:
        """Disk space for images that cannot be read by window."""
        guide = self.pipeline.guide
        return self.pipeline.stack.scratch_bytes + (0 if guide is None else guide.scratch_bytes)

    def _count_bytes(self, names: Iterable[str]) -> int:
        height, width = self.pipeline.plan.shape
        return len(self.points) * height * width * sum(self.planes[name].pixel_bytes for name in names)

    def __call__(
        self,
        *,
        client: Client | None = None,
        on_progress: Callable[[FusionProgress], None] | None = None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> list[FileReport]:
        """Compute and write everything; return a report for each time point."""
        # a run that was killed after its last move has everything in place, and no job folder
        if self.resume and are_all_there(self.files, self.outputs.image):
            reports = self._recognize()
            if reports:
                return reports
        job = self._make_job()
        job.begin(self._describe_request(), resume=self.resume, overwrite=self.may_replace)

        def is_over() -> bool:
            job.heartbeat()
            return is_cancelled is not None and is_cancelled()

        try:
            reports = ActiveRun(self, job, client=client, on_progress=on_progress, is_over=is_over).complete()
        except BaseException:
            # also for Ctrl+C: the lock is given back, and finished tiles stay for --resume
            job.abort()
            raise
        job.remove()
        return reports

    def prepare_point(self, stack: Stack, guide: Stack | None) -> Pipeline:
        """Return the pipeline of a time point, or of a slab of it."""
        channels = EACH if self.pipeline.stack.decides_each else None
        sizes = {name: self.options[name] for name in ("memory_bytes", "workers")}
        return Pipeline.prepare(stack, self.pipeline.config, guide=guide, channels=channels, **sizes)

    def report(
        self, pipeline: Pipeline, focus_range: FocusRanges, *, identity: str, n_resumed: int, pixels_by_image: tuple[int, ...]
    ) -> FileReport:
        """Return the report of a time point."""
        stack = pipeline.stack
        images = [slab.image for place in self.places for slab in place.list_slabs(self.pipeline.stack.n_images)]
        return FileReport(
            outputs=(*self.outputs.files, *images),
            n_images=stack.n_images,
            image_shape=(stack.companions or stack).image_shape,
            dtype=stack.dtype.name,
            focus_range=focus_range,
            n_tiles=self.n_tiles,
            n_resumed=n_resumed,
            pixels_by_image=pixels_by_image,
            identity=identity,
        )

    @property
    def n_tiles(self) -> int:
        """Tiles of a time point, in the last fusion of it."""
        return len(self.pipeline.plan)

    def describe_series(self, reports: Sequence[FileReport]) -> dict[str, Any]:
        """Return version, settings and what each time point was made of, without times, names and paths."""
        stack = self.pipeline.stack
        return {
            "version": __version__,
            "images": stack.n_images,
            "image_shape": list(stack.image_shape),
            "dtype": stack.dtype.name,
            "settings": self.pipeline.config.to_dict(),
            "points_in_time": [{"identity": report.identity, "focus_range": list_bounds(report.focus_range)} for report in reports],
        }

    def _describe_request(self) -> list[object]:
        """Return what distinguishes runs before a sample is read: tiles of another version, settings or planes cannot be used."""
        stack = self.pipeline.stack
        planes = [(name, kind.dtype.name, kind.channels) for name, kind in self.planes.items()]
        spans = [(span.start, span.stop) for span in self.spans]
        kind = [stack.n_images, stack.image_shape, stack.dtype.name, len(self.points), spans, self.is_store]
        return [__version__, self.pipeline.config.to_dict(), planes, kind]

    def _make_job(self) -> Job:
        """Return the job of the run: planes in arrays and, where the target is a Zarr, the image in a store that will become it."""
        target, plan, planes = self.outputs.image, self.pipeline.plan, self.planes
        folder, chunk = name_job_folder(target), chunk_side(self.pipeline.config)
        # the choice between slabs needs no position: their heights are put together
        kept = tuple(name for name in planes if not (self.spans and name == "position"))
        parts: list[PartKind] = []
        for point in range(len(self.points)):
            parts += [PartKind(len(span), tuple(planes)) for span in self.spans]
            parts.append(PartKind(len(self.spans) or self.pipeline.stack.n_images, kept, point if self.is_store else None))
        if not self.is_store:
            return Job(folder, plan, planes, parts=parts, chunk_px=chunk)
        first, core = planes[self.shown[0]], plan[0].core.shape
        n_colors = first.channels[0] if first.channels else 1
        store = ImageStore(
            folder=target if isinstance(target, RemotePath) else folder,
            scratch_folder=target if isinstance(target, RemotePath) else folder,
            shape=(*plan.shape, *(first.channels if len(self.shown) == 1 else (n_colors + 1,))),
            dtype=first.dtype,
            n_colors=n_colors,
            chunk_px=chunk,
            # cores of the last row and column are shorter; the first one has the full size
            block_px=(multiple_above(core[0], chunk), multiple_above(core[1], chunk)),
            axis="T" if len(self.points) > 1 else None,
            n_images=len(self.points),
        )
        return Job(folder, plan, planes, parts=parts, chunk_px=chunk, store=store, stored_planes=self.shown)

    def _recognize(self) -> list[FileReport]:
        """Return the reports of outputs that are all in place, if they are those of this run; none where they may be replaced."""
        reports, expected = [], dict[Location, dict[str, object]]()
        for place, open_point in zip(self.places, self.points, strict=True):
            with open_point() as (stack, guide):
                pipeline = self.prepare_point(stack, guide)
                bounds = choose_focus_range(pipeline.stack if pipeline.guide is None else pipeline.guide, self.options["focus_range"])
                identity, known = self._identify(pipeline, bounds, place)
            reports.append(self.report(pipeline, bounds, identity=identity, n_resumed=self.n_tiles, pixels_by_image=()))
            expected |= known
        own: dict[str, object] = {"identity": reports[0].identity}
        if len(reports) > 1:
            own = {"points_in_time": self.describe_series(reports)["points_in_time"]}
        expected |= _expect(self.outputs, own, self.pipeline.stack)
        strange = [path for path, items in expected.items() if not holds_provenance(path, items)]
        if strange and not self.may_replace:
            raise refuse_other_result(strange[0])
        return [] if strange else reports

    def _identify(self, pipeline: Pipeline, bounds: FocusRanges, place: Outputs) -> tuple[str, dict[Location, dict[str, object]]]:
        """Return the identity of a time point, by reading every sample and fusing none, and what the files of its slabs have to say."""
        stack, expected = pipeline.stack, dict[Location, dict[str, object]]()
        if not self.spans:
            return pipeline.identify(bounds), expected
        slabs = place.list_slabs(stack.n_images)
        for span, slab in zip(self.spans, slabs, strict=True):
            identity = self.prepare_point(stack.choose(span), None).identify(bounds)
            expected |= _expect(slab, {"identity": identity}, stack)
        with open_stack([Path(str(slab.image)) for slab in slabs], channels=self.options["channels"]) as found:
            further = found.further_planes
            results = [
                [] if opened is None else [StackImage(opened, number) for number in range(opened.n_images)] for opened in (found, further)
            ]
            identity = self.prepare_point(stack_slabs(stack, self.spans, *results), None).identify(bounds)
        return identity, expected | {path: {"identity": identity} for path in place.choice_maps.values()}


def _list_slab_files(place: Outputs, stack: Stack) -> tuple[Path, ...]:
    slabs = [path for slab in place.list_slabs(stack.n_images) for path in slab.files if isinstance(path, Path)]
    return (*slabs, *place.choice_maps.values())


def _expect(outputs: Outputs, own: dict[str, object], stack: Stack) -> dict[Location, dict[str, object]]:
    """Return the provenance that each file must have; that of heights includes how they were made."""
    expected = dict.fromkeys(outputs.files, own)
    if outputs.height is not None:
        expected[outputs.height.target] = own | {"height": describe_request(outputs.height, stack.metadata)}
    return expected
