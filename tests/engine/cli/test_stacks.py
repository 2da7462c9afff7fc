"""Real stacks from the command line: time points, channels, heights, slabs, images that give nothing."""

import json

import numpy as np
import pytest
import tifffile
import zarr

from qmcif_engine.cli import fuse_command, main
from qmcif_engine.stack.synthetic import make_focus_stack

FAST = ["--set", "effort=fast", "--quiet"]
UNBLENDED = ["--set", "blend_px=0", *FAST]
SHAPE = (40, 48)


def make_channels(dtype, n_channels, seed=0):
    """A stack (Z, C, Y, X): a gray scene in the first channel, the others random but different in every image."""
    stack = make_focus_stack(n_images=3, shape=SHAPE, seed=seed, dtype=dtype, is_color=False).images
    generator = np.random.default_rng(seed)
    others = generator.integers(0, 200, (3, n_channels - 1, *SHAPE)).astype(dtype)
    return np.concatenate([stack[:, None], others], axis=1)


def write_ome(path, samples, axes, **metadata):
    tifffile.imwrite(path, samples, metadata={"axes": axes, **metadata}, ome=True)
    return str(path)


@pytest.mark.parametrize("dtype", [np.uint16, np.float32])
def test_every_point_in_time_is_fused_along_z_into_a_file_of_its_own(tmp_path, dtype):
    times = np.stack([make_focus_stack(n_images=3, shape=SHAPE, seed=seed, dtype=dtype, is_color=False).images for seed in (1, 2)])
    path = write_ome(tmp_path / "in.ome.tif", times, "TZYX")

    assert main(["fuse", path, "-o", str(tmp_path / "out.ome.tif"), "--split-time", "--maps", str(tmp_path / "maps"), *UNBLENDED]) == 0

    assert not (tmp_path / "out.ome.tif").exists()
    for number in (0, 1):
        assert main(["fuse", path, "--time", str(number), "-o", str(tmp_path / f"one_{number}.ome.tif"), *UNBLENDED]) == 0
        fused = tifffile.imread(tmp_path / f"out_t00{number}.ome.tif")
        np.testing.assert_array_equal(fused, tifffile.imread(tmp_path / f"one_{number}.ome.tif"))
        assert fused.dtype == dtype
        index = tifffile.imread(tmp_path / f"maps_t00{number}" / "source_index.tif")
        np.testing.assert_array_equal(fused, take(times[number], index))


def take(frames, index):
    """The samples of the frames that a map names."""
    rows, columns = np.indices(index.shape)
    return frames[index, rows, columns]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_one_map_is_applied_to_every_channel_whose_own_samples_stay(tmp_path, dtype):
    samples = make_channels(dtype, 5)
    names = ["DAPI", "GFP", "RFP", "Cy5", "BF"]
    path = write_ome(
        tmp_path / "in.ome.tif", np.moveaxis(samples, 0, 1), "CZYX", Channel={"Name": names}, PhysicalSizeX=0.1, PhysicalSizeXUnit="µm"
    )
    out = tmp_path / "out.ome.tif"

    assert main(["fuse", path, "--channels", "DAPI", "-o", str(out), "--maps", str(tmp_path / "maps"), *UNBLENDED]) == 0

    with tifffile.TiffFile(out) as file:
        assert file.series[0].axes == "CYX"
        assert all(name in file.ome_metadata for name in names)
        fused = file.series[0].asarray()
    assert (fused.shape, fused.dtype) == ((5, *SHAPE), dtype)
    index = tifffile.imread(tmp_path / "maps" / "source_index.tif")
    for channel in range(5):
        np.testing.assert_array_equal(fused[channel], take(samples[:, channel], index))


def test_the_channels_that_decide_have_to_be_chosen(tmp_path, capsys):
    path = write_ome(tmp_path / "in.ome.tif", np.moveaxis(make_channels(np.uint8, 4), 0, 1), "CZYX")

    assert main(["fuse", path, "-o", str(tmp_path / "out.ome.tif"), *FAST]) == 2
    assert "up to 3 decide about focus" in capsys.readouterr().err


def test_a_format_that_cannot_hold_the_channels_is_refused_at_once(tmp_path, capsys):
    path = write_ome(tmp_path / "in.ome.tif", np.moveaxis(make_channels(np.uint8, 5), 0, 1), "CZYX")

    assert main(["fuse", path, "--channels", "1,2,3", "-o", str(tmp_path / "out.png"), "--dry-run"]) == 2
    assert "5 channels" in capsys.readouterr().err


def test_axes_that_a_file_does_not_say_are_named_on_the_command_line(tmp_path):
    times = np.stack([make_channels(np.uint16, 2, seed=seed) for seed in (1, 2)])
    tifffile.imwrite(tmp_path / "in.tif", times, photometric="minisblack")

    assert main(["fuse", str(tmp_path / "in.tif"), "--axes", "TZCYX", "-o", str(tmp_path / "out.ome.tif"), *FAST]) == 0

    assert tifffile.imread(tmp_path / "out.ome.tif").shape == (2, 2, *SHAPE)


def test_json_of_several_points_in_time_is_one_object(tmp_path, capsys):
    times = np.stack([make_focus_stack(n_images=2, shape=SHAPE, seed=seed).images for seed in (1, 2)])
    path = write_ome(tmp_path / "in.ome.tif", times, "TZYXS")

    assert main(["fuse", path, "-o", str(tmp_path / "out.png"), "--split-time", "--json", *FAST]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [time["outputs"] for time in content["times"]] == [[str(tmp_path / f"out_t00{number}.png")] for number in (0, 1)]

    assert main(["fuse", path, "-o", str(tmp_path / "out.tif"), "--json", "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["times"] == 2


def test_resuming_fuses_the_points_in_time_that_are_missing(tmp_path, capsys):
    times = np.stack([make_focus_stack(n_images=2, shape=SHAPE, seed=seed, is_color=False).images for seed in (1, 2)])
    movie = write_ome(tmp_path / "in.ome.tif", times, "TZYX")
    arguments = ["fuse", movie, "-o", str(tmp_path / "out.tif"), "--split-time", "--set", "effort=fast"]
    assert main(arguments) == 0
    expected = (tmp_path / "out_t001.tif").read_bytes()
    (tmp_path / "out_t001.tif").unlink()

    assert main(arguments) == 2
    assert "out_t000.tif' exists already" in capsys.readouterr().err
    assert main([*arguments, "--resume"]) == 0
    assert "out_t000" not in capsys.readouterr().out
    assert (tmp_path / "out_t001.tif").read_bytes() == expected
    for option in ("--quiet", "--dry-run", "--json"):
        assert main([*arguments, "--resume", option]) == 0
        capsys.readouterr()
    assert main([*arguments, "--resume", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["times"] == 2  # whether something is left is known when all samples were read
    assert main([*arguments, "--resume"]) == 0
    assert "nothing is left to fuse" in capsys.readouterr().out


@pytest.mark.parametrize(("n_finished", "reason"), [(0, "nothing was left behind"), (1, "finished tiles are kept: continue with --resume")])
def test_an_interruption_says_whether_a_point_in_time_was_finished(tmp_path, capsys, monkeypatch, n_finished, reason):
    times = np.stack([make_focus_stack(n_images=2, shape=SHAPE, seed=seed, is_color=False).images for seed in (1, 2)])
    path = write_ome(tmp_path / "in.ome.tif", times, "TZYX")
    open_point = fuse_command._open_point

    def interrupt(stack, guide, number, options):
        if number >= n_finished:
            raise KeyboardInterrupt
        return open_point(stack, guide, number, options)

    monkeypatch.setattr(fuse_command, "_open_point", interrupt)
    assert main(["fuse", path, "-o", str(tmp_path / "out.tif"), *FAST]) == 130

    assert f"interrupted; {reason}" in capsys.readouterr().err
    assert len(list(tmp_path.iterdir())) == 1 + n_finished


def test_heights_are_floats_in_the_unit_that_the_file_says(tmp_path):
    images = make_focus_stack(n_images=4, shape=SHAPE, seed=3, is_color=False).images
    path = write_ome(
        tmp_path / "in.ome.tif", images, "ZYX", PhysicalSizeZ=2.5, PhysicalSizeZUnit="µm", PhysicalSizeX=0.5, PhysicalSizeXUnit="µm"
    )
    out = tmp_path / "height.ome.tif"

    assert main(["fuse", path, "-o", str(tmp_path / "f.tif"), "--depth", str(out), "--maps", str(tmp_path / "maps"), *FAST]) == 0

    with tifffile.TiffFile(out) as file:
        heights, description = file.asarray(), file.ome_metadata
    index = tifffile.imread(tmp_path / "maps" / "source_index.tif")
    assert (heights.dtype, heights.shape) == (np.float32, SHAPE)
    assert np.abs(heights / 2.5 - index).max() <= 1 + 1e-5
    assert np.mean(np.abs(heights / 2.5 - index) <= 0.5) > 0.8
    assert (heights.min(), heights.max()) >= (0, 0)
    assert heights.max() <= 3 * 2.5
    assert len(np.unique(heights)) > 100
    assert "height in micrometer" in description
    np.testing.assert_array_equal(
        tifffile.imread(tmp_path / "height_confidence.ome.tif"), tifffile.imread(tmp_path / "maps" / "confidence.tif")
    )


def test_a_given_z_step_and_smoothing_change_the_heights(tmp_path):
    images = make_focus_stack(n_images=4, shape=SHAPE, seed=3, is_color=False).images
    path = write_ome(tmp_path / "in.ome.tif", images, "ZYX")
    heights = {}
    for name, options in {"up": ["1"], "down": ["-1"], "smooth": ["1", "--depth-smoothing", "4"]}.items():
        out = tmp_path / f"{name}.tif"
        assert main(["fuse", path, "-o", str(tmp_path / f"{name}.png"), "--depth", str(out), "--z-step", *options, *FAST]) == 0
        heights[name] = tifffile.imread(out)

    np.testing.assert_array_equal(heights["down"], -heights["up"])
    assert 0 < np.abs(heights["smooth"] - heights["up"]).mean() < 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--depth", "h.ome.tif"], "the images do not say their z step"),
        (["--depth", "h.png", "--z-step", "1"], "float32"),
        (["--depth", "f.tif", "--z-step", "1"], "a name of its own is needed for each"),
        (["--z-step", "1"], "--z-step was given without --depth"),
        (["--slab-overlap", "1"], "--slab-overlap was given without --slab"),
        (["--slab", "3"], "slabs of 3 images were asked of a stack of 3"),
        (["--depth", "h.tif", "--z-step", "1", "--depth-smoothing", "99"], "0 to 32 is needed"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_left(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    path = write_ome(tmp_path / "in.ome.tif", make_focus_stack(n_images=3, shape=SHAPE, is_color=False).images, "ZYX")

    assert main(["fuse", path, "-o", "f.tif", *arguments, *FAST]) == 2

    assert message in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["in.ome.tif"]


def test_images_that_give_no_pixel_are_told(tmp_path, capsys):
    images = make_focus_stack(n_images=2, shape=SHAPE, seed=4).images
    with_blank = [images[0], np.full_like(images[0], 128), images[1]]
    for number, image in enumerate(with_blank):
        tifffile.imwrite(tmp_path / f"{number}.tif", image, photometric="rgb")
    inputs = [str(tmp_path / f"{number}.tif") for number in range(3)]

    assert main(["fuse", *inputs, "-o", str(tmp_path / "f.png"), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["pixels_by_image"][1] == 0
    assert sum(content["pixels_by_image"]) == SHAPE[0] * SHAPE[1]
    assert len(content["unused_images"]) == 1
    assert "1.tif" in content["unused_images"][0]

    assert main(["fuse", *inputs, "-o", str(tmp_path / "g.png")]) == 0
    assert "1 of 3 images gave no pixel: " in capsys.readouterr().out


def test_slabs_of_every_channel_are_kept_and_fused_again(tmp_path):
    samples = np.concatenate([make_channels(np.uint16, 4, seed=seed) for seed in (1, 2)])
    path = write_ome(tmp_path / "in.ome.tif", np.moveaxis(samples, 0, 1), "CZYX", Channel={"Name": ["A", "B", "C", "D"]})
    out = tmp_path / "out.ome.tif"
    arguments = ["--slab", "3", "--slab-overlap", "1", "--channels", "A,C", "--maps", str(tmp_path / "maps")]

    assert main(["fuse", path, "-o", str(out), *arguments, *UNBLENDED]) == 0

    assert sorted(entry.name for entry in (tmp_path / "out.ome.tif.slabs").glob("*.tif")) == [
        "slab_001.ome.tif",
        "slab_002.ome.tif",
        "slab_003.ome.tif",
    ]
    fused = tifffile.imread(out)
    assert (fused.shape, fused.dtype) == ((4, *SHAPE), np.uint16)
    index = tifffile.imread(tmp_path / "maps" / "source_index.tif")
    np.testing.assert_array_equal(fused[1], take(samples[:, 1], index))
    assert index.max() > 2


def test_missing_chunks_are_noted_on_standard_error_and_strictly_refused(tmp_path, capsys, caplog):
    path = tmp_path / "stack.zarr"
    zarr.save_array(path, make_focus_stack(n_images=3, shape=SHAPE, is_color=False).images)
    next(chunk for chunk in sorted(path.rglob("*")) if chunk.is_file() and chunk.name != "zarr.json").unlink()

    assert main(["fuse", str(path), "-o", str(tmp_path / "out.png"), *FAST]) == 0
    assert [record.levelname for record in caplog.records if "--strict-chunks refuses it" in record.getMessage()] == ["WARNING"]
    assert main(["fuse", str(path), "-o", str(tmp_path / "other.png"), "--strict-chunks", *FAST]) == 2
    assert "lacks the chunk" in capsys.readouterr().err
    assert not (tmp_path / "other.png").exists()


def test_an_image_is_chosen_on_the_command_line(tmp_path, capsys):
    path = tmp_path / "stack.zarr"
    zarr.save_array(path, make_focus_stack(n_images=3, shape=SHAPE, is_color=False).images)

    assert main(["fuse", str(path), "--image", "2", "-o", str(tmp_path / "out.png"), *FAST]) == 2
    assert "the image 2 was chosen of" in capsys.readouterr().err
    assert main(["fuse", str(path), "--image", "1", "-o", str(tmp_path / "out.png"), *FAST]) == 0
