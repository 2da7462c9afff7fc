"""The run of a comparison: every set with every method, on all cores, without what an earlier run has done."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from qmcif_engine.comparison.baselines import find_baseline, fuse_with
from qmcif_engine.comparison.datasets import Dataset, ImageSet
from qmcif_engine.comparison.images import read_eight_bit
from qmcif_engine.comparison.methods import Method
from qmcif_engine.comparison.record import Record, Score, digest_file, write_record
from qmcif_engine.comparison.tables import name_inner
from qmcif_engine.compiled import single_thread
from qmcif_engine.errors import Cancelled, OutputError
from qmcif_engine.fusing.in_memory import fuse
from qmcif_engine.io.output.formats import write_image
from qmcif_engine.metrics import EvaluationProgress, evaluate
from qmcif_engine.metrics.truth import DEFAULT_BORDER_PX

logger = logging.getLogger(__name__)

LARGEST_EIGHT_BIT_INDEX = 255  # of a PNG of 8 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """All that a worker process must know to make one score; one with an image is scored anew, but not fused."""

    image_set: ImageSet
    method: Method
    folder: Path
    inputs: str
    border_px: int | None = None
    has_image: bool = False


def fused_path(folder: Path, method: Method, image_set: ImageSet) -> Path:
    """Return the image of a method: in the report folder where it is fused here, else where its makers' image lies."""
    return folder / "fused" / method.name / f"{image_set.name}.png" if method.is_fused_here else method.images[image_set.name]


def index_path(folder: Path, method: Method, image_set: ImageSet) -> Path:
    """Return the map of an image of our method that tells which source, from 0, gave each pixel; baselines have none."""
    return folder / "source_index" / method.name / f"{image_set.name}.png"


def score_dataset(
    dataset: Dataset,
    methods: Sequence[Method],
    *,
    folder: Path,
    record: Record,
    fingerprints: Mapping[tuple[str, str], str],
    n_processes: int,
    progress: Callable[[int, int], None],
    border_px: int | None = None,
) -> tuple[Score, ...]:
    """Make every missing image and score, and return all scores, set by set.

    Parameters
    ----------
    dataset : Dataset
    methods : sequence of Method
    folder : Path
        Existing report folder.
    record : Record
        What was done before. It is written again after every score, so that an interrupted run loses only what it was at.
    fingerprints : mapping of tuple of str to str
        From `fingerprint_inputs`.
    n_processes : int
        Worker processes; they change no figure.
    progress : callable
        Receives the images done and the images in all.
    border_px : int, optional
        Width of a border; each image is scored without it too.
    """
    scores = {(score.set_name, score.method): score for score in record.scores}
    asked = [
        Task(image_set=image_set, method=method, folder=folder, inputs=fingerprints[image_set.name, method.name], border_px=border_px)
        for image_set in dataset.sets
        for method in methods
    ]
    # another border asks for other figures of the same image, which then is not fused again
    tasks = [replace(task, has_image=_has_image(task, scores.get((task.image_set.name, task.method.name)))) for task in asked]
    todo = [task for task in tasks if not (task.has_image and scores[task.image_set.name, task.method.name].border_px == border_px)]
    logger.info("%d of %d images are to be scored", len(todo), len(tasks))
    # by this process alone, before workers would race for it
    _make_folders([task for task in todo if not task.has_image])
    # even without a score: from now on the folder is known as a report of ours, and may be continued
    write_record(folder, record)
    progress(len(tasks) - len(todo), len(tasks))
    n_done = len(tasks) - len(todo)

    def keep(score: Score) -> None:
        nonlocal record, n_done
        record, n_done = record.add(score), n_done + 1
        scores[score.set_name, score.method] = score
        write_record(folder, record)
        progress(n_done, len(tasks))

    run_everywhere(make_score, todo, n_processes=n_processes, on_result=keep)
    return tuple(scores[task.image_set.name, task.method.name] for task in tasks)


def _has_image(task: Task, score: Score | None) -> bool:
    # cheap tests first; the image itself is read last
    if score is None or score.inputs != task.inputs:
        return False
    image = fused_path(task.folder, task.method, task.image_set)
    if task.method.settings is not None and not index_path(task.folder, task.method, task.image_set).is_file():
        return False
    # an image that somebody changed or replaced is made again
    return image.is_file() and digest_file(image) == score.fused


def _make_folders(tasks: Sequence[Task]) -> None:
    """Make the folders of the images; a link there could lead the images out of the report folder."""
    kinds = {("fused", task.method.name) for task in tasks if task.method.is_fused_here}
    kinds |= {("source_index", task.method.name) for task in tasks if task.method.settings is not None}
    for kind, name in sorted(kinds):
        place = tasks[0].folder / kind / name
        if place.is_symlink() or place.parent.is_symlink():
            msg = f"{str(place)!r} is or lies in a link; images are kept in the report folder itself: remove the link"
            raise OutputError(msg)
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            msg = f"the folder {str(place)!r} cannot be made ({error.strerror}); a writable place is needed: choose another report folder"
            raise OutputError(msg) from error


def make_score(task: Task, is_cancelled: Callable[[], bool]) -> Score:
    """Fuse one set where that is asked for, and score the image from its saved file.

    Parameters
    ----------
    task : Task
    is_cancelled : callable
        Asked again and again; when it returns true the work ends with `Cancelled`.
    """
    sources = [read_eight_bit(path) for path in task.image_set.sources]
    image = fused_path(task.folder, task.method, task.image_set)
    if task.method.settings is not None and not task.has_image:
        result = fuse(sources, task.method.settings, is_cancelled=is_cancelled)
        index_dtype = np.uint8 if len(sources) <= LARGEST_EIGHT_BIT_INDEX else np.uint16
        # the map before the image: an image without its map counts as not made
        write_image(index_path(task.folder, task.method, task.image_set), result.source_index.astype(index_dtype), overwrite=True)
        write_image(image, result.fused, overwrite=True)

    def end_if_cancelled(_: EvaluationProgress | None = None) -> None:
        if is_cancelled():
            msg = "the scoring was cancelled; nothing was returned: start it again"
            raise Cancelled(msg)

    if task.method.baseline is not None and not task.has_image:
        write_image(image, fuse_with(find_baseline(task.method.baseline), sources, check_cancelled=end_if_cancelled), overwrite=True)
    truth = None if task.image_set.truth is None else read_eight_bit(task.image_set.truth)
    return Score(
        set_name=task.image_set.name,
        method=task.method.name,
        # read back from the file, so that what is scored is what was saved
        figures=score_image(sources, read_eight_bit(image), truth, border_px=task.border_px, progress=end_if_cancelled),
        inputs=task.inputs,
        fused=digest_file(image),
        border_px=task.border_px,
    )


def score_image(
    sources: Sequence[NDArray[np.uint8]],
    fused: NDArray[np.uint8],
    truth: NDArray[np.uint8] | None,
    *,
    border_px: int | None,
    progress: Callable[[EvaluationProgress], None],
) -> dict[str, float | None]:
    """Return the figures of an image by symbol, and where a border is to be left out also those of what lies inside it."""
    whole = evaluate(sources, fused, truth=truth, border_px=DEFAULT_BORDER_PX if border_px is None else border_px, progress=progress)
    if border_px is None:
        return whole.list_by_symbol()
    # cut before scoring, not masked after: filters of the metrics would otherwise look into the border
    inside = np.s_[border_px:-border_px, border_px:-border_px]
    inner = evaluate([source[inside] for source in sources], fused[inside], progress=progress)
    return whole.list_by_symbol() | name_inner(inner.list_by_symbol())


_TaskT = TypeVar("_TaskT")
_ResultT = TypeVar("_ResultT")


def run_everywhere(
    work: Callable[[_TaskT, Callable[[], bool]], _ResultT],
    tasks: Sequence[_TaskT],
    *,
    n_processes: int,
    on_result: Callable[[_ResultT], None],
) -> None:
    """Do all tasks; results come in whatever order they are finished.

    Parameters
    ----------
    work : callable
        Module-level function of a task and of a callable that returns whether to stop.
    tasks : sequence
    n_processes : int
        With 1 everything happens in this process.
    on_result : callable
        Called here, in this process, with each result.

    Raises
    ------
    ChildProcessError
        When a worker process was lost.
    """
    # in this process, where a debugger works
    if min(n_processes, len(tasks)) <= 1:
        with single_thread():
            for task in tasks:
                on_result(work(task, lambda: False))
        return
    context = get_context("spawn")
    stop = context.Event()
    with ProcessPoolExecutor(min(n_processes, len(tasks)), context, _prepare_worker, (stop,)) as pool:
        try:
            for future in as_completed([pool.submit(_work_in_process, work, task) for task in tasks]):
                on_result(future.result())
        except BrokenProcessPool as error:
            msg = "a worker process was lost, perhaps for lack of memory; run the same command again, it resumes, with fewer --jobs"
            raise ChildProcessError(msg) from error
        except OSError as error:
            error.errno = vars(error).get("number", error.errno)
            raise
        finally:
            # on failure and interruption those that work end soon, and the others do not begin
            stop.set()
            pool.shutdown(cancel_futures=True)


_stop: Event | None = None


def _prepare_worker(stop: Event) -> None:
    """Leave the interrupt key to the parent, which then sets the event, and use one thread: the cores are taken by processes."""
    global _stop  # a worker process has one parent for life
    # Ctrl+C reaches the whole group of processes; workers that die of it would look like lost ones
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpool_limits(limits=1)
    _stop = stop


def _work_in_process(work: Callable[[_TaskT, Callable[[], bool]], _ResultT], task: _TaskT) -> _ResultT:
    try:
        return work(task, lambda: _stop is not None and _stop.is_set())
    except OSError as error:
        # pickling loses the number by which a full disk is known, but keeps attributes
        vars(error)["number"] = error.errno
        raise
