"""Channels of an acquisition from the command line: which decide, together or each by itself."""

import json

import numpy as np
import pytest
import tifffile

from qmcif_engine.cli import main
from qmcif_engine.synthetic import make_focus_stack

FAST = ["--set", "iterations=2", "--quiet"]
SHAPE = (40, 48)


def make_dyes(n_images=3, factors=(1.0, 0.02), offsets=(0, 100)):
    """A stack (Z, C, Y, X) of scenes that have nothing in common, each as bright as its factor says."""
    scenes = [
        make_focus_stack(n_images=n_images, shape=SHAPE, seed=seed, dtype=np.uint16, is_color=False).images for seed in range(len(factors))
    ]
    dyes = [(scene * factor + offset).astype(np.uint16) for scene, factor, offset in zip(scenes, factors, offsets, strict=True)]
    return np.stack(dyes, axis=1)


def write_ome(path, samples, axes, **metadata):
    tifffile.imwrite(path, samples, metadata={"axes": axes, **metadata}, ome=True)
    return str(path)


def fuse_json(capsys, *arguments):
    assert main(["fuse", *arguments, "--json", *FAST]) == 0
    return json.loads(capsys.readouterr().out)


def test_each_channel_has_a_focus_range_of_its_own_in_the_report_and_in_the_file(tmp_path, capsys):
    samples = make_dyes()
    path = write_ome(tmp_path / "in.ome.tif", samples, "ZCYX", Channel={"Name": ["DAPI", "GFP"]})

    told = fuse_json(capsys, path, "-o", str(tmp_path / "out.ome.tif"))

    expected = [[float(bound) for bound in np.percentile(samples[:, channel], (0.1, 99.9), method="inverted_cdf")] for channel in (0, 1)]
    assert told["focus_range"] == expected
    with tifffile.TiffFile(tmp_path / "out.ome.tif") as file:
        assert f'"focus_range": {json.dumps(expected)}' in file.ome_metadata.replace("&quot;", '"')


def test_a_dim_channel_counts_as_much_as_a_bright_one(tmp_path):
    bright = make_dyes(factors=(1.0, 1.0))
    dim = make_dyes(factors=(1.0, 0.25), offsets=(0, 0))
    results = {}
    for name, samples in {"bright": bright, "dim": dim}.items():
        path = write_ome(tmp_path / f"{name}.ome.tif", samples, "ZCYX")
        assert main(["fuse", path, "-o", str(tmp_path / f"{name}_out.ome.tif"), "--maps", str(tmp_path / name), *FAST]) == 0
        results[name] = tifffile.imread(tmp_path / name / "source_index.tif")

    # a factor of four in 16 bits costs no decision but those of the last bit
    assert (results["dim"] == results["bright"]).mean() > 0.99


@pytest.mark.parametrize(
    ("axes", "metadata"),
    [("ZYXS", {}), ("ZCYX", {"Channel": {"Name": ["Red", "Green", "Blue"]}})],
    ids=["samples", "named red, green, blue"],
)
def test_colors_of_a_picture_keep_one_range(tmp_path, capsys, axes, metadata):
    colors = make_dyes(factors=(1.0, 0.5, 0.1), offsets=(0, 0, 0))
    samples = np.moveaxis(colors, 1, -1) if axes.endswith("S") else colors
    path = write_ome(tmp_path / "in.ome.tif", samples, axes, **metadata)

    told = fuse_json(capsys, path, "-o", str(tmp_path / "out.ome.tif"))

    assert told["focus_range"] == [float(bound) for bound in np.percentile(colors, (0.1, 99.9), method="inverted_cdf")]


def test_a_range_can_be_given_for_all_channels_or_for_each(tmp_path, capsys):
    path = write_ome(tmp_path / "in.ome.tif", make_dyes(), "ZCYX")

    one = fuse_json(capsys, path, "-o", str(tmp_path / "one.ome.tif"), "--focus-range", "0", "4095")
    two = fuse_json(capsys, path, "-o", str(tmp_path / "two.ome.tif"), "--focus-range", "0", "4095", "--focus-range", "-1e2", "900")
    assert main(["fuse", path, "-o", str(tmp_path / "f.ome.tif"), *["--focus-range", "0", "4095"] * 3, *FAST]) == 2

    assert one["focus_range"] == [0, 4095]
    assert two["focus_range"] == [[0, 4095], [-100, 900]]
    assert "3 focus ranges were given and 2 channels decide; one for all or one for each is needed" in capsys.readouterr().err


def test_slabs_and_heights_take_the_ranges_of_the_whole_stack(tmp_path, capsys):
    samples = make_dyes(n_images=5)
    path = write_ome(tmp_path / "in.ome.tif", samples, "ZCYX")
    heights = ["--depth", str(tmp_path / "height.ome.tif"), "--z-step", "2", "--depth-smoothing", "2"]

    told = fuse_json(capsys, path, "-o", str(tmp_path / "out.ome.tif"), "--slab", "3", *heights)

    assert told["focus_range"][1] == [float(bound) for bound in np.percentile(samples[:, 1], (0.1, 99.9), method="inverted_cdf")]
    height = tifffile.imread(tmp_path / "height.ome.tif")
    assert height.min() >= 0
    assert height.max() <= 8
