"""A Dask cluster on this machine whose scheduler and workers are processes of their own, so that the client can be measured alone."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from qmcif_engine import connect_to_scheduler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distributed import Client


@contextmanager
def separate_cluster(n_workers: int) -> Iterator[Client]:
    """Start a scheduler and workers of one thread each, and offer a client of them."""
    with tempfile.TemporaryDirectory() as folder:
        address = Path(folder) / "scheduler.json"
        commands = [["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]]
        commands += [["worker", "--nworkers", str(n_workers), "--nthreads", "1", "--no-dashboard"]]
        started = [
            subprocess.Popen([sys.executable, "-m", "dask", *command, "--scheduler-file", str(address)], stderr=subprocess.DEVNULL)
            for command in commands
        ]
        try:
            while not (address.exists() and address.read_text().rstrip().endswith("}")):  # begun before it is complete
                time.sleep(0.1)
            with connect_to_scheduler(json.loads(address.read_text())["address"]) as client:
                client.wait_for_workers(n_workers)
                yield client
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait()
