from __future__ import annotations

import json

import numpy as np
import pytest
import zarr

from qmcif_engine.errors import ImageFileError
from qmcif_engine.io.input.written_image import WrittenImage
from qmcif_engine.io.zarr.zarr_checks import open_checked_array, read_group_attributes


def made(folder, **options):
    zarr.create_array(folder / "a", **{"shape": (3, 20, 24), "chunks": (1, 16, 16), "dtype": "u2"} | options)
    return folder / "a"


def edited(folder, change):
    """Rewrite the metadata of an array."""
    file = folder / "zarr.json" if (folder / "zarr.json").exists() else folder / ".zarray"
    node = json.loads(file.read_text())
    change(node)
    file.write_text(json.dumps(node))
    return folder


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_metadata_of_both_formats_are_read(tmp_path, zarr_format):
    array, _, is_compressed = open_checked_array(made(tmp_path, zarr_format=zarr_format), tmp_path)
    assert (array.shape, array.chunks, array.shards, array.dtype) == ((3, 20, 24), (1, 16, 16), None, np.uint16)
    assert is_compressed
    assert not open_checked_array(made(tmp_path / "plain", zarr_format=zarr_format, compressors=None), tmp_path).is_compressed


def test_names_of_axes_are_read(tmp_path):
    assert open_checked_array(made(tmp_path, dimension_names=("z", "y", "x")), tmp_path).dimension_names == ("z", "y", "x")
    assert open_checked_array(made(tmp_path / "other"), tmp_path).dimension_names == ()
    xarray = made(tmp_path / "xarray", zarr_format=2, attributes={"_ARRAY_DIMENSIONS": ["z", "y", "x"]})
    assert open_checked_array(xarray, tmp_path).dimension_names == ("z", "y", "x")


def test_attributes_tell_groups_from_arrays(tmp_path):
    for zarr_format in (2, 3):
        zarr.create_group(tmp_path / f"g{zarr_format}", zarr_format=zarr_format, attributes={"a": 1})
        assert read_group_attributes(tmp_path / f"g{zarr_format}", tmp_path) == {"a": 1}
        assert read_group_attributes(made(tmp_path / str(zarr_format), zarr_format=zarr_format), tmp_path) is None
    (tmp_path / "bare").mkdir()
    assert read_group_attributes(tmp_path / "bare", tmp_path) == {}


@pytest.mark.parametrize("where", ["filters", "compressor"])
def test_codec_that_would_run_code_is_refused(tmp_path, where):
    codec = {"id": "pickle"}
    folder = edited(made(tmp_path, zarr_format=2), lambda node: node.update({where: [codec] if where == "filters" else codec}))
    with pytest.raises(ImageFileError, match="holds chunks packed with 'pickle'; one of blosc, gzip, lz4, zlib, zstd or none is needed"):
        open_checked_array(folder, tmp_path)


@pytest.mark.parametrize("name", ["numcodecs.pickle", "vlen-utf8", "cast_value"])
def test_unknown_codec_of_format_3_is_refused(tmp_path, name):
    folder = edited(made(tmp_path), lambda node: node["codecs"].append({"name": name, "configuration": {}}))
    with pytest.raises(ImageFileError, match=f"holds chunks packed with '{name}'"):
        open_checked_array(folder, tmp_path)


@pytest.mark.parametrize("dtype", ["|O", "<U4", [["a", "<u2"]], "<c8", "nonsense", "<M8[ns]"])
def test_sample_types_that_are_no_numbers_are_refused(tmp_path, dtype):
    folder = edited(made(tmp_path, zarr_format=2), lambda node: node.update(dtype=dtype))
    with pytest.raises(ImageFileError, match="its array metadata make no sense"):
        open_checked_array(folder, tmp_path)


@pytest.mark.parametrize(
    "change",
    [{"shape": [3, 0, 24]}, {"shape": [3, -20, 24]}, {"chunks": [16, 16]}, {"chunks": [0, 16, 16]}, {"shape": [2**40, 2**20, 2**20]}],
)
def test_impossible_shapes_are_refused(tmp_path, change):
    folder = edited(made(tmp_path, zarr_format=2), lambda node: node.update(change))
    with pytest.raises(ImageFileError, match=r"its array (has shape \(.*\) and chunks of \(.*\)|metadata make no sense)"):
        open_checked_array(folder, tmp_path)


def test_enormous_chunks_are_refused(tmp_path):
    folder = edited(made(tmp_path, zarr_format=2), lambda node: node.update(chunks=[1, 2**20, 2**20]))
    with pytest.raises(ImageFileError, match=r"holds chunks of \(1, 1048576, 1048576\) samples .*; at most 536870912 bytes a chunk"):
        open_checked_array(folder, tmp_path)


@pytest.mark.parametrize("change", [{"shape": "big"}, {"shape": None}, {"chunks": {}}, {"compressor": 3}, {"filters": [3]}])
def test_senseless_metadata_are_refused(tmp_path, change):
    folder = edited(made(tmp_path, zarr_format=2), lambda node: node.update(change))
    with pytest.raises(ImageFileError, match=r"its array (metadata make no sense|has shape)"):
        open_checked_array(folder, tmp_path)


def test_irregular_chunks_are_refused(tmp_path):
    folder = edited(made(tmp_path), lambda node: node["chunk_grid"].update(name="rectangular"))
    with pytest.raises(ImageFileError, match="its array metadata make no sense"):
        open_checked_array(folder, tmp_path)


def test_folder_without_array_is_refused(tmp_path):
    with pytest.raises(ImageFileError, match="there is no array in"):
        open_checked_array(tmp_path, tmp_path)


@pytest.mark.parametrize("content", ["{", "[" * 100000, "\xff"])
def test_metadata_that_are_not_json_are_refused(tmp_path, content):
    (tmp_path / "zarr.json").write_text(content, encoding="latin-1")
    with pytest.raises(ImageFileError, match=r"zarr.json cannot be parsed"):
        open_checked_array(tmp_path, tmp_path)


def test_metadata_that_are_no_table_are_refused(tmp_path):
    (tmp_path / "zarr.json").write_text("[]")
    with pytest.raises(ImageFileError, match="its attributes are no table"):
        open_checked_array(tmp_path, tmp_path)


def test_enormous_metadata_are_refused_unread(tmp_path):
    with (tmp_path / "zarr.json").open("wb") as stream:
        stream.truncate(2**30)
    with pytest.raises(ImageFileError, match=r"zarr.json cannot be parsed: it is larger than 16777216 bytes"):
        open_checked_array(tmp_path, tmp_path)


@pytest.mark.parametrize("change", [{"compressor": {"level": 1}}, {"compressor": 3}, {"filters": 3}, {"shape": None}, {"chunks": 0}])
def test_an_array_with_broken_metadata_has_no_record_of_ours(tmp_path, change):
    """The viewer asks this of every folder that is dropped onto it."""
    folder = edited(made(tmp_path, zarr_format=2), lambda node: node.update(change))
    assert WrittenImage.find_record(folder) is None
    with pytest.raises(ImageFileError):
        open_checked_array(folder, tmp_path)
