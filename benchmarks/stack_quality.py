"""What fused stacks are judged by: objects kept, seams, detail, halos, heights, pairs, noise, and how robust all that is.

The measures are the modules of ``../shared/tools``. Each job returns rows for the engine's default settings and, where it makes pictures of
stacks, for a plain pick by the Laplacian of Gaussian and for enfuse. What does not depend on the engine (aligned frames, generated
scenes, enfuse's pictures) is made once and kept in the folder of ``--cache``; figures of other programs are those of ``floors.json``
where it has them.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from fnmatch import fnmatch
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tifffile
from PIL import Image
from quality import SYMBOLS, score
from quality_rows import ENFUSE, LAPLACIAN, OURS, Row
from real_stacks import StackPlace, find_folder, find_stacks
from scipy import ndimage

from qmcif_engine import fuse, height_map, open_stack, read_image
from qmcif_engine.comparison.datasets import find_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from qmcif_engine import FusionResult

STACK_PARTS = ("objects", "seams", "detail")
PARTS = (*STACK_PARTS, "halos", "pairs", "noise", "heights", "robustness")
ENFUSE_COMMAND = (
    "enfuse", "--hard-mask", "--exposure-weight=0", "--saturation-weight=0", "--contrast-weight=1", "--contrast-window-size=5",
)  # fmt: skip
MOVING = ("algae_microscope_5x20mpx", "macro_focus_breathing", "pcb_7", "pcb_10", "photo_10", "scorpion_microscope_misaligned")
"""Stacks that `suggest_alignment` or the eye finds moved; all by a similarity."""

DARK_OBJECTS = ("blood_smear_left", "cytology_013")
LARGEST_PX, CROP_PX = 3_000_000, 1500
PAIR_SETS = ("lytro", "mffw", "mfi_whu", "nyu_d")
ROBUST_STACKS, ROBUST_SCENES = ("golgi_bfa", "nuclear_envelope"), ("wide", "stem")
CHANGES = ("3 % brighter", "10 % brighter", "shifted by .5 px")
STRONG, KEPT = 20.0, 0.5
"""As `kept_objects.py` counts: times the noise, and share of the strength."""

TEXTURE_PX, LEAST_TEXTURE, BORDER_PX, NEAR = 9, 3.0, 12, 1.5
"""As `depth_truth.py` counts."""

SURE = (0.85, 0.95)
Picture = tuple[np.ndarray, np.ndarray | None]
"""A fused image and which image each pixel is from, where that is known."""


class Bench(NamedTuple):
    """Where things are, and figures of other programs that need not be measured again."""

    shared: Path
    cache: Path
    recorded: dict[tuple[str, str, str], dict[str, float]]

    def tool(self, name: str) -> ModuleType:
        return load_tool(self.shared, name)


class Job(NamedTuple):
    """Something to measure in one go."""

    parts: tuple[str, ...]
    name: str
    seed: int = 0
    place: StackPlace | None = None


@lru_cache
def load_tool(shared: Path, name: str) -> ModuleType:
    """Import a measure by its path."""
    path = shared / "tools" / f"{name}.py"
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None or not path.exists():
        msg = f"{path} is not there; the measure {name} is needed: name its folder by --shared"
        raise FileNotFoundError(msg)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def list_jobs(parts: list[str], patterns: list[str], n_seeds: int, shared: Path) -> Iterator[Job]:
    """Yield what the parts need, in the order of the report; of microscope stacks first, which are small."""
    of_stacks = tuple(part for part in STACK_PARTS if part in parts)
    scenes = {"halos": "depth_edges", "heights": "depth_truth"}
    named: dict[str, list[str]] = {"pairs": list(PAIR_SETS), "noise": ["nyu_d"], "robustness": [*ROBUST_STACKS, *ROBUST_SCENES]}
    named |= {part: list(load_tool(shared, tool).SCENES) for part, tool in scenes.items() if part in parts}
    jobs = [Job(of_stacks, place.name, 0, place) for place in find_places(shared / "data")] if of_stacks else []
    for part in (part for part in PARTS if part in parts and part in named):
        jobs += [Job((part,), name, seed) for name in named[part] for seed in range(n_seeds if part in scenes else 1)]
    yield from (job for job in jobs if any(fnmatch(job.name, pattern) for pattern in patterns))


def find_places(data: Path) -> list[StackPlace]:
    """Return the stacks of photographs, of microscopes, and the surfaces."""
    surfaces = [StackPlace(path.stem, path, None, True) for path in sorted((data / "surface").glob("*.tif"))]
    return sorted([*find_stacks(data), *surfaces], key=lambda place: not place.is_microscopy)


def measure(job: Job, bench: Bench) -> list[Row]:
    """Return the rows of one job."""
    if job.place is not None:
        return list(measure_stack(job, job.place, bench))
    return MEASURES[job.parts[0]](job, bench)


# --- pictures --------------------------------------------------------------------------------------------------------------------


def fuse_here(frames: list[np.ndarray], **more: bool) -> FusionResult:
    return fuse(frames, workers=1, **more)


def pick_by_laplacian(frames: list[np.ndarray], gray: Callable[[np.ndarray], np.ndarray]) -> Picture:
    """Return the copy of the samples whose squared Laplacian of Gaussian (1 px, window 2 px) is the largest."""
    best = np.full(frames[0].shape[:2], -1.0)
    index = np.zeros(best.shape, np.intp)
    fused = frames[0].copy()
    for number, frame in enumerate(frames):
        level = ndimage.gaussian_filter(ndimage.gaussian_laplace(gray(frame), 1.0) ** 2, 2.0)
        is_better = level > best
        best[is_better], index[is_better], fused[is_better] = level[is_better], number, frame[is_better]
    return fused, index


def fuse_by_enfuse(folder: Path) -> Picture | None:
    """Return enfuse's picture of the frames of a folder, or None where it is not installed."""
    target = folder.with_name("enfuse.tif")
    if not target.exists():
        if shutil.which("enfuse") is None:
            return None
        command = [*ENFUSE_COMMAND, f"--output={target}", *map(str, sorted(folder.iterdir()))]
        subprocess.run(command, capture_output=True, check=True)
    fused = tifffile.imread(target)
    is_color = read_frame(next(folder.iterdir())).ndim == 3
    return (fused[..., :3] if is_color else fused if fused.ndim == 2 else fused[..., 0]), None


def fuse_jointly(place: StackPlace) -> Iterator[tuple[str, str, Picture]]:
    """Yield one channel of a stack of several, fused by the decisions that the engine makes of all of them."""
    if place.channel is not None:
        result = fuse(open_stack(place.path), workers=1)
        yield f"{place.name}, decided jointly", OURS, (result.companions[..., place.channel], result.source_index)


def make_pictures(folder: Path, frames: list[np.ndarray], bench: Bench, is_known: Callable[[str], bool]) -> Iterator[tuple[str, Picture]]:
    """Yield what each program makes of the frames of a folder; of others only what is not known."""
    result = fuse_here(frames)
    yield OURS, (result.fused, result.source_index)
    if not is_known(LAPLACIAN):
        yield LAPLACIAN, pick_by_laplacian(frames, bench.tool("lost_detail").gray)
    if not is_known(ENFUSE) and (picture := fuse_by_enfuse(folder)) is not None:
        yield ENFUSE, picture


def read_frame(path: Path) -> np.ndarray:
    return tifffile.imread(path) if path.suffix == ".tif" else read_image(path).samples


def find_frames(place: StackPlace, cache: Path) -> Path:
    """Return the folder with the frames of a stack in their own sample type: aligned where it moves, the middle of what is large."""
    folder = find_folder(place, cache / "as_they_are") / "frames"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
            written = Path(unfinished) / "frames"
            written.mkdir()
            for number, frame in enumerate(list_frames(place, Path(unfinished) / "aligned")):
                photometric = "rgb" if frame.ndim == 3 else "minisblack"
                tifffile.imwrite(written / f"{number:03}.tif", crop(frame), photometric=photometric)
            written.rename(folder)
    return folder


def list_frames(place: StackPlace, aligned: Path) -> Iterator[np.ndarray]:
    if place.path.is_file():
        planes = tifffile.imread(place.path)
        yield from planes if place.channel is None else planes[:, place.channel]
        return
    folder = place.path
    if place.name in MOVING:
        command = [sys.executable, "-m", "qmcif_engine", "align", str(folder), "--crop", "--quiet", "-o", str(aligned / "{frame}.tif")]
        subprocess.run(command, check=True)
        folder = aligned
    yield from (read_frame(path) for path in sorted(folder.iterdir()))


def crop(frame: np.ndarray) -> np.ndarray:
    """Return the middle of a frame that is large."""
    if frame.shape[0] * frame.shape[1] <= LARGEST_PX:
        return frame
    corner = [max(side - CROP_PX, 0) // 2 for side in frame.shape[:2]]
    return np.ascontiguousarray(frame[corner[0] : corner[0] + CROP_PX, corner[1] : corner[1] + CROP_PX])


def find_scene(tool: str, job: Job, bench: Bench) -> Path:
    """Return the folder of a generated scene, made by its tool."""
    folder = bench.cache / tool / str(job.seed)
    if not (folder / job.name).exists():
        with tempfile.TemporaryDirectory(dir=make_folder(bench.cache)) as unfinished:
            path = bench.shared / "tools" / f"{tool}.py"
            subprocess.run([sys.executable, path, "make", unfinished, "--seed", str(job.seed), "--scene", job.name], check=True)
            make_folder(folder)
            (Path(unfinished) / job.name).rename(folder / job.name)
    return folder / job.name


def make_folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


# --- measures --------------------------------------------------------------------------------------------------------------------


def measure_stack(job: Job, place: StackPlace, bench: Bench) -> Iterator[Row]:
    """Yield objects, seams and detail of one stack."""
    parts = [part for part in job.parts if part != "objects" or place.is_microscopy or place.name in DARK_OBJECTS]
    if not parts:
        return
    folder = find_frames(place, bench.cache)
    frames = [tifffile.imread(path) for path in sorted(folder.iterdir())]
    gray = bench.tool("lost_detail").gray
    grays = [gray(frame) for frame in frames]

    def is_known(program: str) -> bool:
        return all((part, job.name, program) in bench.recorded for part in parts if (part, program) != ("seams", ENFUSE))

    pictures = ((job.name, *picture) for picture in make_pictures(folder, frames, bench, is_known))
    for name, program, (fused, index) in chain(pictures, fuse_jointly(place)):
        for part in parts:
            if part == "objects":
                yield Row(part, name, program, count_objects(gray(fused), grays, bench, is_dark=place.name in DARK_OBJECTS))
            elif part == "detail":
                yield Row(part, name, program, bench.tool("lost_detail").measure(gray(fused), grays)[0])
            elif index is not None:
                yield Row(part, name, program, measure_seams(index, grays, bench))


def count_objects(fused: np.ndarray, grays: list[np.ndarray], bench: Bench, *, is_dark: bool = False) -> dict[str, Any]:
    """Return the figures of `kept_objects.py`, and plane, row and column of the strong objects that were lost."""
    sign = -1 if is_dark else 1
    alone, ratio = bench.tool("kept_objects").ratios(sign * fused, [sign * gray for gray in grays])
    if not alone:
        return {"objects": 0, "lost": 0, "strong": 0, "strong_lost": 0, "kept": 1.0, "median": 1.0}
    is_lost, is_strong = ratio < KEPT, np.array([item[5] for item in alone]) > STRONG
    counts = {"objects": len(alone), "lost": is_lost.sum(), "strong": is_strong.sum(), "strong_lost": (is_lost & is_strong).sum()}
    shares = {"kept": 1 - is_lost.mean(), "median": np.median(ratio)}
    places = {"strong_lost_at": [alone[number][1:4] for number in np.flatnonzero(is_lost & is_strong)]}
    return {name: int(value) for name, value in counts.items()} | {name: round(float(value), 4) for name, value in shares.items()} | places


def measure_seams(index: np.ndarray, grays: list[np.ndarray], bench: Bench) -> dict[str, float]:
    """Return the figures of `seams.py`."""
    images = np.stack(grays)
    found = bench.tool("seams").steps(index.astype(np.intp), images)
    return {"seams": round(float(1000 * found.sum() / index.size / images.std()), 3), "edges": round(float((found > 0).mean()), 5)}


def measure_halos(job: Job, bench: Bench) -> list[Row]:
    """Return the figures of `depth_edges.py` for one scene and seed."""
    folder = find_scene("depth_edges", job, bench)
    frames = [read_frame(path) for path in sorted((folder / "frames").iterdir())]
    name = f"{job.name}, seed {job.seed}"
    pictures = make_pictures(folder / "frames", frames, bench, lambda program: ("halos", name, program) in bench.recorded)
    return [Row("halos", name, program, score_halo(folder, fused, bench)) for program, (fused, _) in pictures]


def score_halo(folder: Path, fused: np.ndarray, bench: Bench) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "fused.png"
        Image.fromarray(fused).save(path)
        figures: dict[str, float] = bench.tool("depth_edges").score(folder, path)
    return figures


def measure_heights(job: Job, bench: Bench) -> list[Row]:
    """Return the figures of `depth_truth.py` for one scene and seed."""
    folder = find_scene("depth_truth", job, bench)
    frames = [read_frame(path) for path in sorted((folder / "frames").iterdir())]
    truth, depth = read_frame(folder / "truth.png").astype(float), tifffile.imread(folder / "depth.tif")
    gray = truth.mean(-1)
    variance = ndimage.uniform_filter(gray**2, TEXTURE_PX) - ndimage.uniform_filter(gray, TEXTURE_PX) ** 2
    counts = np.zeros(gray.shape, bool)
    inner = (slice(BORDER_PX, -BORDER_PX),) * 2
    counts[inner] = variance[inner] > LEAST_TEXTURE**2

    def describe(index: np.ndarray, position: np.ndarray, fused: np.ndarray) -> dict[str, float]:
        squares = ((position - depth)[counts] ** 2).mean(), ((fused.astype(float) - truth)[counts] ** 2).mean()
        right = (np.abs(index - depth)[counts] <= NEAR).mean()
        return {"height": float(squares[0] ** 0.5), "right": float(right), "psnr": float(10 * np.log10(255**2 / squares[1]))}

    result = fuse_here(frames, with_position=True)
    heights = height_map(result.position, z_step=1, confidence=result.confidence).height
    index, position = bench.tool("depth_truth").plain_pick(np.stack(frames))
    picked = np.take_along_axis(np.stack(frames), index[None, ..., None], 0)[0]
    figures = {OURS: describe(result.source_index, heights, result.fused), LAPLACIAN: describe(index, position, picked)}
    rounded = {program: {name: round(value, 4) for name, value in values.items()} for program, values in figures.items()}
    return [Row("heights", f"{job.name}, seed {job.seed}", program, values) for program, values in rounded.items()]


def measure_pairs(job: Job, bench: Bench) -> list[Row]:
    """Return the means over one set as ``quality.py`` has them, and how often sure decisions are right where there is a truth."""
    sets = find_dataset(bench.shared / "data" / job.name).sets
    scores = np.array([score(("default", pair.sources, pair.truth)) for pair in sets]).mean(axis=0)
    figures = {name: round(float(value), 5) for name, value in zip(SYMBOLS, scores, strict=True) if not np.isnan(value)}
    rows = [Row("pairs", job.name, OURS, {"pairs": len(sets), **figures})]
    if job.name == "nyu_d":
        counted = sum(count_sure(pair.sources, pair.truth, bench) for pair in sets)
        rows.append(Row("confidence", job.name, OURS, describe_sure(*counted)))
    return rows


def count_sure(sources: tuple[Path, ...], truth: Path, bench: Bench) -> np.ndarray:
    """Return how many pixels have a confidence of about .9 and how many of them are right, as `noisy_decisions.py` has it."""
    images = [read_image(path).samples for path in sources]
    errors = [((image.astype(float) - read_image(truth).samples) ** 2).sum(-1) for image in images]
    result = fuse_here(images)
    is_clear = np.abs(errors[0] - errors[1]) > bench.tool("noisy_decisions").CLEAR_DIFFERENCE
    is_sure = is_clear & (result.confidence >= SURE[0]) & (result.confidence <= SURE[1])
    return np.array([is_sure.sum(), (is_sure & (result.source_index == (errors[1] < errors[0]))).sum()])


def describe_sure(n_pixels: int, n_right: int) -> dict[str, float]:
    return {"pixels": int(n_pixels), "right": round(float(n_right / max(n_pixels, 1)), 4)}


def measure_noise(job: Job, bench: Bench) -> list[Row]:
    """Return what `noisy_decisions.py` prints."""
    command = [sys.executable, str(bench.shared / "tools" / "noisy_decisions.py"), str(bench.shared / "data" / job.name), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [Row("noise", job.name, OURS, json.loads(done.stdout))]


def measure_robustness(job: Job, bench: Bench) -> list[Row]:
    """Return objects or halos of one stack or scene as it is, and of changed images.

    The halo of brightened images is also scored with the brightness of each pixel's image taken back (``halo_evened``).
    """
    is_scene = job.name in ROBUST_SCENES
    place = next((place for place in find_places(bench.shared / "data") if place.name == job.name), None)
    folder = find_scene("depth_edges", job, bench) if place is None else find_frames(place, bench.cache).parent
    frames = [read_frame(path) for path in sorted((folder / "frames").iterdir())]
    rows = []
    for change in ("as it is", *CHANGES):
        changed, gains = change_frames(frames, change)
        result = fuse_here(changed)
        gray = bench.tool("lost_detail").gray
        figures: dict[str, Any] = {}
        if is_scene:
            evened = np.rint(np.clip(result.fused / gains[result.source_index][..., None], 0, 255)).astype(np.uint8)
            figures = score_halo(folder, result.fused, bench)
            figures["halo_evened"] = score_halo(folder, evened, bench)["halo"]
        else:
            figures = count_objects(gray(result.fused), [gray(frame) for frame in changed], bench)
        rows.append(Row("robustness", f"{job.name}, {change}", OURS, figures))
    return rows


def change_frames(frames: list[np.ndarray], change: str) -> tuple[list[np.ndarray], np.ndarray]:
    """Return frames of which every second one is brighter, or all are shifted in random directions; and the gain of each."""
    gains = np.ones(len(frames))
    if change.endswith("brighter"):
        gains[1::2] += float(change.split()[0]) / 100
        return [as_type(frame * gain, frame.dtype) for frame, gain in zip(frames, gains, strict=True)], gains
    if change.startswith("shifted"):
        angles = np.random.default_rng(0).uniform(0, 2 * np.pi, len(frames))
        shifts = [(0.5 * np.sin(angle), 0.5 * np.cos(angle), 0)[: frames[0].ndim] for angle in angles]
        return [as_type(shift_frame(frame, shift), frame.dtype) for frame, shift in zip(frames, shifts, strict=True)], gains
    return frames, gains


def shift_frame(frame: np.ndarray, shift: tuple[float, ...]) -> np.ndarray:
    return ndimage.shift(frame.astype(float), shift, order=3, mode="nearest")


def as_type(samples: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Return samples rounded and clipped to a type."""
    return samples.astype(dtype) if dtype.kind == "f" else np.clip(np.rint(samples), 0, np.iinfo(dtype).max).astype(dtype)


MEASURES: dict[str, Callable[[Job, Bench], list[Row]]] = {
    "halos": measure_halos,
    "heights": measure_heights,
    "pairs": measure_pairs,
    "noise": measure_noise,
    "robustness": measure_robustness,
}
