"""A movie becomes one file with its time axis, whole or not at all, and goes on where it stopped."""

from __future__ import annotations

import json
from contextlib import contextmanager

import numpy as np
import ome_types
import ome_zarr.io
import ome_zarr.reader
import pytest
import tifffile
import yaozarrs

from qmcif_engine.cli import fuse_command, main
from qmcif_engine.errors import ExecutionError
from qmcif_engine.pipeline import active_run
from qmcif_engine.stack.synthetic import make_focus_stack

FAST = ["--set", "effort=fast", "--quiet"]
SHAPE = (40, 48)
CHANNELS = {"Name": ["EGFP", "tdTomato"], "Color": [0x00FF00FF, 0xFF0000FF - 2**32]}


@pytest.fixture
def movie(tmp_path):
    """Two time points of three images and two channels, two minutes and a half apart."""
    scenes = [make_focus_stack(n_images=3, shape=SHAPE, dtype=np.uint16, is_color=False, seed=seed).images for seed in (1, 2)]
    samples = np.stack([np.stack([scene, scene // 2], axis=1) for scene in scenes])
    sizes = {"PhysicalSizeX": 0.5, "PhysicalSizeY": 0.5, "PhysicalSizeZ": 1.0, "TimeIncrement": 2.5, "TimeIncrementUnit": "min"}
    described = {"axes": "TZCYX", "Name": "cells", "Description": "dividing", "Channel": CHANNELS} | sizes
    tifffile.imwrite(tmp_path / "in.ome.tif", samples, ome=True, metadata=described)
    return str(tmp_path / "in.ome.tif")


def split(movie, tmp_path) -> np.ndarray:
    """The same time points, each in a file of its own."""
    assert main(["fuse", movie, "-o", str(tmp_path / "one.ome.tif"), "--split-time", *FAST]) == 0
    return np.stack([tifffile.imread(tmp_path / f"one_t00{number}.ome.tif") for number in (0, 1)])


@pytest.mark.parametrize("suffix", [".ome.tif", ".ome.zarr", ".tif"])
def test_a_movie_becomes_one_file_with_time_axis_and_increment(movie, tmp_path, suffix, capsys):
    target = tmp_path / f"out{suffix}"
    assert main(["fuse", movie, "-o", str(target), "--set", "effort=fast"]) == 0
    assert "fused 3 images at 2 time points" in capsys.readouterr().out
    expected = split(movie, tmp_path)
    if suffix == ".ome.zarr":
        yaozarrs.validate_zarr_store(target)
        node = next(iter(ome_zarr.reader.Reader(ome_zarr.io.parse_url(target))()))
        samples, names = np.asarray(node.data[0]), node.metadata["channel_names"]
        assert [(axis["name"], axis.get("unit")) for axis in node.metadata["axes"]][:2] == [("t", "second"), ("c", None)]
        assert node.metadata["coordinateTransformations"][0][0]["scale"] == [150.0, 1.0, 0.5, 0.5]
    else:
        with tifffile.TiffFile(target) as tiff:
            assert tiff.series[0].axes == "TCYX"
            samples, notes = tiff.asarray(), tiff.imagej_metadata
        if suffix == ".tif":
            names = notes["Labels"][:2]
            assert notes["finterval"] == 150.0
        else:
            image = ome_types.from_tiff(target).images[0]
            names = [channel.name for channel in image.pixels.channels]
            assert (image.name, image.description, image.pixels.time_increment) == ("cells", "dividing", 150.0)
    assert names == CHANNELS["Name"]
    np.testing.assert_array_equal(samples, expected)
    assert sorted(path.name for path in tmp_path.iterdir() if "qmcif" in path.name) == []


def test_maps_and_heights_have_a_page_for_every_point_in_time(movie, tmp_path):
    target, maps = tmp_path / "out.ome.tif", tmp_path / "maps"
    assert main(["fuse", movie, "-o", str(target), "--maps", str(maps), "--depth", str(tmp_path / "height.ome.tif"), *FAST]) == 0
    for name in ("source_index", "base_map", "detail_map", "confidence"):
        with tifffile.TiffFile(maps / f"{name}.tif") as tiff:
            assert (tiff.series[0].axes, tiff.series[0].shape) == ("TYX", (2, *SHAPE))
    heights = ome_types.from_tiff(tmp_path / "height.ome.tif").images[0].pixels
    assert (heights.size_t, heights.time_increment, heights.channels[0].name) == (2, 150.0, "height in micrometer")
    assert main(["fuse", movie, "--time", "1", "-o", str(tmp_path / "one.ome.tif"), "--maps", str(tmp_path / "one"), *FAST]) == 0
    index = tifffile.imread(maps / "source_index.tif")[1]
    np.testing.assert_array_equal(index, tifffile.imread(tmp_path / "one" / "source_index.tif"))


@pytest.mark.parametrize("name", ["out.png", "out.jpg"])
def test_formats_of_one_picture_are_refused_with_the_remedy(movie, tmp_path, name, capsys):
    assert main(["fuse", movie, "-o", str(tmp_path / name), "--channels", "1", *FAST]) == 2
    assert "is to hold 2 time points" in (message := capsys.readouterr().err)
    assert "--split-time" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.ome.tif"]


def fail_at(monkeypatch, time: int, *, before=lambda: None) -> None:
    """Make the time points before one complete, and let that one fail, or something happen before it."""
    open_point = fuse_command._open_point

    @contextmanager
    def open_or_fail(stack, guide, number, options):
        if number == time:
            before()
            msg = "a worker was lost"
            raise ExecutionError(msg)
        with open_point(stack, guide, number, options) as opened:
            yield opened

    monkeypatch.setattr(fuse_command, "_open_point", open_or_fail)


def left(tmp_path) -> list[str]:
    return sorted(path.name for path in tmp_path.iterdir() if "qmcif" in path.name)


def test_an_interrupted_movie_goes_on_with_what_is_missing(movie, tmp_path, monkeypatch, capsys):
    target = tmp_path / "out.ome.tif"
    command = ["fuse", movie, "-o", str(target), *FAST]
    fail_at(monkeypatch, 1)
    assert main(command) == 1
    assert left(tmp_path) == ["out.ome.tif.qmcif-job"]
    assert not target.exists()
    assert main(command) == 2
    assert "an unfinished run is in" in capsys.readouterr().err
    assert main([*command, "--resume", "--set", "feather_px=8"]) == 2
    assert "has other images, settings or another version" in capsys.readouterr().err
    monkeypatch.undo()
    assert main([*command, "--resume", "--json"]) == 0
    assert [point["resumed_tiles"] for point in json.loads(capsys.readouterr().out)["times"]] == [1, 0]
    np.testing.assert_array_equal(tifffile.imread(target), split(movie, tmp_path))
    assert left(tmp_path) == []


@pytest.mark.parametrize("changed", ["images", "guide", "transforms"])
def test_a_movie_whose_inputs_changed_meanwhile_is_not_gone_on_with(movie, tmp_path, monkeypatch, changed, capsys):
    """Every kind of input is compared by what is fused, and not by the names of files."""
    samples = tifffile.imread(movie)
    guide, transforms = tmp_path / "guide.ome.tif", tmp_path / "transforms.json"
    tifffile.imwrite(guide, samples[:, :, 0], ome=True, metadata={"axes": "TZYX"})
    command = ["fuse", movie, "-o", str(tmp_path / "out.ome.tif"), *FAST]
    command += {"guide": ["--guide", str(guide)], "transforms": ["--transforms", str(transforms)]}.get(changed, [])
    if changed == "transforms":
        assert main([*command[:3], str(tmp_path / "first.ome.tif"), *command[4:], "--align", "translation"]) == 0
    fail_at(monkeypatch, 1)
    assert main(command) == 1
    monkeypatch.undo()
    if changed == "images":
        samples[0, 1, 0, 20, 20] ^= 1
        tifffile.imwrite(movie, samples, ome=True, metadata={"axes": "TZCYX"})
    elif changed == "guide":
        tifffile.imwrite(guide, samples[:, ::-1, 0], ome=True, metadata={"axes": "TZYX"})
    else:
        content = json.loads(transforms.read_text())
        content["times"][0]["matrices"][0][0][2] += 3.0
        transforms.write_text(json.dumps(content))
    capsys.readouterr()

    assert main([*command, "--resume"]) == 2
    assert "has other images, settings or another version" in capsys.readouterr().err
    assert not (tmp_path / "out.ome.tif").exists()


@pytest.mark.parametrize("suffix", [".ome.tif", ".ome.zarr", ".tif"])
@pytest.mark.parametrize("further", [[], ["--depth", "height.ome.tif"], ["--slab", "2", "--depth", "height.ome.tif"]])
def test_a_finished_movie_is_recognized_only_as_the_result_of_the_same_run(movie, tmp_path, suffix, further, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["fuse", movie, "-o", f"out{suffix}", "--maps", "maps", "--set", "effort=fast", *further]
    assert main(command) == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    capsys.readouterr()

    assert main([*command, "--resume"]) == 0
    assert "nothing is left to fuse" in capsys.readouterr().out
    # reversed: the same images and identities, at other times
    samples = tifffile.imread(movie)
    tifffile.imwrite(
        tmp_path / "other.ome.tif", samples[::-1], ome=True, metadata={"axes": "TZCYX", "Channel": CHANNELS, "PhysicalSizeZ": 1.0}
    )
    assert main([*command, "--resume", "--set", "feather_px=8"]) == 2
    assert main(["fuse", "other.ome.tif", *command[2:], "--resume"]) == 2
    refusal = "exists already and is not known to be the result of these images and settings"
    assert [line.count(refusal) for line in capsys.readouterr().err.splitlines() if line.startswith("qmcif: '")] == [1, 1]
    (tmp_path / "other.ome.tif").unlink()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert main([*command, "--resume", "--overwrite"]) == 0
    assert left(tmp_path) == []


@pytest.mark.parametrize("further", [[], ["--depth", "height.ome.tif"]])
def test_resuming_onto_any_file_is_refused_and_leaves_it(movie, tmp_path, monkeypatch, further, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("out.ome.tif", "height.ome.tif", "height_confidence.ome.tif"):
        (tmp_path / name).write_text("precious")

    assert main(["fuse", movie, "-o", "out.ome.tif", "--resume", *further, *FAST]) == 2

    assert "choose another name or allow overwriting" in capsys.readouterr().err
    assert (tmp_path / "out.ome.tif").read_text() == "precious"
    assert left(tmp_path) == []


@pytest.mark.parametrize("option", [[], ["--split-time"]])
def test_a_movie_that_was_to_replace_still_may_when_it_is_resumed(movie, tmp_path, monkeypatch, option):
    target = tmp_path / "out.ome.tif"
    command = ["fuse", movie, "-o", str(target), *FAST, *option]
    assert main([*command, "--set", "feather_px=8"]) == 0
    old = {path.name: path.read_bytes() for path in tmp_path.glob("out*.tif")}
    fail_at(monkeypatch, 1)
    assert main([*command, "--overwrite"]) == 1
    monkeypatch.undo()

    assert main([*command, "--resume"]) == 0

    assert left(tmp_path) == []
    assert all((tmp_path / name).read_bytes() != content for name, content in old.items())
    found = tifffile.imread(target) if not option else np.stack([tifffile.imread(tmp_path / name) for name in sorted(old)])
    np.testing.assert_array_equal(found, split(movie, tmp_path))


def test_split_points_of_other_settings_are_not_resumed(movie, tmp_path, monkeypatch, capsys):
    command = ["fuse", movie, "-o", str(tmp_path / "out.ome.tif"), "--split-time", *FAST]
    fail_at(monkeypatch, 1)
    assert main(command) == 1
    monkeypatch.undo()
    first = (tmp_path / "out_t000.ome.tif").stat().st_mtime_ns

    assert main([*command, "--resume", "--set", "feather_px=8"]) == 2
    assert "has other images, settings or another version" in capsys.readouterr().err
    assert main([*command, "--resume"]) == 0

    assert (tmp_path / "out_t000.ome.tif").stat().st_mtime_ns == first
    assert left(tmp_path) == []


def test_a_movie_that_fails_at_once_leaves_nothing(movie, tmp_path, monkeypatch):
    fail_at(monkeypatch, 0)
    for option in ([], ["--split-time"]):
        assert main(["fuse", movie, "-o", str(tmp_path / "out.ome.tif"), *FAST, *option]) == 1
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.ome.tif"]


def test_a_folder_that_is_not_ours_is_left_alone(movie, tmp_path, capsys, monkeypatch):
    command = ["fuse", movie, "-o", str(tmp_path / "out.ome.tif"), *FAST]
    fail_at(monkeypatch, 1)
    assert main(command) == 1
    monkeypatch.undo()
    (tmp_path / "out.ome.tif.qmcif-job" / "precious.txt").write_text("keep")
    assert main([*command, "--overwrite"]) == 2
    assert "is not an unfinished run of this program" in capsys.readouterr().err
    assert (tmp_path / "out.ome.tif.qmcif-job" / "precious.txt").read_text() == "keep"


def test_transforms_of_a_movie_hold_every_point_in_time(movie, tmp_path):
    file = tmp_path / "transforms.json"
    command = ["fuse", movie, "--transforms", str(file), *FAST]
    assert main([*command, "--align", "translation", "-o", str(tmp_path / "out.ome.tif")]) == 0
    content = json.loads(file.read_text())
    assert [len(point["matrices"]) for point in content["times"]] == [3, 3]
    for point in content["times"][1:]:
        point["matrices"][0][0][2] = 5.0  # the first image of the second point lies five pixels to the side
    file.write_text(json.dumps(content))
    assert main([*command, "-o", str(tmp_path / "again.ome.tif")]) == 0
    found, again = (tifffile.imread(tmp_path / name) for name in ("out.ome.tif", "again.ome.tif"))
    np.testing.assert_array_equal(again[0], found[0])
    assert (again[1] != found[1]).any()


def test_transforms_of_another_number_of_points_are_refused(movie, tmp_path, capsys):
    file = tmp_path / "transforms.json"
    assert main(["fuse", movie, "--transforms", str(file), "--align", "translation", "-o", str(tmp_path / "out.ome.tif"), *FAST]) == 0
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"times": content["times"] + content["times"][:1]}))
    assert main(["fuse", movie, "--transforms", str(file), "-o", str(tmp_path / "again.ome.tif"), *FAST]) == 2
    assert "holds transforms of 3 time points and the stack has 2" in capsys.readouterr().err


@pytest.mark.parametrize("option", [[], ["--resume"], ["--overwrite"]])
@pytest.mark.parametrize("kind", [[], ["--split-time"]])
def test_a_second_run_on_a_series_is_refused_while_the_first_writes(movie, tmp_path, monkeypatch, capsys, option, kind):
    """The second starts between the time points of the first."""
    command = ["fuse", movie, "-o", str(tmp_path / "out.ome.tif"), *FAST, *kind]
    open_point, codes = fuse_command._open_point, []

    @contextmanager
    def open_after_another(stack, guide, number, options):
        if number == 1 and not codes:
            codes.append(0)
            codes.append(main([*command, *option]))
        with open_point(stack, guide, number, options) as opened:
            yield opened

    monkeypatch.setattr(fuse_command, "_open_point", open_after_another)

    assert main(command) == 0

    assert codes == [0, 2]
    assert "a run is going on in" in (said := capsys.readouterr().err) or (kind and not option and "exists already" in said)
    monkeypatch.undo()
    expected = split(movie, tmp_path)
    found = tifffile.imread(tmp_path / "out.ome.tif") if not kind else [tifffile.imread(tmp_path / f"out_t00{n}.ome.tif") for n in (0, 1)]
    np.testing.assert_array_equal(found, expected)
    assert left(tmp_path) == []


def test_a_run_that_lost_the_lock_of_its_series_ends_without_an_output(movie, tmp_path, monkeypatch, capsys):
    join = active_run.join_times

    def lose(*points, **options):
        (tmp_path / "out.ome.tif.qmcif-job" / "lock").unlink()
        return join(*points, **options)

    monkeypatch.setattr(active_run, "join_times", lose)
    assert main(["fuse", movie, "-o", str(tmp_path / "out.ome.tif"), *FAST]) == 1
    assert "was removed while this run was using it" in capsys.readouterr().err
    assert not (tmp_path / "out.ome.tif").exists()
