"""OME-Zarr on servers: read chunk by chunk, with the limits of files on disk."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import zarr

from qmcif_engine.errors import ImageFileError
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.io.limits import LARGEST_NODE_BYTES
from qmcif_engine.stack.window import Window

SAMPLES = np.random.default_rng(0).integers(1, 60000, (4, 90, 100)).astype(np.uint16)
WINDOW = Window(13, 17, 80, 91)


def write_ome_zarr(folder, *, zarr_format=3, samples=SAMPLES, **options):
    group = zarr.create_group(folder, zarr_format=zarr_format)
    options = {"chunks": (1, 32, 32)} | options
    group.create_array("0", data=samples, **options)
    axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"]
    scale = [{"type": "scale", "scale": [2.0, 0.5, 0.25]}]
    described = {"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": scale}]}
    if zarr_format == 2:
        group.attrs["multiscales"] = [{"version": "0.4", **described}]
    else:
        group.attrs["ome"] = {"version": "0.5", "multiscales": [described]}


def check(stack):
    for number in range(len(SAMPLES)):
        np.testing.assert_array_equal(stack.read(number, WINDOW), SAMPLES[number][WINDOW.slices])
    assert (stack.metadata.pixel_size, stack.metadata.z_step, stack.metadata.unit) == ((0.5, 0.25), 2.0, "micrometer")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_ome_zarr_is_read_from_a_server_even_if_it_sends_no_parts(server, zarr_format):
    write_ome_zarr(server.folder / "in.ome.zarr", zarr_format=zarr_format)
    server.sends_parts = False

    check(open_stack(f"{server.address}/in.ome.zarr"))


def test_ome_zarr_is_read_from_a_bucket_in_another_process_too(bucket, tmp_path):
    write_ome_zarr(tmp_path / "in.ome.zarr")
    bucket.upload(tmp_path / "in.ome.zarr", "folder/in.ome.zarr")

    stack = open_stack(f"{bucket.address}/folder/in.ome.zarr")
    check(stack)
    check(pickle.loads(pickle.dumps(stack)))


def test_shards_are_read_in_parts(server):
    write_ome_zarr(server.folder / "in.ome.zarr", shards=(1, 96, 128))

    check(open_stack(f"{server.address}/in.ome.zarr"))

    asked = [request for request in server.requests if "/c/" in request]
    assert asked
    assert all("bytes=" in request for request in asked)


def test_shards_of_a_server_that_sends_no_parts_are_refused(server):
    write_ome_zarr(server.folder / "in.ome.zarr", shards=(1, 96, 128))
    server.sends_parts = False

    with pytest.raises(ImageFileError, match=r"a file that its server sends only as a whole; .*; download the file and pass its name"):
        open_stack(f"{server.address}/in.ome.zarr").read(0, WINDOW)


def test_an_image_of_bioformats2raw_is_chosen_by_number(server):
    root = server.folder / "in.zarr"
    zarr.create_group(root, attributes={"ome": {"version": "0.5", "bioformats2raw.layout": 3}})
    zarr.create_group(root / "OME", attributes={"ome": {"version": "0.5", "series": ["0", "1"]}})
    write_ome_zarr(root / "0", samples=SAMPLES[:2])
    write_ome_zarr(root / "1")

    check(open_stack(f"{server.address}/in.zarr", image=2))


def test_a_chunk_that_is_not_stored_is_the_fill_value_or_refused(server, caplog):
    write_ome_zarr(server.folder / "in.ome.zarr")
    (server.folder / "in.ome.zarr/0/c/2/1/1").unlink()

    stack = open_stack(f"{server.address}/in.ome.zarr")
    assert not stack.read(2, Window(32, 32, 64, 64)).any()
    assert "lacks the chunk c/2/1/1" in caplog.text
    with pytest.raises(ImageFileError, match="lacks the chunk c/2/1/1; all chunks are needed"):
        open_stack(f"{server.address}/in.ome.zarr", strict_chunks=True).read(2, Window(32, 32, 64, 64))


def test_metadata_without_end_are_not_read_to_their_end(server):
    write_ome_zarr(server.folder / "in.ome.zarr")
    with (server.folder / "in.ome.zarr/0/zarr.json").open("ab") as stream:
        stream.write(b" " * LARGEST_NODE_BYTES)

    with pytest.raises(ImageFileError, match=f"zarr.json cannot be parsed: it is larger than {LARGEST_NODE_BYTES} bytes"):
        open_stack(f"{server.address}/in.ome.zarr")


def test_a_password_that_is_missing_is_refused(server, monkeypatch):
    write_ome_zarr(server.folder / "in.ome.zarr")
    answers = iter([403] * 10)
    handler = server.RequestHandlerClass
    monkeypatch.setattr(handler, "do_GET", lambda self: handler.answer(self, next(answers), b""))

    with pytest.raises(ImageFileError, match=r"allows no access \(status 403\)"):
        open_stack(f"{server.address}/in.ome.zarr")
