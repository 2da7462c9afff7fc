"""Real focus stacks as 8-bit frames that lie on each other, and what enfuse and OpenFocus make of them; all kept in a folder.

The frames of a stack that moves are aligned by the engine and cut to the area that all of them show. Microscope stacks become 8 bits by
the 0.1 and 99.9 percentiles of each channel. Frames and the other programs' pictures and figures are made once and taken from the folder
afterwards; delete the folder to make them anew.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import tifffile

from qmcif_engine import open_stack, prepare_stack, read_image, suggest_alignment
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from qmcif_engine.stack.stack import Stack

MISALIGNED = {"scorpion_microscope_misaligned": "similarity"}
"""Stacks that move so much that `suggest_alignment` does not trust its own estimate, and the model they need."""

PERCENTILES = (0.1, 99.9)
ENFUSE = ("enfuse", "--hard-mask", "--exposure-weight=0", "--saturation-weight=0", "--contrast-weight=1", "--contrast-window-size=5")
OPENFOCUS = ("-m", "openfocus_b", "--no-exposure-match", "--cpu", "--threads", "2")
PROGRAMS = ("enfuse", "openfocus_b")
N_THREADS = 2
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class StackPlace(NamedTuple):
    """One stack to report: its name, the folder or file it comes from, and which channel of it, if it has several."""

    name: str
    path: Path
    channel: int | None
    is_microscopy: bool


def find_stacks(data: Path) -> list[StackPlace]:
    """Return the stacks below a folder: the folders of ``stacks``, and the files of ``microscopy``, one for each channel."""
    folders = sorted(path for path in (data / "stacks").glob("*") if path.is_dir())
    places = [StackPlace(path.name, path, None, False) for path in folders]
    for path in sorted((data / "microscopy").glob("*.tif")):
        n_channels = count_channels(path)
        names = [path.stem] if n_channels == 1 else [f"{path.stem}, channel {number + 1}" for number in range(n_channels)]
        places += [StackPlace(name, path, None if n_channels == 1 else number, True) for number, name in enumerate(names)]
    return places


def count_channels(path: Path) -> int:
    with tifffile.TiffFile(path) as file:
        return file.series[0].shape[1] if len(file.series[0].shape) == 4 else 1


def read_frames(place: StackPlace, cache: Path) -> list[np.ndarray]:
    """Return the 8-bit frames of a stack, aligned and cut where it moves; written to its folder when they are not there yet."""
    folder = find_folder(place, cache) / "frames"
    if not folder.exists():
        frames = read_channel(place.path, place.channel) if place.is_microscopy else read_aligned(place.path)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
            written = Path(unfinished) / "frames"
            written.mkdir()
            for number, frame in enumerate(frames):
                photometric = "rgb" if frame.ndim == 3 else "minisblack"
                tifffile.imwrite(written / f"{number:03d}.tif", frame, photometric=photometric)
            written.rename(folder)
    return [tifffile.imread(path) for path in sorted(folder.glob("*.tif"))]


def find_folder(place: StackPlace, cache: Path) -> Path:
    return cache / place.name.replace(", ", "_").replace(" ", "_")


def read_channel(path: Path, channel: int | None) -> list[np.ndarray]:
    planes = tifffile.imread(path)
    return list(to_8_bits(planes if channel is None else planes[:, channel]))


def to_8_bits(planes: np.ndarray) -> np.ndarray:
    """Return planes stretched between two percentiles of all of them."""
    black, white = np.percentile(planes, PERCENTILES)
    return np.clip(np.rint((planes.astype(np.float64) - black) * (255 / max(white - black, 1e-12))), 0, 255).astype(np.uint8)


def read_aligned(folder: Path) -> list[np.ndarray]:
    """Return the images of a folder, aligned where they moved, cut to the area that all of them show."""
    stack = open_stack(folder)
    suggestion = suggest_alignment(stack)
    model = MISALIGNED.get(folder.name, "none" if suggestion is None else suggestion.model.value)
    prepared = prepare_stack(stack, align=model)
    whole = Window.whole(prepared.image_shape)
    area = whole if model == "none" else find_common_area(prepared)
    return [np.asarray(prepared.read(number, whole))[area.slices] for number in range(prepared.n_images)]


def find_common_area(stack: Stack) -> Window:
    """Return a rectangle that every image shows: sides are cut, the one that lacks the most first, until nothing is missing."""
    whole = Window.whole(stack.image_shape)
    is_common = np.ones(whole.shape, bool)
    for number in range(stack.n_images):
        is_common &= stack.valid(number, whole)
    top, left, bottom, right = whole
    while True:
        part = is_common[top:bottom, left:right]
        lacking = [1 - side.mean() for side in (part[0], part[:, 0], part[-1], part[:, -1])]
        worst = int(np.argmax(lacking))
        if lacking[worst] == 0:
            return Window(top, left, bottom, right)
        top, left, bottom, right = top + (worst == 0), left + (worst == 1), bottom - (worst == 2), right - (worst == 3)


def fuse_by_program(program: str, place: StackPlace, cache: Path, *, openfocus: str | None) -> np.ndarray | None:
    """Return the picture that another program makes of the frames of a stack, or None where it is not installed."""
    folder = find_folder(place, cache)
    target = folder / f"{program}.{'tif' if program == 'enfuse' else 'png'}"
    if not target.exists():
        commands: dict[str, Callable[[], list[str] | None]] = {
            "enfuse": lambda: plan_enfuse(folder, target),
            "openfocus_b": lambda: plan_openfocus(folder, target, openfocus),
        }
        command = commands[program]()
        if command is None:
            return None
        environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(N_THREADS))}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode or not target.exists():
            msg = f"{program} ended with {done.returncode} on {place.name}; a picture is needed: {(done.stderr or done.stdout)[-500:]}"
            raise RuntimeError(msg)
    return match_channels(tifffile.imread(target) if target.suffix == ".tif" else read_image(target).samples, folder)


def plan_enfuse(folder: Path, target: Path) -> list[str] | None:
    frames = [str(path) for path in sorted((folder / "frames").glob("*.tif"))]
    return None if shutil.which(ENFUSE[0]) is None else [*ENFUSE, f"--output={target}", *frames]


def plan_openfocus(folder: Path, target: Path, openfocus: str | None) -> list[str] | None:
    """Return its command; environments of its own are not on the path, so the program is named."""
    executable = shutil.which(openfocus or "openfocus")
    return None if executable is None else [executable, "-i", str(folder / "frames"), *OPENFOCUS, "-o", str(target)]


def match_channels(fused: np.ndarray, folder: Path) -> np.ndarray:
    """Return a picture with the channels of the frames: programs add alpha, or make color of gray."""
    is_color = tifffile.imread(folder / "frames" / "000.tif").ndim == 3
    if is_color:
        return np.ascontiguousarray(fused[..., :3])
    return fused if fused.ndim == 2 else np.ascontiguousarray(fused[..., 0])


def keep_figures(program: str, place: StackPlace, cache: Path, *, measure: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Return the figures of another program's picture, measured once."""
    path = find_folder(place, cache) / f"{program}.json"
    if not path.exists():
        path.write_text(json.dumps(measure()))
    figures: dict[str, float] = json.loads(path.read_text())
    return figures
