"""The run of a comparison: every set with every method, on all cores, without what an earlier run has done."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import count
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from qmcif_engine.comparison.baselines import fuse_with
from qmcif_engine.comparison.datasets import Dataset, ImageSet, read_eight_bit
from qmcif_engine.comparison.methods import BASELINES, Method
from qmcif_engine.comparison.record import Record, Score, digest_file
from qmcif_engine.comparison.tables import name_inner
from qmcif_engine.compiled import single_thread
from qmcif_engine.errors import Cancelled
from qmcif_engine.io.output.formats import write_image
from qmcif_engine.io.output.placement import ready_folder
from qmcif_engine.metrics import EvaluationProgress, evaluate
from qmcif_engine.metrics.truth import DEFAULT_BORDER_PX
from qmcif_engine.pipeline.in_memory import fuse

logger = logging.getLogger(__name__)


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
    """Return the map of the source, from 0, that gave each pixel of an image of our method; baselines have none."""
    return folder / "source_index" / method.name / f"{image_set.name}.png"


def score_dataset(
    dataset: Dataset,
    methods: Sequence[Method],
    *,
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
    record : Record
        What was done before, in an existing report folder.
    fingerprints : mapping of tuple of str to str
        From `fingerprint_inputs`.
    n_processes : int
        Worker processes; they change no figure.
    progress : callable
        Receives the images done and the images in all.
    border_px : int, optional
        Width of a border; each image is scored without it too.
    """
    wanted = [(image_set, method) for image_set in dataset.sets for method in methods]
    todo = []
    for image_set, method in wanted:
        inputs, known = fingerprints[image_set.name, method.name], record.scores.get((image_set.name, method.name))
        has_image = known is not None and known.inputs == inputs and _is_kept(known, method, image_set, folder=record.folder)
        # another border asks for other figures of the same image, which then is not fused again
        if not has_image or known is None or known.border_px != border_px:
            todo.append(
                Task(image_set=image_set, method=method, folder=record.folder, inputs=inputs, border_px=border_px, has_image=has_image)
            )
    logger.info("%d of %d images are to be scored", len(todo), len(wanted))
    # even without a score: from now on the folder is known as a report of ours, and may be continued
    record.write()
    n_done = count(len(wanted) - len(todo))
    progress(next(n_done), len(wanted))

    def keep(score: Score) -> None:
        record.add(score)
        progress(next(n_done), len(wanted))

    run_everywhere(make_score, todo, n_processes=n_processes, on_result=keep)
    return tuple(record.scores[image_set.name, method.name] for image_set, method in wanted)


def _is_kept(score: Score, method: Method, image_set: ImageSet, *, folder: Path) -> bool:
    """Return whether the image of a score is there still; one that somebody changed or replaced is made again."""
    image = fused_path(folder, method, image_set)
    if method.settings is not None and not index_path(folder, method, image_set).is_file():
        return False
    return image.is_file() and digest_file(image) == score.fused


def make_score(task: Task, is_cancelled: Callable[[], bool]) -> Score:
    """Fuse one set where that is asked for, and score the image from its saved file.

    Parameters
    ----------
    task : Task
    is_cancelled : callable
        Called repeatedly; when it returns true the work ends with `Cancelled`.
    """

    def check_cancelled(_: EvaluationProgress | None = None) -> None:
        if is_cancelled():
            msg = "the scoring was cancelled; nothing was returned: start it again"
            raise Cancelled(msg)

    sources = [read_eight_bit(path) for path in task.image_set.sources]
    image = fused_path(task.folder, task.method, task.image_set)
    if task.method.settings is not None and not task.has_image:
        result = fuse(sources, task.method.settings, is_cancelled=is_cancelled)
        # the map before the image: an image without its map counts as not made
        index = result.source_index.astype(np.min_scalar_type(len(sources) - 1))
        _write(index_path(task.folder, task.method, task.image_set), index)
        _write(image, result.fused)
    if task.method.baseline is not None and not task.has_image:
        _write(image, fuse_with(BASELINES[task.method.baseline], sources, check_cancelled=check_cancelled))
    truth = None if task.image_set.truth is None else read_eight_bit(task.image_set.truth)
    return Score(
        set_name=task.image_set.name,
        method=task.method.name,
        # read back from the file, so that what is scored is what was saved
        figures=score_image(sources, read_eight_bit(image), truth, border_px=task.border_px, progress=check_cancelled),
        inputs=task.inputs,
        fused=digest_file(image),
        border_px=task.border_px,
    )


def _write(path: Path, image: NDArray[Any]) -> None:
    with ready_folder(path.parent):
        write_image(path, image, overwrite=True)


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


def run_everywhere(
    work: Callable[[Any, Callable[[], bool]], Any], tasks: Sequence[Any], *, n_processes: int, on_result: Callable[[Any], None]
) -> None:
    """Do all tasks; results come in whatever order they are finished.

    Parameters
    ----------
    work : callable
        Module-level function of a task and of a callable that returns whether to stop.
    tasks : sequence
    n_processes : int
        With 1 everything happens in this process, where a debugger works.
    on_result : callable
        Called in this process with each result.

    Raises
    ------
    ChildProcessError
        When a worker process was lost.
    """
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


def _work_in_process(work: Callable[[Any, Callable[[], bool]], Any], task: Any) -> Any:  # noqa: ANN401 - whatever the work takes
    try:
        return work(task, lambda: _stop is not None and _stop.is_set())
    except OSError as error:
        # pickling loses the number by which a full disk is known, but keeps attributes
        vars(error)["number"] = error.errno
        raise
