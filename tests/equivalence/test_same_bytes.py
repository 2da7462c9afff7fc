"""For a given input and settings, the same bytes: whatever the chunks, the scheduler, the workers, or a worker that dies."""

import hashlib
import os
import signal
import time
from unittest import mock

import dask
import dask.array as da
import numpy as np
import pytest
import tifffile
import zarr

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import Cancelled, ExecutionError
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.pipeline.active_run import LevelSink
from qmcif_engine.pipeline.in_memory import fuse
from qmcif_engine.pipeline.lazy import fuse_lazily
from qmcif_engine.pipeline.to_file import fuse_to_file
from qmcif_engine.run.cluster import _can_write, check_workers, share_folder
from qmcif_engine.run.execution import connect_to_scheduler
from qmcif_engine.run.job import Job
from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.stack.synthetic import make_focus_stack
from qmcif_engine.tiles.plan import plan_tiles

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore:unclosed <socket:ResourceWarning",  # distributed's own, when a cluster closes
        "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning",
    ),
]

CONFIG = FusionConfig().replaced({"tile_px": 128, "chunk_px": 64})
PLANES = ("fused", "source_index", "base_map", "detail_map", "confidence")
SHAPE = (130, 516)  # two rows of five tiles, and more than one level of a store
STORE = "fused.ome.zarr"


@pytest.fixture(scope="module")
def images():
    return make_focus_stack(shape=SHAPE, n_images=3, seed=11).images


@pytest.fixture(scope="module")
def expected_files(images, tmp_path_factory):
    return written(stack_arrays(images), tmp_path_factory.mktemp("expected"), workers=1)


@pytest.fixture(scope="module")
def expected_store(images, tmp_path_factory):
    files = written(stack_arrays(images), tmp_path_factory.mktemp("expected_store"), target=STORE, workers=1)
    assert f"{STORE}/1/zarr.json" in files  # a smaller level, which tasks write, too
    return files


@pytest.fixture(scope="module")
def expected(images):
    return fuse(images, CONFIG, workers=1, with_maps=True)


def written(stack, folder, *, target="fused.ome.tif", **options):
    """Digest of every file that a run writes."""
    fuse_to_file(stack, folder / target, CONFIG, maps=folder / "maps", **options)
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("chunks", [(1, 1, 516, 3), (2, 37, 51, 2)])
def test_chunks_of_the_input(images, expected_files, chunks, tmp_path):
    with open_stack(da.from_array(images, chunks=chunks), axes="ZYXS") as stack:
        assert written(stack, tmp_path) == expected_files


@pytest.mark.parametrize("kind", ["strips", "zarr"])
def test_kinds_of_files(images, expected_files, kind, tmp_path):
    source = tmp_path / ("stack.zarr" if kind == "zarr" else "stack.tif")
    if kind == "zarr":
        zarr.create_array(source, data=images, chunks=(1, 50, 65, 3))
    else:
        options = {"tile": (64, 48)} if kind == "tiles" else {"rowsperstrip": 7}
        tifffile.imwrite(source, images, photometric="rgb", compression="lzw", **options)
    (tmp_path / "out").mkdir()
    with open_stack(source, axes="ZYXS" if kind == "zarr" else None) as stack:
        assert written(stack, tmp_path / "out") == expected_files


@pytest.mark.parametrize("options", [{"workers": 5}, {"memory_bytes": 10**8}])
def test_workers_and_memory(images, expected_files, options, tmp_path):
    assert written(stack_arrays(images), tmp_path, **options) == expected_files


@pytest.fixture(scope="module")
def cluster():
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50) as running:
        yield running


def test_a_cluster_of_processes(images, expected, expected_files, cluster, tmp_path):
    tifffile.imwrite(tmp_path / "stack.tif", images, photometric="rgb")
    (tmp_path / "out").mkdir()
    with connect_to_scheduler(cluster.scheduler_address) as client, open_stack(tmp_path / "stack.tif") as stack:
        assert written(stack, tmp_path / "out", client=client) == expected_files
        lazy = fuse_lazily(stack, CONFIG)
        with dask.config.set(scheduler=client):
            planes = dask.compute(*(getattr(lazy, name) for name in PLANES))
    for name, plane in zip(PLANES, planes, strict=True):
        np.testing.assert_array_equal(plane, getattr(expected, name))


def test_a_worker_killed_in_the_middle(images, expected_store, cluster, tmp_path):
    """Chunks of a store and, with the maps, parts of files: both kinds of output are written by tasks."""
    killed = []

    def kill_one(progress):
        if progress.done > 4 and not killed:
            victim = next(iter(cluster.workers.values()))
            killed.append(victim.worker_address)
            os.kill(victim.pid, signal.SIGKILL)
            while killed[0] in cluster.scheduler.workers:
                time.sleep(0.01)

    with connect_to_scheduler(cluster.scheduler_address) as client:
        assert written(stack_arrays(images), tmp_path, target=STORE, client=client, on_progress=kill_one) == expected_store
        client.wait_for_workers(len(cluster.workers))  # the cluster starts another one, which later tests find
    assert killed


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_what_dask_is_told_to_use(images, expected_store, scheduler, tmp_path):
    """The store has more to compute than a file: its smaller levels; its maps are files."""
    with dask.config.set(scheduler=scheduler):
        assert written(stack_arrays(images), tmp_path, target=STORE, workers=2) == expected_store


def test_an_active_client_computes_what_is_fused_in_memory(images, expected, cluster):
    from distributed import Client

    with Client(cluster.scheduler_address) as client:
        result = fuse(images, CONFIG, with_maps=True)
        computed = client.run_on_scheduler(lambda dask_scheduler: sum(str(key).count("qmcif-tile") for key in dask_scheduler.task_prefixes))

    assert computed == 1
    for name in PLANES:
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))


def test_workers_that_see_the_folder_write_for_themselves_and_send_nothing_back(images, expected_store, cluster, tmp_path, monkeypatch):
    def write(*_):
        msg = "a tile came back"
        raise AssertionError(msg)

    monkeypatch.setattr(Job, "write", write)  # in this process: the workers have the classes as they are
    monkeypatch.setattr(LevelSink, "write", write)
    with connect_to_scheduler(cluster.scheduler_address) as client:
        assert written(stack_arrays(images), tmp_path, target=STORE, client=client) == expected_store


def test_fewer_workers_get_fewer_tiles_and_a_run_that_waits_for_its_last_ones_asks_nothing(
    images, expected_files, cluster, tmp_path, monkeypatch
):
    asked = []

    def count_threads(client):
        asked.append(1)
        return 3 if len(asked) == 1 else 1

    monkeypatch.setattr("qmcif_engine.run.cluster.share_folder", lambda client, folder: False)  # few tiles at a time
    monkeypatch.setattr("qmcif_engine.run.cluster._count_threads", count_threads)
    with connect_to_scheduler(cluster.scheduler_address) as client:
        assert written(stack_arrays(images), tmp_path, client=client) == expected_files
    assert len(asked) <= len(plan_tiles(SHAPE, CONFIG))


def test_workers_of_another_version_and_folders_that_they_do_not_see_are_noticed(cluster, monkeypatch, tmp_path):
    monkeypatch.setattr("qmcif_engine.run.cluster.__version__", "9.9")
    with connect_to_scheduler(cluster.scheduler_address) as client:
        with pytest.raises(ExecutionError, match=r"qmcif .* instead of 9\.9; the same versions"):
            check_workers(client)
        assert share_folder(client, tmp_path)
        assert list(tmp_path.iterdir()) == []
        (elsewhere := tmp_path / "other").mkdir()
        assert not all(client.run(_can_write, str(elsewhere), "no-such-token").values())
    with pytest.raises(ExecutionError, match="the cluster has no workers"):
        check_workers(mock.Mock(run=mock.Mock(return_value={})))


def test_cancelling_on_a_cluster_waits_for_no_tile(images, cluster, tmp_path):
    """The workers stand still until the run is over here."""
    here, asked = os.getpid(), []

    def read_slowly(number, window):
        while os.getpid() != here and not (tmp_path / "over").exists():
            time.sleep(0.01)
        return images[number][window.slices]

    with connect_to_scheduler(cluster.scheduler_address) as client:
        with pytest.raises(Cancelled):
            fuse_to_file(
                stack_arrays(images).replaced(read=read_slowly),
                tmp_path / "fused.tif",
                CONFIG,
                client=client,
                is_cancelled=lambda: asked.append(1) or len(asked) > 3,
            )
        (tmp_path / "over").touch()
