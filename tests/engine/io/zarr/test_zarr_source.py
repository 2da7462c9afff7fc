from __future__ import annotations

import json
import pickle

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec

from qmcif_engine.errors import ImageFileError, InvalidImageError
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.io.zarr.zarr_source import ChunkReader
from qmcif_engine.stack.window import Window

SHAPE = (5, 67, 83)
WINDOWS = [Window(0, 0, 67, 83), Window(10, 20, 40, 70), Window(66, 82, 67, 83), Window(31, 31, 33, 33), Window(5, 5, 5, 5)]


def noise(dtype: str = "uint16", *shape: int) -> np.ndarray:
    return (np.random.default_rng(0).random(shape or SHAPE) * 250 + 1).astype(dtype)


def stored(folder, array, **options):
    path = folder / "stack.zarr"
    target = zarr.create_array(path, **{"shape": array.shape, "dtype": array.dtype, "chunks": (1, 32, 32)} | options)
    target[...] = array
    return path


def assert_windows(stack, array):
    assert stack.dtype == array.dtype.newbyteorder("=")
    for number in range(len(array)):
        for window in WINDOWS:
            np.testing.assert_array_equal(stack.read(number, window), array[number][window.slices])


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("chunks", [(1, 32, 32), (2, 33, 20), (5, 67, 83), (1, 1, 83), (1, 100, 100)])
def test_windows_are_those_of_the_array_whatever_its_chunks(tmp_path, zarr_format, chunks):
    array = noise()
    assert_windows(open_stack(stored(tmp_path, array, zarr_format=zarr_format, chunks=chunks)), array)


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64", ">u2", ">f4"])
def test_every_sample_type_is_read_in_native_order(tmp_path, dtype):
    array = noise(dtype)
    assert_windows(open_stack(stored(tmp_path, array, zarr_format=2)), array)


def named(codecs):
    """The kinds of one or several codecs; their own texts hold sets, whose order changes from process to process."""
    return "-".join(type(codec).__name__ for codec in (codecs if isinstance(codecs, tuple) else (codecs,))) or "none"


@pytest.mark.parametrize(
    "compressor", [None, numcodecs.GZip(), numcodecs.Zlib(), numcodecs.LZ4(), numcodecs.Zstd(), numcodecs.Blosc()], ids=str
)
def test_compressors_of_format_2_are_read(tmp_path, compressor):
    array = noise()
    assert_windows(open_stack(stored(tmp_path, array, zarr_format=2, compressors=compressor)), array)


@pytest.mark.parametrize("compressors", [(), (GzipCodec(),), (ZstdCodec(), Crc32cCodec()), (BloscCodec(),), (Crc32cCodec(),)], ids=named)
def test_compressors_of_format_3_are_read(tmp_path, compressors):
    array = noise()
    assert_windows(open_stack(stored(tmp_path, array, compressors=compressors)), array)


def test_shards_are_read(tmp_path):
    array = noise()
    assert_windows(open_stack(stored(tmp_path, array, chunks=(1, 16, 16), shards=(2, 32, 48))), array)


def test_names_of_dimensions_are_axes(tmp_path):
    array = noise("uint16", 3, 5, 20, 24)
    stack = open_stack(stored(tmp_path, array, chunks=(1, 1, 20, 24), dimension_names=("c", "z", "y", "x")))
    assert (stack.n_images, stack.image_shape) == (5, (20, 24, 3))
    np.testing.assert_array_equal(stack.read(2, Window(0, 0, 20, 24)), array[:, 2].transpose(1, 2, 0))


def test_an_array_of_unstated_axes_is_a_stack_of_gray_or_color_images(tmp_path):
    array = noise("uint8", 4, 20, 24, 3)
    stack = open_stack(stored(tmp_path, array, chunks=(1, 20, 24, 3)))
    np.testing.assert_array_equal(stack.read(3, Window(2, 3, 9, 8)), array[3, 2:9, 3:8])
    with pytest.raises(
        InvalidImageError, match=r"has shape \(4, 20, 24, 5\); a stack \(N, Y, X\) or \(N, Y, X, 3\) is needed: name the axes"
    ):
        open_stack(stored(tmp_path / "other", noise("uint8", 4, 20, 24, 5), chunks=(1, 20, 24, 5)))
    assert open_stack(tmp_path / "other" / "stack.zarr", axes="ZYXC", channels=[4]).image_shape == (20, 24)


def multiscale(folder, array, *, version="0.4", **others):
    """An OME-Zarr image made by hand."""
    path = folder / "image.zarr"
    names = {"t": "time", "c": "channel"}
    axes = [{"name": name, "type": names.get(name, "space")} | ({} if name in names else {"unit": "micrometer"}) for name in "tczyx"]
    scale = [{"type": "scale", "scale": [1, 1, 2.0, 0.5, 0.25]}]
    described = {"multiscales": [{"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": scale}, {"path": "1"}]}]} | others
    group = zarr.create_group(
        path,
        zarr_format=2 if version == "0.4" else 3,
        attributes=described if version == "0.4" else {"ome": described | {"version": version}},
    )
    for level, samples in enumerate((array, array[..., ::2, ::2])):
        target = group.create_array(
            str(level),
            shape=samples.shape,
            dtype=samples.dtype,
            chunks=(1, 1, 1, 16, 16),
            chunk_key_encoding={"name": "v2", "separator": "/"},
        )
        target[...] = samples
    return path


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_ome_zarr_is_read_at_full_size_with_its_metadata(tmp_path, version):
    array = noise("uint16", 2, 4, 5, 20, 24)
    omero = {"channels": [{"label": label} for label in ("a", "b", "c", "d")]}
    stack = open_stack(multiscale(tmp_path, array, version=version, omero=omero), time=1, channels=["b"])
    assert (stack.n_images, stack.n_times, stack.image_shape) == (5, 2, (20, 24))
    np.testing.assert_array_equal(stack.read(3, Window(5, 6, 19, 20)), array[1, 1, 3, 5:19, 6:20])
    assert stack.companions is not None
    np.testing.assert_array_equal(stack.companions.read(3, Window(5, 6, 19, 20)), array[1, :, 3, 5:19, 6:20].transpose(1, 2, 0))
    found = stack.metadata
    assert (found.pixel_size, found.z_step, found.unit, found.channel_names) == ((0.5, 0.25), 2.0, "micrometer", tuple("abcd"))
    assert stack.sources == (tmp_path / "image.zarr",)


def test_a_copy_opens_the_array_again(tmp_path):
    array = noise()
    stack = open_stack(stored(tmp_path, array))
    stack.read(0, WINDOWS[1])
    assert_windows(pickle.loads(pickle.dumps(stack)), array)


def test_chunk_is_decoded_once_for_neighboring_windows(tmp_path, monkeypatch):
    stack = open_stack(stored(tmp_path, noise()))
    n_decoded = []
    get = zarr.storage.LocalStore.get

    async def counting(self, key, *args, **options):
        n_decoded.append(key)
        return await get(self, key, *args, **options)

    monkeypatch.setattr(zarr.storage.LocalStore, "get", counting)
    for left in range(0, 60, 10):
        stack.read(0, Window(0, left, 10, left + 10))
    assert sorted(key for key in n_decoded if key.startswith("c/")) == ["c/0/0/0", "c/0/0/1"]


def test_opening_reads_no_chunk(tmp_path):
    path = stored(tmp_path, noise())
    for chunk in path.glob("c/*/*/*"):
        chunk.unlink()
    assert open_stack(path).n_images == 5


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_strict_reading_refuses_a_missing_chunk_by_name_and_reads_the_others(tmp_path, zarr_format):
    path = stored(tmp_path, noise(), zarr_format=zarr_format)
    (path / ("2.1.0" if zarr_format == 2 else "c/2/1/0")).unlink()
    stack = open_stack(path, strict_chunks=True)
    stack.read(2, Window(0, 0, 32, 83))
    with pytest.raises(
        ImageFileError, match=r"stack.zarr' lacks the chunk (2\.1\.0|c/2/1/0); all chunks are needed; copy it again, or leave out --strict"
    ):
        stack.read(2, Window(0, 0, 33, 1))


@pytest.mark.parametrize(("fill_value", "expected"), [(7, 7), (None, 0)])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_missing_chunks_are_the_fill_value_and_the_first_is_noted_in_the_log(tmp_path, caplog, zarr_format, fill_value, expected):
    path = stored(tmp_path, noise(), fill_value=fill_value, zarr_format=zarr_format)
    for key in ("2.1.0", "2.1.1") if zarr_format == 2 else ("c/2/1/0", "c/2/1/1"):
        (path / key).unlink()
    stack = open_stack(path)
    np.testing.assert_array_equal(stack.read(2, Window(32, 0, 64, 64)), np.full((32, 64), expected))
    notes = [record.getMessage() for record in caplog.records]
    assert len(notes) == 1
    assert "stack.zarr' lacks the chunk" in notes[0]
    assert "the fill value stands for what is missing; --strict-chunks refuses it" in notes[0]


def test_strict_reading_refuses_a_missing_shard(tmp_path):
    path = stored(tmp_path, noise(), chunks=(1, 16, 16), shards=(1, 32, 48))
    (path / "c/2/1/0").unlink()
    with pytest.raises(ImageFileError, match="lacks the chunk c/2/1/0"):
        open_stack(path, strict_chunks=True).read(2, WINDOWS[0])


@pytest.mark.parametrize("compressors", [GzipCodec(), ZstdCodec(), BloscCodec()], ids=named)
def test_corrupt_chunk_is_refused(tmp_path, compressors):
    path = stored(tmp_path, noise(), compressors=compressors)
    content = (path / "c/0/0/0").read_bytes()
    (path / "c/0/0/0").write_bytes(content[: len(content) // 2])
    with pytest.raises(ImageFileError, match=r"stack.zarr' is truncated or corrupt"):
        open_stack(path).read(0, WINDOWS[0])


def test_checksum_is_checked(tmp_path):
    path = stored(tmp_path, noise(), compressors=Crc32cCodec())
    content = bytearray((path / "c/0/0/0").read_bytes())
    content[100] ^= 1
    (path / "c/0/0/0").write_bytes(content)
    with pytest.raises(ImageFileError, match="truncated or corrupt"):
        open_stack(path).read(0, WINDOWS[0])


@pytest.mark.parametrize(("compressors", "pack"), [(GzipCodec(), numcodecs.GZip()), (ZstdCodec(), numcodecs.Zstd())], ids=str)
def test_chunk_that_unpacks_to_far_more_is_refused(tmp_path, compressors, pack):
    path = stored(tmp_path, noise(), compressors=compressors)
    (path / "c/0/0/0").write_bytes(pack.encode(bytes(10_000_000)))
    with pytest.raises(ImageFileError, match="truncated or corrupt"):
        open_stack(path).read(0, WINDOWS[0])


def test_link_that_leads_to_itself_is_refused(tmp_path):
    path = stored(tmp_path, noise())
    (path / "c/0/0/0").unlink()
    (path / "c/0/0/0").symlink_to(path / "c/0/0/0")
    with pytest.raises(ImageFileError, match=r"cannot be read \(Too many levels of symbolic links\)"):
        open_stack(path).read(0, WINDOWS[0])


def test_image_outside_its_group_is_refused(tmp_path):
    stored(tmp_path, noise())
    path = multiscale(tmp_path, noise("uint16", 1, 1, 5, 20, 24))
    attributes = json.loads((path / ".zattrs").read_text())
    attributes["multiscales"][0]["datasets"][0]["path"] = "../stack.zarr"
    (path / ".zattrs").write_text(json.dumps(attributes))
    with pytest.raises(ImageFileError, match=r"its image is said to be at '../stack.zarr'"):
        open_stack(path)


@pytest.mark.parametrize("share", [0, 1])
def test_a_stack_that_will_be_read_as_a_whole_is_decoded_once(tmp_path, monkeypatch, share):
    array, decoded = noise(), []
    decode = ChunkReader._decode
    monkeypatch.setattr(ChunkReader, "_decode", lambda self, corner: (decoded.append(corner), decode(self, corner))[1])
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    options = {"cache_bytes": 4 * 32 * 32 * 2, "memory_bytes": share * array.nbytes, "scratch_folder": scratch}
    with open_stack(stored(tmp_path, array), **options) as stack:
        assert stack.scratch_bytes == (1 - share) * array.nbytes
        stack.expect_all()
        assert_windows(stack, array)
        assert_windows(stack, array)
    assert len(decoded) == len(set(decoded)) == 5 * 3 * 3


def test_an_empty_list_of_filters_is_none_and_no_reason_to_warn(tmp_path):
    samples = np.arange(2 * 8 * 9, dtype=np.uint8).reshape(2, 8, 9)
    zarr.create_array(tmp_path / "a.zarr", data=samples, chunks=(1, 8, 9), zarr_format=2)
    described = tmp_path / "a.zarr" / ".zarray"
    described.write_text(json.dumps(json.loads(described.read_text()) | {"filters": []}))

    np.testing.assert_array_equal(open_stack(tmp_path / "a.zarr").read(1, Window(0, 0, 8, 9)), samples[1])
