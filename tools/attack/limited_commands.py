"""The command ``qmcif`` in processes that the system ends when they take more than their share.

One process loads the libraries and fuses a small stack, so that all is compiled; it then makes a copy of itself for every command, or for
every few. So a command costs what it does and not what loading takes, and what it takes is counted from there. Run as a script, this file
is that process: it takes a request a line and answers each with a line.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a command.

    Attributes
    ----------
    returncode : int
        Negative where a signal ended it: SIGPROF after too much CPU time, SIGALRM after too long a wait.
    stdout, stderr : str
    cpu_seconds, wall_seconds : float
    peak_bytes : int
        Resident memory at most, the libraries included.
    """

    returncode: int
    stdout: str
    stderr: str
    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int


class LimitedCommands:
    """Commands that run one after the other under limits. A context manager: leaving it ends the process that waits for them.

    Parameters
    ----------
    n_commands_a_copy : int, optional
        So many commands are run by one copy of the process, which is ended sooner when one of them takes too much. Most of what refusing a
        small file takes is making the copy.
    """

    def __init__(self, *, n_commands_a_copy: int = 1) -> None:
        self._n_commands = n_commands_a_copy

    def __enter__(self) -> Self:
        """Start the process, which takes some seconds until it answers."""
        request = [sys.executable, __file__, str(self._n_commands)]
        self._process = subprocess.Popen(request, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        if self._process.stdin is not None and self._process.stdout is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process.stdout.close()

    def run(
        self, *arguments: object, cpu_seconds: float = 2, n_bytes: int = 500 * 10**6, wall_seconds: int = 600, folder: Path | None = None
    ) -> Outcome:
        """Run ``qmcif`` with these arguments.

        Parameters
        ----------
        *arguments : object
            Shown as text.
        cpu_seconds : float
        n_bytes : int
            Of address space, beyond what the loaded libraries take; for several commands of a copy, that of the first.
        wall_seconds : int
            For what takes no CPU time: a pipe that nobody writes to.
        folder : Path, optional
            Where the command runs.
        """
        request = {
            "arguments": [str(argument) for argument in arguments],
            "cpu_seconds": cpu_seconds,
            "n_bytes": n_bytes,
            "wall_seconds": wall_seconds,
            "folder": None if folder is None else str(folder),
        }
        if self._process.stdin is None or self._process.stdout is None:
            msg = "the process has no pipes"
            raise RuntimeError(msg)
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            msg = f"the process that runs commands ended with {self._process.wait()}"
            raise RuntimeError(msg)
        return Outcome(**json.loads(answer))


def _serve(n_commands: int) -> None:
    from qmcif_engine.cli import parser

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    _warm_up()
    parser.build_parser = functools.cache(parser.build_parser)  # nothing of a command line stays in it
    gc.freeze()  # copies share what is never looked at again
    copies = _Copies(n_commands)
    for line in sys.stdin:
        print(json.dumps(copies.answer(json.loads(line))), file=answers, flush=True)


def _warm_up() -> None:
    """Fuse stacks of every kind that has libraries of its own, so that no command pays for loading and compiling."""
    import imagecodecs
    import numpy as np
    import tifffile

    from qmcif_engine.cli import main

    scratch = Path(tempfile.mkdtemp(prefix="qmcif-attack-"))
    try:
        picture = np.random.default_rng(0).integers(0, 255, (48, 64), np.uint8)
        for number in (1, 2):
            (scratch / f"{number}.png").write_bytes(imagecodecs.png_encode(picture))
            (scratch / f"{number}.jpg").write_bytes(imagecodecs.jpeg8_encode(picture))
        tifffile.imwrite(scratch / "a.tif", np.stack([picture, picture[::-1]]), compression="zlib", photometric="minisblack")
        for inputs, output in (("*.png", "a.zarr"), ("*.jpg", "b.png"), ("a.tif", "c.ome.tif")):
            code = main(["fuse", str(scratch / inputs), "-o", str(scratch / output), "--quiet", "--workers", "1"])
            if code:
                msg = f"fusing a plain stack ended with {code}"
                raise RuntimeError(msg)
    finally:
        shutil.rmtree(scratch)


class _Copies:
    """Copies of this process, each of which carries out a number of commands and is ended by the system when one takes too much."""

    def __init__(self, n_commands: int) -> None:
        self._n_commands, self._n_done, self._child = n_commands, 0, 0
        self._out, self._err = (tempfile.TemporaryFile() for _ in range(2))  # noqa: SIM115 - they go with the process

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return what became of a command."""
        started = time.monotonic()
        for stream in (self._out, self._err):
            stream.truncate(0)
        if not self._child:
            self._begin()
        self._requests.write(json.dumps(request) + "\n")
        self._requests.flush()
        told = self._answers.readline()
        self._n_done += 1
        answer = json.loads(told) if told else self._bury()
        if told and self._n_done >= self._n_commands:
            self._bury()
        texts = {name: _read_start(stream) for name, stream in (("stdout", self._out), ("stderr", self._err))}
        return answer | texts | {"wall_seconds": time.monotonic() - started}

    def _begin(self) -> None:
        to_child, from_child = os.pipe(), os.pipe()
        self._child, self._n_done = os.fork(), 0
        if self._child == 0:
            os.close(to_child[1])
            os.close(from_child[0])
            _carry_out_commands(os.fdopen(to_child[0]), os.fdopen(from_child[1], "w"), self._out.fileno(), self._err.fileno())
        os.close(to_child[0])
        os.close(from_child[1])
        self._requests, self._answers = os.fdopen(to_child[1], "w"), os.fdopen(from_child[0])

    def _bury(self) -> dict[str, Any]:
        """Wait for the end of a copy, and return how it came about."""
        self._requests.close()
        self._answers.close()
        _, status, used = os.wait4(self._child, 0)
        self._child = 0
        seconds, n_bytes = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
        return {"returncode": os.waitstatus_to_exitcode(status), "cpu_seconds": seconds, "peak_bytes": n_bytes}


def _read_start(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read(2**20).decode(errors="replace")


def _carry_out_commands(requests: IO[str], answers: IO[str], out: int, err: int) -> NoReturn:
    """Carry commands out in this process, a copy, and end it without what the original has still to do."""
    os.dup2(out, 1)
    os.dup2(err, 2)
    sys.stdin = Path(os.devnull).open()  # noqa: SIM115 - the process ends with it
    warnings.simplefilter("error", RuntimeWarning)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    is_limited = False
    for line in requests:
        request = json.loads(line)
        if not is_limited:
            taken_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (taken_bytes + request["n_bytes"],) * 2)
            is_limited = True
        answers.write(json.dumps(_carry_out(request)) + "\n")
        answers.flush()
    os._exit(0)


def _carry_out(request: dict[str, Any]) -> dict[str, Any]:
    from qmcif_engine.cli import main

    for descriptor in (1, 2):
        os.lseek(descriptor, 0, os.SEEK_SET)
    Path("/proc/self/clear_refs").write_text("5")  # the peak of memory is counted from here
    if request["folder"] is not None:
        os.chdir(request["folder"])
    code, used_seconds = 1, time.process_time()
    signal.alarm(request["wall_seconds"])
    signal.setitimer(signal.ITIMER_PROF, request["cpu_seconds"])
    try:
        code = main(request["arguments"])
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        sys.stdout.flush()
        sys.stderr.flush()
    peak = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    peak_bytes = 1024 * int(peak[1]) if peak else 0
    return {"returncode": code, "cpu_seconds": time.process_time() - used_seconds, "peak_bytes": peak_bytes}


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
