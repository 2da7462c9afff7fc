"""The command ``qmcif`` in processes that the system ends when they take more than their share.

One process loads the libraries and fuses a small stack, so that all is compiled; it then makes a copy of itself for every command. So a
command costs what it does and not what loading takes, and what it takes is counted from there. Run as a script, this file is that process:
it takes a request a line and answers each with a line.
"""

from __future__ import annotations

import gc
import json
import os
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
from typing import Any, Self


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
    """Commands that run one after the other under limits. A context manager: leaving it ends the process that waits for them."""

    def __enter__(self) -> Self:
        """Start the process, which takes some seconds until it answers."""
        self._process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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
            Of address space, beyond what the loaded libraries take.
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


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    _warm_up()
    gc.freeze()  # copies share what is never looked at again
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), file=answers, flush=True)


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


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.monotonic()
        child = os.fork()
        if child == 0:
            _run_command(request, out.fileno(), err.fileno())
        _, status, used = os.wait4(child, 0)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read(2**20).decode(errors="replace"))
    return {
        "returncode": os.waitstatus_to_exitcode(status),
        "stdout": texts[0],
        "stderr": texts[1],
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "wall_seconds": time.monotonic() - started,
        "peak_bytes": used.ru_maxrss * 1024,
    }


def _run_command(request: dict[str, Any], out: int, err: int) -> None:
    """Run the command in this process, a copy, and end it: as Python would, but without what the original has still to do."""
    code = 1
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdin = Path(os.devnull).open()  # noqa: SIM115 - the process ends with it
        if request["folder"] is not None:
            os.chdir(request["folder"])
        warnings.simplefilter("error", RuntimeWarning)
        taken_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken_bytes + request["n_bytes"],) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(request["wall_seconds"])
        signal.setitimer(signal.ITIMER_PROF, request["cpu_seconds"])
        from qmcif_engine.cli import main

        code = main(request["arguments"])
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
