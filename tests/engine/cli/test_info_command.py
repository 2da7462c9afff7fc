"""What is in a file is said as it would be fused, and what cannot be fused is refused with its reason."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tifffile

from qmcif_engine.cli import main
from qmcif_engine.io.output.formats import write_image
from qmcif_engine.stack.synthetic import make_focus_stack

SHAPE = (40, 48)


@pytest.fixture
def movie(tmp_path):
    scene = make_focus_stack(n_images=3, shape=SHAPE, dtype=np.uint16, is_color=False).images
    samples = np.stack([np.stack([scene, scene // 2], axis=1)] * 2)
    channels = {"Name": ["EGFP", "Cy5"], "Color": [0x00FF00FF, 0x7F00FFFF], "EmissionWavelength": [509, 670]}
    sizes = {"PhysicalSizeX": 0.25, "PhysicalSizeY": 0.5, "PhysicalSizeZ": 2.0, "TimeIncrement": 30}
    tifffile.imwrite(tmp_path / "in.ome.tif", samples, ome=True, metadata={"axes": "TZCYX", "Name": "cells", "Channel": channels} | sizes)
    return str(tmp_path / "in.ome.tif")


def described(capsys, *arguments):
    assert main(["info", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_json_has_true_shapes_and_all_that_the_file_says(movie, capsys):
    found = described(capsys, movie)
    assert (found["axes"], found["shape"], found["dtype"]) == ("TZCYX", [2, 3, 2, *SHAPE], "uint16")
    assert (found["fused_axes"], found["fused_shape"]) == ("TCYX", [2, 2, *SHAPE])
    assert found["channels"][1] == {"name": "Cy5", "color": "#7f00ff", "limits": None, "emission_nm": 670.0}
    assert (found["pixel_size"], found["z_step"], found["unit"], found["time_step_seconds"]) == ([0.5, 0.25], 2.0, "micrometer", 30.0)
    assert (found["image_name"], found["decides"], len(found["focus_range"])) == ("cells", "all channels together", 2)


def test_the_json_of_a_fusion_has_the_shape_of_its_picture(movie, tmp_path, capsys):
    options = ["--time", "0", "--set", "effort=fast", "--json", "--quiet", "-o", str(tmp_path / "out.ome.tif")]
    assert main(["fuse", movie, *options, "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["shape"] == [*SHAPE, 2]
    assert main(["fuse", movie, *options]) == 0
    assert json.loads(capsys.readouterr().out)["shape"] == [*SHAPE, 2]
    assert tifffile.imread(tmp_path / "out.ome.tif").shape == (2, *SHAPE)


def test_a_few_lines_say_it_in_words(movie, capsys):
    assert main(["info", movie]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == movie
    assert "  axes        T 2 x Z 3 x C 2 x Y 40 x X 48" in lines
    assert "  channels    EGFP #00ff00 509 nm, Cy5 #7f00ff 670 nm" in lines
    assert "  pixel       0.25 x 0.5 micrometer, z step 2 micrometer, 30 s from one time point to the next" in lines
    assert "  fuses to    T 2 x C 2 x Y 40 x X 48; decided by all channels together" in lines


def test_headers_alone_are_read_where_that_is_asked_for(movie, capsys, monkeypatch):
    monkeypatch.setattr("qmcif_engine.io.input.segments.SegmentCache.read", lambda *_: pytest.fail("a sample was read"))
    assert "focus_range" not in described(capsys, movie, "--headers")


def test_images_of_one_stack_are_described_together_and_stacks_one_by_one(movie, tmp_path, capsys):
    images = make_focus_stack(n_images=2, shape=SHAPE).images
    paths = [str(tmp_path / f"{number}.png") for number in (1, 2)]
    for path, image in zip(paths, images, strict=True):
        write_image(path, image)
    assert described(capsys, *paths)["shape"] == [2, 3, *SHAPE]
    found = described(capsys, movie, movie, "--headers")
    assert [content["axes"] for content in found["inputs"]] == ["TZCYX", "TZCYX"]


def test_more_channels_than_decide_are_described_with_a_warning(tmp_path, capsys):
    samples = np.random.default_rng(0).integers(0, 99, (3, 5, *SHAPE)).astype(np.uint8)
    tifffile.imwrite(tmp_path / "in.ome.tif", samples, ome=True, metadata={"axes": "ZCYX"})
    found = described(capsys, str(tmp_path / "in.ome.tif"))
    assert (found["shape"], found["decides"]) == ([3, 5, *SHAPE], "each channel for itself")
    assert "choose them with channels=" in found["warnings"][0]


def test_what_cannot_be_fused_is_said_beside_the_others(movie, tmp_path, capsys):
    broken = tmp_path / "broken.tif"
    broken.write_bytes(b"II*\0 and no more")
    assert main(["info", movie, str(broken), str(tmp_path / "nothing.tif")]) == 2
    output, errors = capsys.readouterr()
    assert "T 2 x Z 3" in output
    assert f"{broken}\n  refused     " in output
    assert "No such file or directory" in output
    assert errors.splitlines()[-1] == "qmcif: 2 of 3 inputs cannot be fused as they are; the reasons are given with them"
    assert main(["info", str(broken), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["refused"].startswith(f"'{broken}'")


def test_a_stack_without_anything_to_see_is_warned_of(tmp_path, capsys):
    tifffile.imwrite(tmp_path / "in.ome.tif", np.zeros((3, *SHAPE), np.uint16), ome=True, metadata={"axes": "ZYX"})
    assert any("all samples are equal" in warning for warning in described(capsys, str(tmp_path / "in.ome.tif"))["warnings"])
