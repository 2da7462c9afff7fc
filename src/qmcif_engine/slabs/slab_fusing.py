"""A fusion in slabs from a stack to files."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.depth import HeightRequest, settle_scale
from qmcif_engine.errors import OutputError
from qmcif_engine.fusing.file_outputs import check_outputs
from qmcif_engine.fusing.identity import identify_run
from qmcif_engine.fusing.to_file import FileReport, fuse_to_file
from qmcif_engine.io.input.stack_input import open_stack
from qmcif_engine.io.output.placement import ready_folder, refusing
from qmcif_engine.io.output.sweeping import sweep
from qmcif_engine.run.lock import RunLock
from qmcif_engine.run.steps import FusionProgress
from qmcif_engine.slabs.layout import SlabFiles, SlabLayout, plan_slabs
from qmcif_engine.slabs.parts import stack_slabs
from qmcif_engine.slabs.slab_maps import SlabMaps
from qmcif_engine.stack.separate_channels import EACH, count_decisions, settle_channels
from qmcif_engine.stack.stack import settle_range
from qmcif_engine.tiles.plan import plan_tiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from distributed import Client

    from qmcif_engine.io.output.windowed_image import ImageContent, WindowedImage
    from qmcif_engine.stack.samples import FocusRanges, GivenRanges
    from qmcif_engine.stack.stack import Stack

CHOICE_MAPS = "choice_maps"
"""Folder, among the slabs, of the maps that say which slab was chosen."""

LOCK_NAME = ".qmcif-slabs.lock"


def fuse_in_slabs(
    stack: Stack,
    output: Path | str,
    config: FusionConfig | None = None,
    *,
    slabs: SlabLayout,
    channels: Sequence[int | str] | None = None,
    maps: Path | str | None = None,
    height: HeightRequest | None = None,
    focus_range: GivenRanges | None = None,
    memory_bytes: int | None = None,
    workers: int | None = None,
    client: Client | None = None,
    resume: bool = False,
    overwrite: bool = False,
    checked: tuple[Path, ...] | None = None,
    on_progress: Callable[[FusionProgress], None] | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> FileReport:
    """Fuse groups of neighboring images, keep the results, and fuse these.

    Maps and heights of the final image are those of the slab that was chosen for each pixel, and count the images of the whole stack.

    Parameters
    ----------
    stack : Stack
    output : Path
    config : FusionConfig, optional
    slabs : SlabLayout
    channels : sequence of int or str, optional
        The channels that decide, as they were given to `qmcif_engine.open_stack`: the results of the slabs are opened with them. Or
        ``"each"``.
    maps, height, focus_range, memory_bytes, workers, client, overwrite, checked, on_progress, is_cancelled
        See `qmcif_engine.fuse_to_file`.
    resume : bool
        Take finished slabs of the same images and settings as they are, and go on with an unfinished one.

    Returns
    -------
    FileReport
        The slabs are among its outputs.
    """
    stack = settle_channels(stack, EACH if channels == EACH else None)
    settings, target, maps_folder = config or FusionConfig(), Path(output), None if maps is None else Path(maps)
    spans = plan_slabs(stack.n_images, size=slabs.size, overlap=slabs.overlap)
    # before hours of computing, not after them
    outputs = checked or check_outputs(stack, target, maps_folder, height=height, overwrite=overwrite, resume=resume)
    options = {"memory_bytes": memory_bytes, "workers": workers, "client": client, "resume": resume, "overwrite": overwrite}
    tellers = iter(_tellers(stack, spans, config=settings, on_progress=on_progress))
    files = [SlabFiles(slabs.folder, number) for number in range(len(spans))]
    with ready_folder(slabs.folder), _held(slabs.folder) as lock:
        # the question whether to go on comes often enough to carry the signs of life of this folder too
        def is_over() -> bool:
            lock.beat()
            return is_cancelled is not None and is_cancelled()

        # settled once for the whole stack: slabs with ranges of their own would be decided on at different contrast
        run = _Run(settings, settle_range(stack, focus_range), height, {**options, "is_cancelled": is_over})
        for place, span in zip(files, spans, strict=True):
            run.fuse_slab(stack.choose(span), place, on_progress=next(tellers))
        # slabs are read back from their files, as those are that a resumed run took over
        with ready_folder(maps_folder or slabs.folder), open_stack([place.image for place in files], channels=channels) as results:
            # filled by `compose`, which alone is given the maps of the choice
            counts: list[int] = []

            def compose(choice: Callable[[str], WindowedImage], report: FileReport) -> dict[Path, ImageContent]:
                """Return maps and heights of the whole stack, which are placed with the fused image."""
                composed = SlabMaps(files, spans, choice=choice, n_channels=count_decisions(stack))
                counts.extend(composed.count_pixels(stack.n_images))
                contents = {} if maps_folder is None else composed.describe_maps(maps_folder, stack=stack, identity=report.identity)
                return (
                    contents
                    if height is None
                    else contents | composed.describe_heights(height, stack=stack, results=results, report=report)
                )

            chosen = stack_slabs(results, stack, spans)
            report = run.fuse(chosen, target, maps=slabs.folder / CHOICE_MAPS, compose=compose, on_progress=next(tellers))
    images = tuple(place.image for place in files)
    return replace(report, outputs=(*outputs, *images), n_images=stack.n_images, pixels_by_image=tuple(counts))


@contextmanager
def _held(folder: Path) -> Iterator[RunLock]:
    """Lock the folder of the slabs: they are read again at the end, and must not change until then."""
    lock = RunLock(folder / LOCK_NAME)
    sweep(folder)  # where all slabs are finished, nothing else looks here
    with refusing(folder):
        lock.take()
    try:
        yield lock
    finally:
        lock.release()


@dataclass(frozen=True, slots=True)
class _Run:
    """What all fusions of a run have in common."""

    config: FusionConfig
    focus_range: FocusRanges
    height: HeightRequest | None
    options: dict[str, Any]

    def fuse(self, stack: Stack, target: Path, **options: Any) -> FileReport:  # noqa: ANN401 - passed on
        return fuse_to_file(stack, target, self.config, focus_range=self.focus_range, **{**self.options, **options})

    def fuse_slab(self, part: Stack, files: SlabFiles, *, on_progress: Callable[[FusionProgress], None] | None) -> None:
        """Fuse one slab, unless it is there already."""
        known = files.known_identity() if self.options["resume"] else None
        if known is not None and self._is_complete(files):
            if known != identify_run(part, self.config, self.focus_range):
                msg = (
                    f"the slab in {str(files.image)!r} has other images, settings or another version; the same are needed to continue: "
                    "restore them, or start over with --overwrite"
                )
                raise OutputError(msg)
            return
        report = self.fuse(part, files.image, maps=files.maps, height=self._heights_of_slab(part, files), on_progress=on_progress)
        # last: a slab without it counts as unfinished
        files.note_identity(report.identity)

    def _is_complete(self, files: SlabFiles) -> bool:
        return files.image.exists() and files.maps.exists() and (self.height is None or files.heights.exists())

    def _heights_of_slab(self, part: Stack, files: SlabFiles) -> HeightRequest | None:
        if self.height is None:
            return None
        scale = settle_scale(part.metadata, z_step=self.height.z_step, unit=self.height.unit)
        # without smoothing: heights are smoothed once, over the borders of slabs, when all are put together
        return HeightRequest(target=files.heights, z_step=scale.z_step, unit=scale.unit)


def _tellers(
    stack: Stack, spans: Sequence[range], *, config: FusionConfig, on_progress: Callable[[FusionProgress], None] | None
) -> list[Callable[[FusionProgress], None] | None]:
    """Return, for each slab and for the last fusion, what passes its progress on as that of the whole run."""
    if on_progress is None:
        return [None] * (len(spans) + 1)
    n_tiles = len(plan_tiles((stack.image_shape[0], stack.image_shape[1]), config).tiles)
    # as `FusionProgress` counts them; the results of the slabs are fused like one more stack
    steps = [n_tiles * (count_decisions(stack) * n_images + 1) for n_images in [*map(len, spans), len(spans)]]

    def teller(number: int) -> Callable[[FusionProgress], None]:
        before, own = sum(steps[:number]), steps[number]
        # a resumed fusion has fewer steps: its last ones are told
        return lambda progress: on_progress(FusionProgress(before + own - progress.total + progress.done, sum(steps)))

    return [teller(number) for number in range(len(steps))]
