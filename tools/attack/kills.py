"""Kill runs at every file call, or let the disk fail there, and see what the next run makes of what is left.

    python tools/attack/kills.py --kills 1000 --errors 500 --seed 1
    python tools/attack/kills.py --kills 1 --errors 0 --seed 1 --first 417

Each case begins a run that dies, or meets a disk error, at one of its calls. Then outputs must be whole, old or new; a run without options
must leave them all old or all new; one with --resume must finish with the bytes of an undisturbed run; and nothing else may be left.
The runs are forks of this process, which has loaded everything, and fuse as little as makes three tiles: a case takes about a fifth of a
CPU second. Work happens in memory where the system offers that: a killed process loses nothing that the system has, on whatever disk.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import hashlib
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from fast_folder import fastest_folder
from faults import Fault, Faults

from qmcif_engine.cli import main
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.stack.synthetic import make_focus_stack

LONGEST_SECONDS = 20.0
"""A run that takes longer, in CPU seconds, hangs."""

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EDQUOT)
CHEAP = (
    "tile_px=64", "chunk_px=64", "measure=laplacian", "smoothness=0.0",
    "feather_px=0", "blend_px=0", "noise=off",
)  # fmt: skip
"""How pixels are decided is not under attack; these settings take the least time."""

SHAPE = (40, 130)
"""Of the images: three tiles."""

PROGRESS_CASES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A command whose run is disturbed.

    Attributes
    ----------
    name : str
    options : tuple of str
        Behind the input; names of outputs are relative.
    outputs : tuple of str
        Files and folders that belong together.
    replaces : bool
        Whether outputs of an earlier run are there and may be replaced.
    inputs : str
    command : str
    are_several : bool
        Whether outputs belong to several runs, of which each is whole by itself.
    """

    name: str
    options: tuple[str, ...]
    outputs: tuple[str, ...]
    replaces: bool = False
    inputs: str = "stack.tif"
    command: str = "fuse"
    are_several: bool = False


MAPS = ("--maps", "maps")
DEPTH = ("--depth", "height.tif", "--z-step", "2")
SLABS = ("--slab", "2", "--slab-overlap", "1")
HEIGHTS = ("height.tif", "height_confidence.tif")
BATCH = ("out/a.ome.tif", "out/b.ome.tif", "out/a_maps", "out/b_maps")
SCENARIOS = [
    Scenario(name="picture", options=("-o", "o.png"), outputs=("o.png",)),
    Scenario(name="maps", options=("-o", "o.tif", *MAPS), outputs=("o.tif", "maps")),
    Scenario(name="replaced", options=("-o", "o.tif", *MAPS, *DEPTH), outputs=("o.tif", "maps", *HEIGHTS), replaces=True),
    Scenario(name="store", options=("-o", "o.ome.zarr", *MAPS), outputs=("o.ome.zarr", "maps")),
    Scenario(name="replaced store", options=("-o", "o.ome.zarr", *DEPTH), outputs=("o.ome.zarr", *HEIGHTS), replaces=True),
    Scenario(name="scratch", options=("-o", "o.ome.tif", "--scratch", "scratch"), outputs=("o.ome.tif",), inputs="images"),
    Scenario(name="series", options=("-o", "o.ome.tif", *MAPS, *DEPTH), outputs=("o.ome.tif", "maps", *HEIGHTS), inputs="series.ome.tif"),
    Scenario(
        name="replaced series",
        options=(
            "-o",
            "o.ome.zarr",
        ),
        outputs=("o.ome.zarr",),
        inputs="series.ome.tif",
        replaces=True,
    ),
    Scenario(
        name="replaced points",
        options=("-o", "o.tif", "--split-time", *MAPS),
        outputs=("o_t000.tif", "o_t001.tif", "maps_t000", "maps_t001"),
        inputs="series.ome.tif",
        replaces=True,
        are_several=True,
    ),
    Scenario(name="batch", options=("-o", "out", "--maps"), outputs=BATCH, inputs="stacks", command="batch", are_several=True),
    Scenario(
        name="replaced batch",
        options=("-o", "out", "--maps"),
        outputs=BATCH,
        inputs="stacks",
        command="batch",
        replaces=True,
        are_several=True,
    ),
    Scenario(name="replaced slabs", options=("-o", "o.tif", *SLABS), outputs=("o.tif", "o.tif.slabs"), replaces=True),
    Scenario(name="slabs", options=("-o", "o.tif", *SLABS, *MAPS, *DEPTH), outputs=("o.tif", "maps", *HEIGHTS)),
]


class Failure(Exception):
    """A promise that was not kept."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended: its exit code, what it said, and how many file calls it made."""

    code: int
    text: str
    n_calls: int


def run_forked(arguments: list[str], folder: Path, faults: Faults) -> Ended:
    """Run the command in a fork that works in a folder and meets the faults."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.setitimer(signal.ITIMER_PROF, LONGEST_SECONDS)  # ends a run that hangs, by CPU time: the machine may be busy
        os.chdir(folder)
        said, code = io.StringIO(), 99
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
                faults.install()
                code = main(arguments)
        except BaseException:
            said.write(traceback.format_exc())
        os.write(writing, json.dumps([code, said.getvalue()[-4000:], faults.n_calls]).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        answer = stream.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == -signal.SIGPROF:
        msg = f"took more than {LONGEST_SECONDS} CPU s"
        raise Failure(msg)
    return Ended(*json.loads(answer)) if status == 0 else Ended(status, "", 0)


def prepare_inputs(folder: Path) -> None:
    """Write a small stack, as TIFF and as PNG images, and another one of the same kind, of which old outputs are made."""
    from qmcif_engine import write_image

    for name, seed in (("stack", 4), ("other", 5)):
        images = make_focus_stack(shape=SHAPE, n_images=3, seed=seed).images
        tifffile.imwrite(folder / f"{name}.tif", np.stack(images)[..., 1], photometric="minisblack")
    (folder / "images").mkdir()
    for number, image in enumerate(images):
        write_image(folder / "images" / f"{number}.png", image)
    for kind, order in (("", 1), ("other-", -1)):
        scenes = [np.stack(make_focus_stack(shape=SHAPE, n_images=3, seed=seed).images)[..., 1] for seed in (6, 7)[::order]]
        tifffile.imwrite(folder / f"{kind}series.ome.tif", np.stack(scenes), metadata={"axes": "TZYX"})
        (folder / f"{kind}stacks").mkdir()
        for name, scene in zip("ab", scenes, strict=True):
            (folder / f"{kind}stacks" / name).mkdir()
            for number, image in enumerate(scene):
                write_image(folder / f"{kind}stacks" / name / f"{number}.png", image)


def command(scenario: Scenario, inputs: Path, *further: str, given: str | None = None) -> list[str]:
    settings = [word for assignment in CHEAP for word in ("--set", assignment)]
    return [scenario.command, str(inputs / (given or scenario.inputs)), *scenario.options, *settings, "--workers", "1", "--quiet", *further]


def digest(path: Path) -> str | None:
    """Return a digest of a file, or of all files of a folder with their names; None where there is none."""
    if not path.exists():
        return None
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    named = [(str(file.relative_to(path.parent)), file.read_bytes()) for file in files if file.is_file()]
    return hashlib.sha256(repr(named).encode()).hexdigest() if named or path.is_file() else None


def list_names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


class Attack:
    """The references of all scenarios, and the cases made of them.

    Parameters
    ----------
    folder : Path
        Where everything happens.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._inputs = folder, folder / "inputs"
        self._inputs.mkdir()
        prepare_inputs(self._inputs)
        self._calls = {scenario.name: self._count(scenario) for scenario in SCENARIOS}

    def _place(self, scenario: Scenario, kind: str) -> Path:
        return self._folder / f"{kind} {scenario.name}"

    def _count(self, scenario: Scenario) -> int:
        """Make the old and the new outputs undisturbed, and in this process, so that all code is loaded; return how many calls it takes."""
        other = "other.tif" if scenario.inputs in ("stack.tif", "images") else f"other-{scenario.inputs}"
        for kind, given in (("old", other), ("new", None)):
            place = self._place(scenario, kind)
            place.mkdir()
            (place / "scratch").mkdir()
            with contextlib.chdir(place):
                _expect(main(command(scenario, self._inputs, given=given)) == 0, f"{scenario.name}: the undisturbed run failed")
        work = self._begin(scenario)
        return run_forked(command(scenario, self._inputs, *_allowed(scenario)), work, Faults([work], Fault.COUNT)).n_calls

    def _begin(self, scenario: Scenario) -> Path:
        """Return a fresh folder, with old outputs where these are to be replaced."""
        work = self._folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        if scenario.replaces:
            shutil.copytree(self._place(scenario, "old"), work)
        else:
            work.mkdir()
            (work / "scratch").mkdir()
        return work

    def try_case(self, number: int, *, seed: int, is_kill: bool) -> str | None:
        """Return what was wrong in a case; None where all promises were kept."""
        chance = random.Random(f"{seed} {number} {is_kill}")
        scenario = SCENARIOS[number % len(SCENARIOS)]
        at_call = chance.randrange(self._calls[scenario.name])
        fault = chance.choice([Fault.KILL, Fault.TEAR] if is_kill else [Fault.ERROR, Fault.LASTING_ERROR])
        error, is_plain_first = chance.choice(ERRORS), chance.random() < 0.5
        try:
            self._disturb(scenario, fault, at_call=at_call, error=error, is_plain_first=is_plain_first)
        except Failure as failure:
            reason = errno.errorcode[error] if not is_kill else ""
            between = ", then without options" if is_plain_first else ""
            return f"case {number}: {scenario.name}, {fault} {reason} at call {at_call} of {self._calls[scenario.name]}{between}: {failure}"
        return None

    def _disturb(self, scenario: Scenario, fault: Fault, *, at_call: int, error: int, is_plain_first: bool) -> None:
        work = self._begin(scenario)
        ended = run_forked(command(scenario, self._inputs, *_allowed(scenario)), work, Faults([work], fault, at_call=at_call, number=error))
        _expect(ended.code in ((-signal.SIGKILL, 0) if fault in (Fault.KILL, Fault.TEAR) else (0, 1, 2)), f"ended with {ended}")
        _expect("Traceback" not in ended.text, ended.text)
        self._check_whole(scenario, work, "disturbed")
        if is_plain_first:
            plain = run_forked(command(scenario, self._inputs), work, Faults([work], Fault.COUNT))
            _expect(
                plain.code in ((0, 1, 2) if scenario.are_several else (0, 2)) and "Traceback" not in plain.text, f"without options: {plain}"
            )
            states = self._check_whole(scenario, work, "without options")
            _expect(len(states) == 1 or scenario.are_several, f"outputs are mixed after a run without options: {states} {plain.text}")
        is_begun = any(work.rglob("*.qmcif-job"))
        further = [] if is_begun else _allowed(scenario)  # a run that left nothing to go on with cannot tell what it was allowed
        resumed = run_forked(command(scenario, self._inputs, "--resume", *further), work, Faults([work], Fault.COUNT))
        _expect(resumed.code == 0, f"could not be resumed: {resumed.code} {resumed.text}")
        states = self._check_whole(scenario, work, "resumed")
        _expect(states == {"new"}, f"after resuming, outputs are {states}")
        left = set(list_names(work)) ^ set(list_names(self._place(scenario, "new")))
        _expect(not left, f"left behind, or missing: {sorted(left)[:5]}")

    def _check_whole(self, scenario: Scenario, work: Path, moment: str) -> set[str]:
        """Return which of old, new and absent the outputs are; files in a folder are looked at one by one."""
        states = set()
        for name in scenario.outputs:
            old, new = (self._place(scenario, kind) / name for kind in ("old", "new"))
            is_store = name.endswith(".zarr")
            parts = [Path()] if new.is_file() or is_store else sorted(path.relative_to(new) for path in new.rglob("*.tif"))
            for part in parts:
                found = digest(work / name / part)
                known = {digest(old / part): "old", digest(new / part): "new", None: "absent"}
                _expect(found in known, f"{name}/{part} is neither old nor new ({moment})")
                states.add(known[found])
        _expect(scenario.replaces or "old" not in states, f"{moment}: {states}")
        return states


def _allowed(scenario: Scenario) -> list[str]:
    return ["--overwrite"] if scenario.replaces else []


def _expect(is_kept: bool, message: str) -> None:
    if not is_kept:
        raise Failure(message)


def run_attack(*, n_kills: int, n_errors: int, seed: int, first: int = 0) -> dict[str, Any]:
    """Return how many cases were tried and what was wrong in them."""
    started, failures = time.perf_counter(), []
    open_stack.__kwdefaults__["memory_bytes"] = 0  # decoded images go to the scratch folder, however few they are
    with tempfile.TemporaryDirectory(prefix="qmcif-attack-", dir=fastest_folder()) as name:
        attack = Attack(Path(name).resolve())
        for kind, n_cases in (("kills", n_kills), ("disk errors", n_errors)):
            for number in range(first, first + n_cases):
                failure = attack.try_case(number, seed=seed, is_kill=kind == "kills")
                if failure is not None:
                    failures.append(failure)
                    print(failure, file=sys.stderr, flush=True)
                if (number + 1 - first) % PROGRESS_CASES == 0:
                    print(f"{number + 1 - first} of {n_cases} {kind}, {len(failures)} failures", file=sys.stderr, flush=True)
        calls = dict(attack._calls)
    return {
        "kills": n_kills,
        "disk_errors": n_errors,
        "seed": seed,
        "first": first,
        "calls_a_run": calls,
        "seconds": round(time.perf_counter() - started, 1),
        "failures": failures,
    }


def cli() -> int:
    parser = argparse.ArgumentParser(description="kill runs at file calls, and let the disk fail there")
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--errors", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case, to run the attack in parts, or single cases again")
    options = parser.parse_args()
    report = run_attack(n_kills=options.kills, n_errors=options.errors, seed=options.seed, first=options.first)
    print(json.dumps(report))
    return 1 if report["failures"] else 0


if __name__ == "__main__":
    sys.exit(cli())
