"""Faults of a real cluster: a scheduler that dies, and connections that are encrypted."""

import os
import signal
import subprocess
import sys

import dask
import numpy as np
import pytest
import tifffile

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import ExecutionError
from qmcif_engine.pipeline.in_memory import fuse
from qmcif_engine.pipeline.to_file import fuse_to_file
from qmcif_engine.run.execution import connect_to_scheduler
from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.stack.synthetic import make_focus_stack

pytest.importorskip("distributed")

# a focus measure that is quick, since this is about what happens to tiles and not about what is in them
CONFIG = FusionConfig().replaced({"tile_px": 64, "smoothness": 0.0, "measure": "laplacian"})

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),  # distributed's own, when a cluster closes
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

CLUSTER = """
import asyncio, sys
from distributed import Scheduler, Worker
from distributed.security import Security

async def main():
    certificate = sys.argv[1:]
    cert, key = certificate or (None, None)
    files = {"tls_ca_file": cert}
    for role in ("client", "scheduler", "worker"):
        files |= {f"tls_{role}_cert": cert, f"tls_{role}_key": key}
    security = Security(require_encryption=True, **files) if certificate else Security()
    protocol = "tls" if certificate else "tcp"
    async with Scheduler(host=f"{protocol}://127.0.0.1", port=0, dashboard=False, security=security) as scheduler:
        async with Worker(scheduler.address, nthreads=1, security=security, dashboard=False):
            print(scheduler.address, flush=True)
            await scheduler.finished()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def images():
    return make_focus_stack(shape=(130, 150), n_images=2, seed=4).images


@pytest.fixture
def start_cluster():
    """Start scheduler and worker in a process of their own; returns the process and the address."""
    running = []

    def start(*certificate):
        process = subprocess.Popen([sys.executable, "-c", CLUSTER, *map(str, certificate)], stdout=subprocess.PIPE, text=True)
        running.append(process)
        return process, process.stdout.readline().strip()

    yield start
    for process in running:
        process.kill()
        process.communicate()


def test_a_scheduler_that_dies_ends_the_run_with_a_job_that_can_be_resumed(images, start_cluster, tmp_path, caplog):
    process, address = start_cluster()

    def kill(progress):
        if progress.done == 3:
            os.kill(process.pid, signal.SIGKILL)

    with connect_to_scheduler(address) as client, pytest.raises(ExecutionError, match=r"scheduler .*--resume"):
        fuse_to_file(stack_arrays(images), tmp_path / "f.tif", CONFIG, client=client, on_progress=kill)

    assert not [record for record in caplog.records if record.name == "distributed.client" and record.exc_info], "no traceback is printed"
    report = fuse_to_file(stack_arrays(images), tmp_path / "f.tif", CONFIG, resume=True)
    assert report.n_resumed >= 1
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "f.tif"), fuse(images, CONFIG).fused)


def test_a_cluster_with_certificates_computes_the_same(images, start_cluster, tmp_path):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1"]
    try:
        made = [*request, "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
        subprocess.run(made, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("certificates are made with openssl, which is not installed")
    _, address = start_cluster(certificate, key)
    assert address.startswith("tls://")
    files = {"ca-file": certificate, "client.cert": certificate, "client.key": key}
    settings = {f"distributed.comm.tls.{name}": str(path) for name, path in files.items()}
    with dask.config.set({**settings, "distributed.comm.require-encryption": True}), connect_to_scheduler(address) as client:
        fuse_to_file(stack_arrays(images), tmp_path / "f.tif", CONFIG, client=client)

    np.testing.assert_array_equal(tifffile.imread(tmp_path / "f.tif"), fuse(images, CONFIG).fused)
