"""Damaged inputs given to ``qmcif fuse`` by the thousand: each is refused or fused, with no traceback, no hang and little memory."""

from __future__ import annotations

import random
import shutil
import signal
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from damage import damage
from fast_folder import fastest_folder
from limited_commands import LimitedCommands
from seeds import SEEDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from limited_commands import Outcome

LONGEST_CPU_SECONDS = 20
LONGEST_WAIT_SECONDS = 300
"""For what waits without computing; far above the CPU time, since a busy machine lets a command wait."""

LARGEST_BYTES = 1_500_000_000
_ADDRESS_SPACE_BYTES = 4 * 10**9
_OUTPUT = "fused.ome.tif"
_FAST = ("--workers", "1", "--set", "effort=fast")
_FUSED, _REFUSED = 0, 2
_COMMANDS_A_COPY = 100


@dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong with one case, which its number and the seed make again."""

    number: int
    kind: str
    change: str
    verdict: str
    told: str


@dataclass(slots=True)
class Tally:
    """What became of all cases."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    longest_cpu_seconds: float = 0.0
    largest_bytes: int = 0

    @property
    def n_cases(self) -> int:
        """How many cases there were."""
        return self.outcomes.total()


def attack(numbers: Iterable[int], *, seed: int, n_processes: int = 1, on_case: Callable[[], None] | None = None) -> Tally:
    """Run cases and return what became of them.

    Parameters
    ----------
    numbers : iterable of int
        Each is a case; the same number and seed are the same case.
    seed : int
    n_processes : int
        How many run at once.
    on_case : callable, optional
        Called after each.
    """
    waiting, tally = iter(list(numbers)), Tally()
    with tempfile.TemporaryDirectory(prefix="qmcif-attack-", dir=fastest_folder()) as name:
        seeds = {kind: _write_seed(Path(name) / f"seed_{place}", kind) for place, kind in enumerate(SEEDS)}

        def work(place: int) -> None:
            del place
            with LimitedCommands(n_commands_a_copy=_COMMANDS_A_COPY) as commands:
                for number in waiting:
                    _run_case(number, commands, seeds, Path(name) / f"case_{number}", seed=seed, tally=tally)
                    if on_case is not None:
                        on_case()

        with ThreadPoolExecutor(n_processes) as pool:
            list(pool.map(work, range(n_processes)))
    tally.faults.sort(key=lambda fault: fault.number)
    return tally


def _write_seed(folder: Path, kind: str) -> tuple[Path, list[str]]:
    folder.mkdir()
    return folder, SEEDS[kind](folder)


def _run_case(
    number: int, commands: LimitedCommands, seeds: dict[str, tuple[Path, list[str]]], folder: Path, *, seed: int, tally: Tally
) -> None:
    kind = list(seeds)[number % len(seeds)]
    chance = random.Random(f"{seed} {number}")
    template, inputs = seeds[kind]
    shutil.copytree(template, folder / "in")
    change = damage(folder / "in", chance)
    options = ("--quiet",) if chance.random() < 0.7 else ()
    if kind == "OME-TIFF":
        options += ("--channels", chance.choice(("1", "1,2", "each")))
    outcome = commands.run(
        *("fuse", *inputs, "-o", f"../{_OUTPUT}", *_FAST, *options),
        cpu_seconds=LONGEST_CPU_SECONDS,
        wall_seconds=LONGEST_WAIT_SECONDS,
        n_bytes=_ADDRESS_SPACE_BYTES,
        folder=folder / "in",
    )
    verdict = judge(outcome, has_output=(folder / _OUTPUT).exists(), left=sorted(path.name for path in folder.iterdir()))
    tally.outcomes[kind, verdict] += 1
    tally.longest_cpu_seconds = max(tally.longest_cpu_seconds, outcome.cpu_seconds)
    tally.largest_bytes = max(tally.largest_bytes, outcome.peak_bytes)
    if verdict not in ("fused", "refused"):
        tally.faults.append(Fault(number, kind, change, verdict, outcome.stderr[-2000:]))
    shutil.rmtree(folder, ignore_errors=True)


def judge(outcome: Outcome, *, has_output: bool, left: list[str]) -> str:
    """Return what became of a case: fused or refused, or what is wrong with it."""
    code = outcome.returncode
    if code in (-signal.SIGPROF, -signal.SIGALRM):
        return "hang"
    if code < 0:
        return f"crash by signal {-code}"
    if outcome.peak_bytes > LARGEST_BYTES:
        return "too much memory"
    if "Traceback" in outcome.stderr or "Warning:" in outcome.stderr:
        return "traceback"
    if code not in (_FUSED, _REFUSED):
        return f"exit code {code}"
    if has_output != (code == _FUSED):
        return "no output" if code == _FUSED else "output in spite of refusal"
    if set(left) - {"in", _OUTPUT}:
        return "leftovers"
    return "fused" if code == _FUSED else "refused"
