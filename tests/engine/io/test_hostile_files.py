"""Small files that would keep a reader busy for minutes or fill its memory: each is refused by a process that may take little of both."""

import json
import os
import struct

import imagecodecs
import numpy as np
import pytest
import tifffile

GRAY = np.add.outer(np.arange(48), np.arange(64)).astype(np.uint8)


@pytest.fixture
def refused(run_limited, tmp_path):
    """Return what the command says that refuses two inputs, or one."""

    def refuse(*inputs, options=()):
        for extra in ((), ("--dry-run",)):
            done = run_limited("fuse", *inputs, "-o", tmp_path / "out" / "fused.png", *options, *extra)
            assert (done.returncode, "Traceback" in done.stderr) == (2, False), done
        return done.stderr

    (tmp_path / "out").mkdir()
    return refuse


def twice(folder, name, content):
    """Write one file under two names."""
    paths = [folder / f"{number}_{name}" for number in (1, 2)]
    for path in paths:
        path.write_bytes(content)
    return paths


def test_a_progressive_jpeg_as_programs_write_it_is_read(run_limited, tmp_path):
    from PIL import Image

    for number in (1, 2):
        Image.fromarray(np.stack([GRAY, GRAY[::-1], GRAY // 2], axis=-1)).save(tmp_path / f"{number}.jpg", progressive=True)

    assert (
        run_limited("fuse", tmp_path / "1.jpg", tmp_path / "2.jpg", "-o", tmp_path / "fused.png", "--quiet", cpu_seconds=60).returncode == 0
    )


@pytest.mark.parametrize("filling", [b"\xff\xe0\x00\x02", b"\xff", b"\xff\xd0"], ids=["empty segments", "filling", "restart marks"])
def test_a_jpeg_with_endless_segments_is_refused(refused, tmp_path, filling):
    picture = imagecodecs.jpeg8_encode(GRAY)
    content = picture[:2] + (63_000_000 // len(filling)) * filling + picture[2:]

    assert "truncated or corrupt" in refused(*twice(tmp_path, "a.jpg", content))


def zarr_folder(path, *, shape, axes, chunks=None, ome=True):
    """An OME-Zarr image of some hundred bytes."""
    array = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks or [min(length, 64) for length in shape]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
    }
    multiscale = {"axes": [{"name": name} for name in axes], "datasets": [{"path": "0"}]}
    (path / "0").mkdir(parents=True)
    group = {"zarr_format": 3, "node_type": "group", "attributes": {"ome": {"version": "0.5", "multiscales": [multiscale]}}}
    (path / "zarr.json").write_text(json.dumps(group))
    (path / "0" / "zarr.json").write_text(json.dumps(array))
    return path


@pytest.mark.parametrize(
    ("axes", "shape", "told"),
    [
        ("tzyx", [10**9, 2, 64, 64], "time points"),
        ("czyx", [10**8, 2, 64, 64], "channels"),
        ("zyx", [2, 3 * 10**7, 3 * 10**7], "pixels an image"),
        ("zyx", [2, 1, 2**36], "pixels along a side"),
        ("zyx", [10**9, 64, 64], "images"),
        ("zyx", [2, 2**15, 2**15], "bytes of an array"),
        ("zyx", [65535, 24, 32], "bytes of an array"),  # small, but 65,535 chunks to look for
        ("zyx", [2, -64, 64], "make no sense"),
        ("zyx", [2, "64", 64], "make no sense"),
        ("zyx", [2, 64.5, 64], "make no sense"),
        ("zyx", [2, 10**400, 64], "shape"),
        ("zyx", [2, 0, 64], "shape"),
    ],
)
def test_a_zarr_that_claims_absurd_lengths_is_refused(refused, tmp_path, axes, shape, told):
    chunks = [1] * (len(shape) - 2) + [64, 64]

    assert told in refused(zarr_folder(tmp_path / "a.zarr", shape=shape, axes=axes, chunks=chunks))


@pytest.mark.parametrize("text", ["[" + 5_000_000 * "[]," + "[]]", 10**6 * "[", '{"a":' * 10**5, "1" * 10**6, "NaN", "\ufeff{}", ""])
def test_a_zarr_with_hostile_metadata_is_refused(refused, tmp_path, text):
    store = zarr_folder(tmp_path / "a.zarr", shape=[2, 64, 64], axes="zyx")
    (store / "0" / "zarr.json").write_text(text)

    assert "truncated or corrupt" in refused(store)


@pytest.mark.parametrize("name", [".zattrs", ".zarray", "zarr.json"])
@pytest.mark.parametrize("kind", ["pipe", "endless"])
def test_metadata_of_a_zarr_that_are_a_pipe_or_a_device_are_refused(refused, tmp_path, name, kind):
    store = tmp_path / "a.zarr"
    store.mkdir()
    node = {
        "zarr_format": 2,
        "shape": [2, 64, 64],
        "chunks": [1, 64, 64],
        "dtype": "|u1",
        "compressor": None,
        "fill_value": 0,
        "order": "C",
    }
    (store / ".zarray").write_text(json.dumps(node | {"filters": None}))
    for number in (0, 1):
        (store / f"{number}.0.0").write_bytes(bytes(64 * 64))
    (store / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(store / name)
    else:
        (store / name).symlink_to("/dev/zero")

    refused(store)


def sparse_tiff(path, *, n_strips):
    """A file of holes, whose page claims so many strips."""
    entries = lambda offset, counts: [  # noqa: E731
        (256, 4, 1, 1), (257, 4, 1, n_strips), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1),
        (273, 4, n_strips, offset), (277, 3, 1, 1), (278, 4, 1, 1), (279, 4, n_strips, counts),
    ]  # fmt: skip
    with path.open("wb") as stream:
        values = 8 + 2 + 9 * 12 + 4
        table = b"".join(struct.pack("<HHII", *entry) for entry in entries(values, values + 4 * n_strips))
        stream.write(b"II*\0" + struct.pack("<IH", 8, 9) + table + bytes(4))
        stream.truncate(values + 8 * n_strips + 2**20)
    return path


def test_a_sparse_tiff_with_millions_of_strips_is_refused(refused, tmp_path):
    assert "strips or tiles" in refused(
        sparse_tiff(tmp_path / "a.tif", n_strips=250_000_000), sparse_tiff(tmp_path / "b.tif", n_strips=250_000_000)
    )


def test_a_tiff_with_too_many_pages_is_refused(refused, tmp_path):
    n_pages = 2**18 + 1
    pages = b"".join(struct.pack("<HHHIII", 1, 256, 4, 1, 1, 8 + 18 * (page + 1)) for page in range(n_pages))
    (tmp_path / "a.tif").write_bytes(b"II*\0" + struct.pack("<I", 8) + pages)

    assert "too many pages" in refused(tmp_path / "a.tif")


@pytest.mark.parametrize(
    "description",
    [
        '<?xml version="1.0"?><OME>' + 4_000_000 * "<a/>" + "</OME>",
        '<!DOCTYPE OME [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><OME>&b;</OME>',
        '<!DOCTYPE DataObject [<!ENTITY a "a">]><DataObject>&a;</DataObject>',
        '{"shape": [' + 5_000_000 * "[]," + "[]]}",
    ],
    ids=["elements", "entities", "entities of another kind", "lists"],
)
def test_descriptions_that_grow_when_they_are_parsed_are_refused(refused, tmp_path, description):
    tifffile.imwrite(tmp_path / "a.tif", np.stack([GRAY, GRAY]), description=description, metadata=None, photometric="minisblack")

    assert "description" in refused(tmp_path / "a.tif")


def test_a_tag_of_many_bytes_is_refused(refused, tmp_path):
    tifffile.imwrite(
        tmp_path / "a.tif", np.stack([GRAY, GRAY]), photometric="minisblack", metadata=None, extratags=[(65000, 1, 4, b"abcd", True)]
    )
    content = bytearray((tmp_path / "a.tif").read_bytes())
    place = content.index(struct.pack("<HHI", 65000, 1, 4))
    content[place + 4 : place + 8] = struct.pack("<I", 2**30)
    (tmp_path / "a.tif").write_bytes(content)

    assert "its tag 65000 claims 1073741824 bytes" in refused(tmp_path / "a.tif")


@pytest.mark.parametrize(
    "text",
    [
        "a" + 100_000 * ".a" + " = 1",
        "[a" + 100_000 * ".a" + "]",
        "x = {a" + 100_000 * ".a" + " = 1}",
        'x = ["""\n#""", {a' + 100_000 * ".a" + " = 1}]",
        'x = {"\u2028"' + 1000 * ('."\u2028"' + 30 * ".a") + " = 1}",
        "x = " + 100_000 * "[",
        "x = " + 100_000 * "{a=",
        "x = " + 500_000 * "9",
        "\0",
    ],
    ids=["name", "table", "inline", "behind a text", "odd lines", "lists", "tables", "digits", "null"],
)
def test_settings_that_are_nested_without_end_are_refused(run_limited, tmp_path, text):
    paths = twice(tmp_path, "a.png", bytes(imagecodecs.png_encode(GRAY)))
    (tmp_path / "a.toml").write_text(text)

    done = run_limited("fuse", *paths, "-o", tmp_path / "fused.png", "--config", tmp_path / "a.toml")

    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done


@pytest.mark.parametrize("option", ["--transforms", "--config"])
@pytest.mark.parametrize("kind", ["pipe", "endless", "folder", "loop"])
def test_a_pipe_or_a_device_in_place_of_a_small_file_is_refused(refused, tmp_path, option, kind):
    paths = twice(tmp_path, "a.png", bytes(imagecodecs.png_encode(GRAY)))
    given = tmp_path / "given"
    {
        "pipe": os.mkfifo,
        "endless": lambda path: path.symlink_to("/dev/zero"),
        "folder": os.mkdir,
        "loop": lambda path: path.symlink_to(path),
    }[kind](given)

    refused(*paths, options=(option, given))
