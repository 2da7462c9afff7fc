"""TIFF files on servers, read by window; what servers and files get wrong is refused."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import tifffile

from qmcif_engine.cli import main
from qmcif_engine.errors import ExecutionError, ImageFileError
from qmcif_engine.io import remote
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.io.remote import BLOCK_BYTES, RemoteFile
from qmcif_engine.io.remote_path import locate
from qmcif_engine.io.tiff.tiff_source import FileStream
from qmcif_engine.stack.window import Window

SAMPLES = np.random.default_rng(0).integers(0, 60000, (3, 2, 240, 280)).astype(np.uint16)


def write_ome_tiff(path, **options):
    sizes = {"PhysicalSizeX": 0.25, "PhysicalSizeY": 0.5, "PhysicalSizeZ": 2.0}
    tifffile.imwrite(path, SAMPLES, ome=True, metadata={"axes": "ZCYX", "Channel": {"Name": ["DAPI", "GFP"]}} | sizes, **options)


@pytest.mark.parametrize("options", [{}, {"tile": (64, 64), "compression": "zlib"}], ids=["plain rows", "compressed tiles"])
def test_ome_tiff_is_read_by_window_from_a_server(server, options):
    write_ome_tiff(server.folder / "in.ome.tif", **options)

    stack = open_stack(f"{server.address}/in.ome.tif", channels=["DAPI", "GFP"])

    window = Window(13, 17, 200, 231)
    for number in range(3):
        np.testing.assert_array_equal(stack.companions.read(number, window), np.moveaxis(SAMPLES[number], 0, -1)[window.slices])
    assert (stack.metadata.pixel_size, stack.metadata.z_step, stack.metadata.channel_names) == ((0.5, 0.25), 2.0, ("DAPI", "GFP"))
    assert all("bytes=" in request for request in server.requests), "no request for a whole file"


def test_ome_tiff_is_read_by_window_from_a_bucket(bucket, tmp_path):
    write_ome_tiff(tmp_path / "in.ome.tif", tile=(64, 64), compression="zlib")
    bucket.upload(tmp_path / "in.ome.tif", "a/in.ome.tif")

    stack = pickle.loads(pickle.dumps(open_stack(f"{bucket.address}/a/in.ome.tif", channels=[1, 2])))

    np.testing.assert_array_equal(stack.companions.read(2, Window(0, 0, 240, 280)), np.moveaxis(SAMPLES[2], 0, -1))


def test_several_tiff_files_on_a_server_are_a_stack(server):
    for number, planes in enumerate(SAMPLES):
        tifffile.imwrite(server.folder / f"{number}.tif", planes[0])

    stack = open_stack([f"{server.address}/{number}.tif" for number in range(3)])

    np.testing.assert_array_equal(stack.read(1, Window(0, 0, 240, 280)), SAMPLES[1, 0])


def test_what_would_be_read_is_told_by_info(server, capsys):
    write_ome_tiff(server.folder / "in.ome.tif")

    assert main(["info", f"http://reader:secret@{server.address[7:]}/in.ome.tif?token=hidden", "--json"]) == 0

    shown = capsys.readouterr()
    told = json.loads(shown.out)
    assert told["files"] == [f"{server.address}/in.ome.tif"]
    assert (told["axes"], told["shape"], told["z_step"]) == ("ZCYX", [3, 2, 240, 280], 2.0)
    assert "secret" not in shown.out + shown.err
    assert "hidden" not in shown.out + shown.err
    assert server.headers[-1]["query"] == "token=hidden"
    assert server.headers[-1]["Authorization"].startswith("Basic ")


def test_a_server_that_sends_no_parts_is_refused_with_the_remedy(server, capsys):
    write_ome_tiff(server.folder / "in.ome.tif")
    server.sends_parts = False

    assert main(["fuse", f"{server.address}/in.ome.tif", "-o", "unused.tif"]) == 2

    assert "a server that sends parts (range requests) is needed; download the file and pass its name" in capsys.readouterr().err


def test_a_missing_file_is_refused_with_its_address(server, capsys):
    assert main(["info", f"{server.address}/nowhere.tif?token=hidden"]) == 2

    shown = "".join(capsys.readouterr())
    assert "/nowhere.tif' cannot be read (its server has no such file)" in shown
    assert "hidden" not in shown


def test_a_file_that_is_no_tiff_is_refused_with_the_remedy(server):
    (server.folder / "in.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))

    with pytest.raises(ImageFileError, match="a TIFF file, or the folder of an OME-Zarr, where it lies on a server is needed; download it"):
        open_stack(f"{server.address}/in.png")


def test_lost_connections_and_busy_servers_are_asked_again_with_growing_pauses(server, pauses):
    write_ome_tiff(server.folder / "in.ome.tif")
    stack = open_stack(f"{server.address}/in.ome.tif", channels=[1])
    server.n_lost, server.n_busy = 2, 1

    np.testing.assert_array_equal(stack.read(0, Window(0, 0, 240, 280)), SAMPLES[0, 0])

    assert pauses == [0.5, 1.0, 2.0]


def test_a_server_that_stays_away_is_a_failure_while_running(server, pauses, capsys):
    write_ome_tiff(server.folder / "in.ome.tif")
    server.n_lost = 1000

    assert main(["info", f"{server.address}/in.ome.tif"]) == 1

    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0]
    told = capsys.readouterr().err
    assert "was asked for 6 times and no complete answer came" in told
    assert "check the address and the network, and start again, with --resume where a run was going on" in told


def test_nobody_at_the_address_is_a_failure_while_running(server, pauses):
    server.socket.close()

    with pytest.raises(ExecutionError, match="was asked for 6 times and no complete answer came"):
        RemoteFile(locate(f"{server.address}/in.tif"))


def test_a_server_that_leads_around_in_circles_is_refused(server, pauses):
    server.leads_to = server.address

    with pytest.raises(ImageFileError, match="its server answers in a way that cannot be followed, TooManyRedirects") as refused:
        open_stack(f"{server.address}/in.tif?token=hidden")

    assert "hidden" not in str(refused.value)

    assert pauses == []


def test_a_server_that_leads_elsewhere_is_followed_without_the_password(server, tmp_path):
    (server.folder / "in.bin").write_bytes(b"0123456789")
    server.leads_to = f"http://localhost:{server.server_address[1]}/moved"

    with pytest.raises(Exception):  # noqa: B017, PT011 - the second place leads on, too
        RemoteFile(locate(f"http://reader:secret@127.0.0.1:{server.server_address[1]}/in.bin"))

    assert server.headers[0]["Authorization"].startswith("Basic ")
    assert all("Authorization" not in headers for headers in server.headers[1:])


def test_a_stream_reads_like_a_file(server, tmp_path):
    content = np.random.default_rng(1).bytes(3 * BLOCK_BYTES + 17)
    (server.folder / "in.bin").write_bytes(content)
    stream = FileStream(RemoteFile(locate(f"{server.address}/in.bin")))

    assert stream.read(10) == content[:10]
    assert stream.seek(-7, 2) == len(content) - 7
    assert stream.read() == content[-7:]
    assert stream.read(1) == b""
    stream.seek(BLOCK_BYTES - 5)
    buffer = bytearray(2 * BLOCK_BYTES)
    assert stream.readinto(buffer) == len(buffer)
    assert bytes(buffer) == content[BLOCK_BYTES - 5 : 3 * BLOCK_BYTES - 5]
    assert stream.tell() == 3 * BLOCK_BYTES - 5


def test_without_the_extra_the_install_command_is_given(server, monkeypatch, capsys):
    remote.connect.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)

    assert main(["info", f"{server.address}/in.tif"]) == 2

    assert "pip install 'napari-qmcif[remote]', or copy them here" in "".join(capsys.readouterr())
