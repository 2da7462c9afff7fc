from __future__ import annotations

import json

import numpy as np
import pytest
import yaozarrs
import zarr
from ome_zarr.io import parse_url
from ome_zarr.reader import Reader

from qmcif_engine.io.output.formats import place_contents
from qmcif_engine.io.output.windowed_image import ArrayImage, assemble_content, halve
from qmcif_engine.stack.image_metadata import ImageMetadata

PROVENANCE = {"version": "1.2.3", "identity": "abc", "inputs": ["ä.png"]}
METADATA = ImageMetadata(pixel_size=(0.5, 0.25), unit="micrometer")


def noise(shape: tuple[int, ...], dtype: str = "uint8") -> np.ndarray:
    return np.random.default_rng(7).integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)


def stream(target, samples, *, metadata=METADATA, alpha=None, **options) -> None:
    content = assemble_content(ArrayImage(samples), alpha, metadata=metadata, provenance=PROVENANCE)
    place_contents({target: content}, overwrite=False, **options)


def rendering(target) -> dict:
    return zarr.open_group(target, mode="r").attrs["ome"]["omero"]


@pytest.mark.parametrize("shape", [(1200, 1100, 3), (1025, 700)])
def test_ome_zarr_reads_every_level_with_its_place_and_colors(tmp_path, shape):
    samples = noise(shape, "uint16")
    stream(tmp_path / "p.ome.zarr", samples)
    (node,) = Reader(parse_url(tmp_path / "p.ome.zarr"))()
    is_color = len(shape) == 3
    assert [axis["name"] for axis in node.metadata["axes"]] == (["c", "y", "x"] if is_color else ["y", "x"])
    assert {axis.get("unit") for axis in node.metadata["axes"] if axis["type"] == "space"} == {"micrometer"}
    assert node.metadata["channel_names"] == (["Red", "Green", "Blue"] if is_color else ["Gray"])
    assert len(node.data) == 3
    for level, (array, transforms) in enumerate(zip(node.data, node.metadata["coordinateTransformations"], strict=True)):
        np.testing.assert_array_equal(array.compute(), np.moveaxis(samples, -1, 0) if is_color else samples)
        scale, translation = transforms[0]["scale"][-2:], transforms[1]["translation"][-2:]
        assert scale == [0.5 * 2**level, 0.25 * 2**level]
        assert translation == [0.25 * (2**level - 1), 0.125 * (2**level - 1)]
        samples = halve(samples)


@pytest.mark.parametrize("shape", [(30, 20, 3), (30, 20), (30, 20, 5)])
def test_the_metadata_is_valid_by_the_specification(tmp_path, shape):
    stream(tmp_path / "p.ome.zarr", noise(shape))
    yaozarrs.validate_zarr_store(str(tmp_path / "p.ome.zarr"))
    group = zarr.open_group(tmp_path / "p.ome.zarr", mode="r")
    assert group.metadata.zarr_format == 3


def test_provenance_and_what_cameras_write_lie_under_one_key(tmp_path):
    metadata = ImageMetadata(dpi=(300.0, 200.0), significant_bits=12)
    stream(tmp_path / "p.zarr", noise((30, 20), "uint16"), metadata=metadata)
    attributes = zarr.open_group(tmp_path / "p.zarr", mode="r").attrs.asdict()
    assert attributes["qmcif"] == PROVENANCE | {"dpi": [300.0, 200.0], "significant_bits": 12}
    assert set(attributes) == {"ome", "qmcif"}


def test_every_chunk_is_there_even_where_it_is_black(tmp_path):
    stream(tmp_path / "p.ome.zarr", np.zeros((600, 520, 3), np.uint8))
    chunks = sorted(str(path.relative_to(tmp_path / "p.ome.zarr")) for path in tmp_path.rglob("c/0/*/*"))
    assert chunks == ["0/c/0/0/0", "0/c/0/0/1", "0/c/0/1/0", "0/c/0/1/1", "1/c/0/0/0"]


def test_a_flipped_bit_in_a_chunk_is_noticed(tmp_path):
    stream(tmp_path / "p.ome.zarr", noise((60, 50)))
    (chunk,) = [path for path in (tmp_path / "p.ome.zarr" / "0").rglob("*") if path.is_file() and path.name == "0"]
    damaged = bytearray(chunk.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    chunk.write_bytes(damaged)
    with pytest.raises(RuntimeError, match=r"(?i)checksum|corrupt"):
        zarr.open_array(tmp_path / "p.ome.zarr" / "0", mode="r")[...]


def test_contrast_is_that_of_the_samples_and_the_same_for_all_colors(tmp_path):
    samples = np.full((30, 20, 3), 1000, np.uint16)
    samples[0, 0, 0], samples[0, 0, 1] = 20, 3000
    stream(tmp_path / "p.ome.zarr", samples, metadata=ImageMetadata(significant_bits=12))
    described = rendering(tmp_path / "p.ome.zarr")
    assert [channel["window"] for channel in described["channels"]] == [{"min": 0, "max": 4095, "start": 20, "end": 3000}] * 3
    assert [channel["color"] for channel in described["channels"]] == ["FF0000", "00FF00", "0000FF"]
    assert described["rdefs"]["model"] == "color"


def test_contrast_of_floats_leaves_gaps_and_alpha_out(tmp_path):
    samples = np.array([[np.nan, -2.5], [7.5, np.inf]], np.float32)
    stream(tmp_path / "p.ome.zarr", samples, alpha=ArrayImage(np.full((2, 2), 99, np.float32)))
    gray, alpha = rendering(tmp_path / "p.ome.zarr")["channels"]
    assert gray["window"] == {"min": -2.5, "max": 7.5, "start": -2.5, "end": 7.5}
    assert (gray["active"], alpha["active"], alpha["label"]) == (True, False, "Alpha")


def test_contrast_of_one_value_or_none_is_still_a_range(tmp_path):
    for name, value in (("a", 5.0), ("b", np.nan)):
        stream(tmp_path / f"{name}.ome.zarr", np.full((3, 3), value, np.float32))
        assert rendering(tmp_path / f"{name}.ome.zarr")["channels"][0]["window"] == {"min": 0.0, "max": 1.0, "start": 0.0, "end": 1.0}


def test_dyes_keep_their_names(tmp_path):
    stream(tmp_path / "p.ome.zarr", noise((30, 20, 2)), metadata=ImageMetadata(channel_names=("DAPI", "GFP")))
    channels = rendering(tmp_path / "p.ome.zarr")["channels"]
    assert [(channel["label"], channel["color"]) for channel in channels] == [("DAPI", "0000FF"), ("GFP", "00FF00")]


def test_nothing_in_the_store_depends_on_its_place(tmp_path):
    stream(tmp_path / "p.ome.zarr", noise((30, 20)))
    for path in tmp_path.rglob("zarr.json"):
        assert tmp_path.name not in json.dumps(json.loads(path.read_text()))
