"""OME-Zarr written into a bucket: whole or not at all, by whoever computes, and again after a failure."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import ome_zarr.io
import ome_zarr.reader
import pytest
import tifffile
import zarr

from qmcif_engine import FusionConfig
from qmcif_engine.cli import main
from qmcif_engine.errors import ExecutionError, OutputError
from qmcif_engine.io import remote
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.pipeline.to_file import fuse_to_file
from qmcif_engine.run.job import EncodedTile, Job

KEY = "results/fused.ome.zarr"
SHAPE = (70, 140)  # six tiles
# what is computed does not matter here, so it shall be quick
SETTINGS = {"tile_px": 64, "chunk_px": 64, "measure": "laplacian", "smoothness": 0}
CONFIG = FusionConfig().replaced(SETTINGS)
ARGUMENTS = ["--quiet", *(word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}"))]


class Line:
    """The connections to the buckets, of which so many are lost, or all once it is cut."""

    def __init__(self) -> None:
        self.n_lost, self.is_cut, self._connect = 0, False, remote.connect

    def connect(self, pid: int, scheme: str):
        if self.is_cut or self.n_lost > 0:
            self.n_lost -= 1
            raise ConnectionResetError
        return self._connect(pid, scheme)


@pytest.fixture(scope="module")
def scene():
    """A stack of two halves, each sharp in one image."""
    generator = np.random.default_rng(0)
    sharp = generator.integers(0, 256, (*SHAPE, 3)).astype(np.uint8)
    images = np.stack([sharp, sharp])
    images[0, :, :80] = images[0, :, :80].mean(axis=(0, 1))
    images[1, :, 80:] = images[1, :, 80:].mean(axis=(0, 1))
    return images


@pytest.fixture
def stack_file(scene, tmp_path, monkeypatch):
    """The stack; the working folder is one of its own."""
    tifffile.imwrite(tmp_path / "stack.tif", scene, photometric="rgb")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "stack.tif"


@pytest.fixture(scope="module")
def expected(scene, tmp_path_factory):
    """The same store, written on the disk."""
    folder = tmp_path_factory.mktemp("expected")
    tifffile.imwrite(folder / "stack.tif", scene, photometric="rgb")
    assert main(["fuse", str(folder / "stack.tif"), "-o", str(folder / "expected.ome.zarr"), *ARGUMENTS]) == 0
    return list_contents(folder / "expected.ome.zarr")


def list_contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def list_here() -> list[Path]:
    return list(Path().iterdir())


def fetch(bucket, folder: Path) -> dict[str, bytes]:
    bucket.download(KEY, folder)
    return list_contents(folder)


def test_a_store_in_a_bucket_is_that_on_the_disk_and_nothing_else_is_left(bucket, stack_file, expected, tmp_path):
    assert main(["fuse", str(stack_file), "-o", f"{bucket.address}/{KEY}", *ARGUMENTS]) == 0

    assert fetch(bucket, tmp_path / "fetched") == expected
    assert list_here() == []
    node = next(iter(ome_zarr.reader.Reader(ome_zarr.io.parse_url(tmp_path / "fetched"))()))
    assert node.data[0].shape == (3, *SHAPE)
    assert "hidden-word" not in json.dumps(dict(zarr.open_group(tmp_path / "fetched").attrs))


def test_from_a_bucket_into_a_bucket_by_other_processes(bucket, stack_file, expected, tmp_path):
    import dask

    bucket.upload(stack_file, "in/stack.tif")
    with dask.config.set(scheduler="processes"):
        assert main(["fuse", f"{bucket.address}/in/stack.tif", "-o", f"{bucket.address}/{KEY}", "--workers", "1", *ARGUMENTS]) == 0

    assert fetch(bucket, tmp_path / "fetched") == expected


def test_no_reader_sees_a_store_before_it_is_whole(bucket, stack_file):
    seen = []
    with open_stack(stack_file) as stack:
        fuse_to_file(stack, f"{bucket.address}/{KEY}", CONFIG, on_progress=lambda _: seen.append(f"{KEY}/zarr.json" in bucket.list_keys()))

    assert seen
    assert not any(seen)
    assert f"{KEY}/zarr.json" in bucket.list_keys()


def test_maps_are_placed_here_with_a_store_in_a_bucket(bucket, stack_file, tmp_path):
    heights = ["--depth", str(tmp_path / "height.tif"), "--z-step", "1"]
    arguments = ["-o", f"{bucket.address}/{KEY}", "--maps", str(tmp_path / "maps"), *heights]

    assert main(["fuse", str(stack_file), *arguments, *ARGUMENTS]) == 0

    assert tifffile.imread(tmp_path / "maps/source_index.tif").shape == SHAPE
    assert f"{KEY}/zarr.json" in bucket.list_keys()


def test_the_store_is_hidden_again_where_maps_cannot_be_placed(bucket, stack_file, tmp_path, monkeypatch):
    def fail(*_, **__):
        message = "no space left"
        raise OutputError(message)

    monkeypatch.setattr("qmcif_engine.pipeline.active_run.place_contents", fail)
    arguments = ["fuse", str(stack_file), "-o", f"{bucket.address}/{KEY}", "--maps", str(tmp_path / "maps"), *ARGUMENTS]
    assert main(arguments) == 2
    assert f"{KEY}/zarr.json" not in bucket.list_keys()


@pytest.mark.parametrize("options", [[], ["--overwrite"]])
def test_a_store_that_is_there_is_never_replaced(bucket, stack_file, options, capsys):
    target = f"{bucket.address}/{KEY}"
    assert main(["fuse", str(stack_file), "-o", target, *ARGUMENTS]) == 0
    before = bucket.list_keys()

    assert main(["fuse", str(stack_file), "-o", target, *ARGUMENTS, *options]) == 2

    assert "for a bucket cannot replace a store in one step: choose another one, or remove it first" in capsys.readouterr().err
    assert bucket.list_keys() == before
    assert list_here() == []


def test_resuming_a_finished_run_leaves_the_store_as_it_is(bucket, stack_file):
    target = f"{bucket.address}/{KEY}"
    assert main(["fuse", str(stack_file), "-o", target, *ARGUMENTS]) == 0
    before = bucket.list_keys()

    assert main(["fuse", str(stack_file), "-o", target, *ARGUMENTS, "--resume"]) == 0

    assert bucket.list_keys() == before


@pytest.fixture
def line(bucket, monkeypatch):
    """The line to the buckets, which can be cut."""
    made = Line()
    monkeypatch.setattr(remote, "connect", made.connect)
    return made


def test_lost_connections_are_made_again(bucket, line, stack_file, expected, pauses, tmp_path):
    def lose_some(progress):
        if progress.done == 3:
            line.n_lost = 4

    with open_stack(stack_file) as stack:
        fuse_to_file(stack, f"{bucket.address}/{KEY}", CONFIG, workers=1, on_progress=lose_some)

    assert pauses == list(remote.PAUSES_SECONDS[:4])
    assert fetch(bucket, tmp_path / "fetched") == expected


def test_a_run_whose_server_stays_away_fails_and_is_resumed(bucket, line, stack_file, expected, pauses, tmp_path, capsys):
    target = f"{bucket.address}/{KEY}"

    def cut(progress):
        if progress.done >= progress.total // 2:
            line.is_cut = True

    with open_stack(stack_file) as stack, pytest.raises(ExecutionError, match=r"no complete answer came .* with --resume"):
        fuse_to_file(stack, target, CONFIG, workers=1, on_progress=cut)
    assert f"{KEY}/zarr.json" not in bucket.list_keys()
    assert len(list_here()) == 1, "the receipts are kept"
    assert main(["fuse", str(stack_file), "-o", target, *ARGUMENTS, "--resume"]) == 1, "the server is still away"

    line.is_cut = False
    assert main(["fuse", str(stack_file), "-o", target, *ARGUMENTS]) == 2
    assert ".qmcif-job" in capsys.readouterr().err
    assert main(["fuse", str(stack_file), "-o", target, *ARGUMENTS, "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["resumed_tiles"] > 0
    assert fetch(bucket, tmp_path / "fetched") == expected
    assert list_here() == []


def leave_unfinished(stack_file, target):
    """Stop a run when half of its tiles are there."""
    with open_stack(stack_file) as stack, pytest.raises(KeyboardInterrupt):
        fuse_to_file(stack, target, CONFIG, workers=1, on_progress=stop_late)


def stop_late(progress):
    if progress.done >= progress.total // 2:
        raise KeyboardInterrupt


def test_a_chunk_that_is_missing_is_computed_again(bucket, stack_file, expected, tmp_path):
    leave_unfinished(stack_file, f"{bucket.address}/{KEY}")
    bucket.remove(f"{KEY}/0/c/0/0/0")

    assert main(["fuse", str(stack_file), "-o", f"{bucket.address}/{KEY}", *ARGUMENTS, "--resume"]) == 0

    assert fetch(bucket, tmp_path / "fetched") == expected


def test_an_unfinished_run_is_thrown_away_with_its_objects(bucket, stack_file, expected, tmp_path):
    leave_unfinished(stack_file, f"{bucket.address}/{KEY}")
    bucket.client.put_object(Bucket="stacks", Key=f"{KEY}/0/c/0/9/9", Body=b"left over")

    assert main(["fuse", str(stack_file), "-o", f"{bucket.address}/{KEY}", *ARGUMENTS, "--overwrite"]) == 0

    assert fetch(bucket, tmp_path / "fetched") == expected


def test_objects_of_another_run_are_neither_used_nor_removed(bucket, stack_file, tmp_path, capsys):
    leave_unfinished(stack_file, f"{bucket.address}/{KEY}")
    bucket.client.put_object(Bucket="stacks", Key=f"{KEY}/qmcif-run", Body=b"another")
    before = bucket.list_keys()

    assert main(["fuse", str(stack_file), "-o", f"{bucket.address}/{KEY}", *ARGUMENTS, "--resume"]) == 2
    assert "was begun by another run" in capsys.readouterr().err
    assert main(["fuse", str(stack_file), "-o", f"{bucket.address}/{KEY}", *ARGUMENTS, "--overwrite"]) == 2
    assert bucket.list_keys() == before


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("https://host.example/fused.ome.zarr", [], "only OME-Zarr is written there, to s3://"),
        ("s3://stacks/fused.tif", [], "only OME-Zarr is written there, to s3://"),
        ("s3://nowhere/fused.ome.zarr", [], "cannot be written"),
        ("s3://stacks/fused.ome.zarr", ["--slab", "2"], "slabs are written as files here"),
        ("s3://stacks/fused.ome.zarr", ["--maps", "s3://stacks/maps"], "the name of a file or folder here is needed"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_computed(bucket, stack_file, target, options, message, capsys):
    assert main(["fuse", str(stack_file), "-o", target, *options, *ARGUMENTS]) == 2

    assert message in capsys.readouterr().err
    assert bucket.list_keys() == []
    assert list_here() == []


def test_a_series_is_refused_with_the_remedy_and_written_point_by_point(bucket, stack_file, tmp_path, capsys):
    images = tifffile.imread(stack_file)[..., 0]
    tifffile.imwrite(tmp_path / "series.ome.tif", np.stack([images, images]), metadata={"axes": "TZYX"})
    target = f"{bucket.address}/{KEY}"

    assert main(["fuse", str(tmp_path / "series.ome.tif"), "-o", target, *ARGUMENTS]) == 2
    assert "write each to a store of its own with --split-time" in capsys.readouterr().err
    assert main(["fuse", str(tmp_path / "series.ome.tif"), "-o", target, *ARGUMENTS, "--split-time"]) == 0
    assert {f"results/fused_t00{number}.ome.zarr/zarr.json" for number in (0, 1)} <= set(bucket.list_keys())


@pytest.mark.slow
def test_workers_that_see_no_folder_of_ours_write_the_chunks_themselves(bucket, stack_file, expected, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    bucket.upload(stack_file, "in/stack.tif")
    monkeypatch.setattr("qmcif_engine.run.cluster.share_folder", lambda client, folder: False)
    received, puts = [], []
    keep, put = Job.write, remote.write_object
    monkeypatch.setattr(Job, "write", lambda job, part, tile, result: (received.append(result), keep(job, part, tile, result)))
    monkeypatch.setattr(remote, "write_object", lambda path, content: (puts.append(str(path)), put(path, content)))
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0", "silence_logs": 50}
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        open_stack(f"{bucket.address}/in/stack.tif") as stack,
    ):
        fuse_to_file(stack, f"{bucket.address}/{KEY}", CONFIG, client=client)

    assert fetch(bucket, tmp_path / "fetched") == expected
    assert all(isinstance(result, EncodedTile) and not result.files for result in received), "no pixels came back"
    assert not any("/c/" in path for path in puts), "no chunk was written here"
