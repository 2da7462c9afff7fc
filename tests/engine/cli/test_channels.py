"""Channels of an acquisition from the command line: which decide, together or each by itself."""

import json

import numpy as np
import pytest
import tifffile
from PIL import Image

from qmcif_engine.cli import main
from qmcif_engine.io.output.transform_files import save_transforms
from qmcif_engine.run.job import Job
from qmcif_engine.stack.alignment.transforms import IDENTITY, TransformModel, Transforms
from qmcif_engine.stack.synthetic import make_focus_stack

FAST = ["--set", "effort=fast", "--quiet"]
SHAPE = (40, 48)


def make_dyes(n_images=3, factors=(1.0, 0.02), offsets=(0, 100), shape=SHAPE):
    """A stack (Z, C, Y, X) of scenes that have nothing in common, each as bright as its factor says."""
    scenes = [
        make_focus_stack(n_images=n_images, shape=shape, seed=seed, dtype=np.uint16, is_color=False).images for seed in range(len(factors))
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


def fuse_alone(tmp_path, samples, channel, *arguments, prefix="alone"):
    """The result of one channel of a (Z, C, Y, X) stack that was given alone."""
    path = tmp_path / f"{prefix}{channel}.tif"
    tifffile.imwrite(path, samples[:, channel], photometric="minisblack")
    out = tmp_path / f"{prefix}{channel}_out.ome.tif"
    assert main(["fuse", str(path), "--axes", "ZYX", "-o", str(out), *arguments, *FAST]) == 0
    return tifffile.imread(out)


@pytest.mark.parametrize("n_channels", [2, 3, 5])
def test_each_channel_is_fused_as_if_it_were_given_alone_and_keeps_its_name(tmp_path, n_channels, capsys):
    samples = make_dyes(factors=np.linspace(1, 0.1, n_channels), offsets=[0] * n_channels)
    names = [f"dye {number}" for number in range(n_channels)]
    path = write_ome(tmp_path / "in.ome.tif", np.moveaxis(samples, 0, 1), "CZYX", Channel={"Name": names})

    told = fuse_json(capsys, path, "--channels", "each", "-o", str(tmp_path / "out.ome.tif"), "--maps", str(tmp_path / "maps"))

    with tifffile.TiffFile(tmp_path / "out.ome.tif") as file:
        assert (file.series[0].axes, file.series[0].shape) == ("CYX", (n_channels, *SHAPE))
        assert all(f'Name="{name}"' in file.ome_metadata for name in names)
        assert '"channels": "each"' in file.ome_metadata.replace("&quot;", '"')
        fused = file.asarray()
    assert len(told["focus_range"]) == n_channels
    assert sum(told["pixels_by_image"]) == n_channels * SHAPE[0] * SHAPE[1]
    for channel in range(n_channels):
        maps = tmp_path / f"maps{channel}"
        np.testing.assert_array_equal(fused[channel], fuse_alone(tmp_path, samples, channel, "--maps", str(maps)))
        for name in ("source_index", "base_map", "detail_map", "confidence"):
            planes = tifffile.imread(tmp_path / "maps" / f"{name}.tif")
            assert planes.shape == (n_channels, *SHAPE)
            np.testing.assert_array_equal(planes[channel], tifffile.imread(maps / f"{name}.tif"))


def test_three_channels_without_names_are_not_written_as_colors(tmp_path):
    path = write_ome(tmp_path / "in.ome.tif", make_dyes(factors=(1, 1, 1), offsets=(0, 0, 0)), "ZCYX")

    for arguments in ([], ["--channels", "each"]):
        out = tmp_path / f"out{len(arguments)}.ome.tif"
        assert main(["fuse", path, *arguments, "-o", str(out), *FAST]) == 0
        with tifffile.TiffFile(out) as file:
            assert (file.series[0].axes, file.series[0].shape) == ("CYX", (3, *SHAPE))


@pytest.mark.parametrize("suffix", [".ome.tif", ".ome.zarr"])
def test_each_channel_has_heights_of_its_own(tmp_path, suffix):
    samples = make_dyes(n_images=4)
    path = write_ome(tmp_path / "in.ome.tif", samples, "ZCYX", Channel={"Name": ["DAPI", "GFP"]})
    form = ["--z-step", "-0.5", "--z-unit", "mm", "--depth-smoothing", "3"]
    heights = tmp_path / f"height{suffix}"

    assert main(["fuse", path, "--channels", "each", "-o", str(tmp_path / "out.ome.tif"), "--depth", str(heights), *form, *FAST]) == 0

    for channel in (0, 1):
        alone = tmp_path / f"height{channel}.ome.tif"
        fuse_alone(tmp_path, samples, channel, "--depth", str(alone), *form)
        for name in ("height", "height_confidence"):
            found = read_planes(tmp_path / f"{name}{suffix}")[channel]
            np.testing.assert_array_equal(found, tifffile.imread(tmp_path / f"{name.replace('height', f'height{channel}')}.ome.tif"))
    if suffix == ".ome.tif":
        with tifffile.TiffFile(heights) as file:
            assert 'Name="DAPI height in millimeter"' in file.ome_metadata


def read_planes(path):
    if path.suffix != ".zarr":
        return tifffile.imread(path)
    zarr = pytest.importorskip("zarr")
    return np.asarray(zarr.open_group(path, mode="r")["0"])


def test_each_channel_at_every_point_in_time(tmp_path):
    times = np.stack([make_dyes(offsets=(0, offset)) for offset in (0, 300)])
    path = write_ome(tmp_path / "in.ome.tif", times, "TZCYX")

    assert main(["fuse", path, "--channels", "each", "--split-time", "-o", str(tmp_path / "out.ome.tif"), *FAST]) == 0

    for time in (0, 1):
        fused = tifffile.imread(tmp_path / f"out_t00{time}.ome.tif")
        for channel in (0, 1):
            np.testing.assert_array_equal(fused[channel], fuse_alone(tmp_path, times[time], channel, prefix=f"t{time}c"))


@pytest.mark.parametrize("n_channels", [2, 3])
def test_each_channel_in_slabs_with_maps_and_heights_of_the_whole_stack(tmp_path, n_channels):
    samples = make_dyes(n_images=6, factors=(1, 0.5, 0.1)[:n_channels], offsets=(0, 9, 99)[:n_channels])
    path = write_ome(tmp_path / "in.ome.tif", samples, "ZCYX")
    slabs = ["--slab", "3", "--slab-overlap", "1", "--z-step", "2"]
    outputs = ["-o", str(tmp_path / "out.ome.tif"), "--maps", str(tmp_path / "maps"), "--depth", str(tmp_path / "height.ome.tif")]

    assert main(["fuse", path, "--channels", "each", *outputs, *slabs, *FAST]) == 0

    fused, index = tifffile.imread(tmp_path / "out.ome.tif"), tifffile.imread(tmp_path / "maps" / "source_index.tif")
    height = tifffile.imread(tmp_path / "height.ome.tif")
    for channel in range(n_channels):
        maps, alone = tmp_path / f"maps{channel}", tmp_path / f"height{channel}.ome.tif"
        # the range of the channel in the whole stack is that of the channel alone
        single = fuse_alone(tmp_path, samples, channel, *slabs, "--maps", str(maps), "--depth", str(alone))
        np.testing.assert_array_equal(fused[channel], single)
        np.testing.assert_array_equal(index[channel], tifffile.imread(maps / "source_index.tif"))
        np.testing.assert_array_equal(height[channel], tifffile.imread(alone))


def test_an_interrupted_run_on_each_channel_is_gone_on_with(tmp_path, capsys, monkeypatch):
    path = write_ome(tmp_path / "in.ome.tif", make_dyes(shape=(72, 80)), "ZCYX")
    options = ["--channels", "each", "--set", "tile_px=64", "--workers", "1", "--memory", "1GB"]
    assert main(["fuse", path, "-o", str(tmp_path / "whole.ome.tif"), *options, *FAST]) == 0
    kept = []
    write = Job.write

    def write_two(job, part, tile, result):
        if len(kept) == 2:
            raise KeyboardInterrupt
        kept.append(tile)
        write(job, part, tile, result)

    with monkeypatch.context() as patched:
        patched.setattr(Job, "write", write_two)
        assert main(["fuse", path, "-o", str(tmp_path / "out.ome.tif"), *options, *FAST]) == 130
    assert main(["fuse", path, "-o", str(tmp_path / "out.ome.tif"), "--resume", *options[2:], *FAST]) == 2  # another decision
    capsys.readouterr()
    told = fuse_json(capsys, path, "-o", str(tmp_path / "out.ome.tif"), "--resume", *options)

    assert (told["tiles"], told["resumed_tiles"]) == (4, 2)
    assert (tmp_path / "out.ome.tif").read_bytes() == (tmp_path / "whole.ome.tif").read_bytes()


def test_alignment_and_exposure_go_with_every_channel(tmp_path):
    samples = make_dyes(factors=(0.8, 0.4))
    samples[0] //= 2
    path = write_ome(tmp_path / "in.ome.tif", samples, "ZCYX")
    moved = ((1.0, 0.0, 2.5), (0.0, 1.0, -1.0), (0.0, 0.0, 1.0))
    transforms = Transforms(matrices=(IDENTITY, IDENTITY, moved), model=TransformModel.TRANSLATION, image_shape=SHAPE, reference=1)
    save_transforms(tmp_path / "moved.json", transforms)
    options = ["--transforms", str(tmp_path / "moved.json"), "--even-exposure"]

    assert main(["fuse", path, "--channels", "each", "-o", str(tmp_path / "out.ome.tif"), *options, *FAST]) == 0

    fused = tifffile.imread(tmp_path / "out.ome.tif")
    for channel in (0, 1):
        np.testing.assert_array_equal(fused[channel], fuse_alone(tmp_path, samples, channel, *options))


def test_a_dry_run_counts_the_work_of_every_channel(tmp_path, capsys):
    path = write_ome(tmp_path / "in.ome.tif", make_dyes(), "ZCYX")

    assert main(["fuse", path, "--channels", "each", "-o", str(tmp_path / "out.ome.tif"), "--dry-run", "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert told["shape"] == [*SHAPE, 2]
    assert told["output_bytes"] == SHAPE[0] * SHAPE[1] * 2 * 2


def test_alpha_is_refused_where_each_channel_decides_and_gray_pictures_are_fused_as_ever(tmp_path, capsys):
    generator = np.random.default_rng(0)
    colors, grays = (generator.integers(0, 255, (2, *SHAPE, *samples), dtype=np.uint8) for samples in ((4,), ()))
    for number in (0, 1):
        Image.fromarray(colors[number]).save(tmp_path / f"c{number}.png")
        Image.fromarray(grays[number]).save(tmp_path / f"g{number}.png")

    arguments = ["--channels", "each", *FAST]
    assert main(["fuse", str(tmp_path / "c0.png"), str(tmp_path / "c1.png"), "-o", str(tmp_path / "out.tif"), *arguments]) == 2
    assert "has alpha, which belongs to all of its channels; none is needed to decide on each" in capsys.readouterr().err
    assert main(["fuse", str(tmp_path / "g0.png"), str(tmp_path / "g1.png"), "-o", str(tmp_path / "out.png"), *arguments]) == 0
    assert main(["fuse", str(tmp_path / "g0.png"), str(tmp_path / "g1.png"), "-o", str(tmp_path / "joint.png"), *FAST]) == 0
    assert (tmp_path / "out.png").read_bytes() == (tmp_path / "joint.png").read_bytes()


@pytest.mark.parametrize("channels", [[], ["--channels", "2,1"]])
def test_channels_that_decide_together_are_evened_out_in_the_result(tmp_path, channels):
    samples = make_dyes(n_images=2, factors=(0.4, 0.4), offsets=(9000, 9000))
    darker = samples.copy()
    darker[0] = darker[0] * 0.8
    maps = ["--maps", str(tmp_path / "maps"), "--set", "blend_px=0", "--focus-range", "0", "65535"]

    path = write_ome(tmp_path / "in.ome.tif", darker, "ZCYX")
    assert main(["fuse", path, "-o", str(tmp_path / "out.ome.tif"), "--even-exposure", "--reference", "2", *channels, *maps, *FAST]) == 0

    fused, index = tifffile.imread(tmp_path / "out.ome.tif"), tifffile.imread(tmp_path / "maps" / "source_index.tif")
    assert 0 < (index == 0).mean() < 1
    for channel in (0, 1):
        taken = fused[channel][index == 0] / samples[0, channel][index == 0]
        np.testing.assert_allclose(taken, 1, atol=0.05)  # as bright as before it was made darker by a fifth
        np.testing.assert_array_equal(fused[channel][index == 1], samples[1, channel][index == 1])


@pytest.mark.parametrize(
    ("axes", "metadata"),
    [("ZYXS", {}), ("ZCYX", {"Channel": {"Name": ["Red", "Green", "Blue"]}})],
    ids=["samples", "named red, green, blue"],
)
def test_colors_that_are_decided_on_one_by_one_stay_colors_and_their_maps_are_pages(tmp_path, axes, metadata):
    colors = make_dyes(n_images=4, factors=(1, 0.5, 0.1), offsets=(0, 0, 0))
    path = write_ome(tmp_path / "in.ome.tif", np.moveaxis(colors, 1, -1) if axes.endswith("S") else colors, axes, **metadata)
    heights = ["--depth", str(tmp_path / "height.ome.tif"), "--z-step", "1"]
    for name, arguments in {"whole": [], "slabs": ["--slab", "3"]}.items():
        outputs = ["-o", str(tmp_path / f"{name}.ome.tif"), "--maps", str(tmp_path / name), *heights, "--overwrite"]
        assert main(["fuse", path, "--channels", "each", *outputs, *arguments, *FAST]) == 0

        with tifffile.TiffFile(tmp_path / f"{name}.ome.tif") as file:
            assert (file.series[0].axes, file.series[0].shape) == ("YXS", (*SHAPE, 3))
        assert tifffile.imread(tmp_path / name / "source_index.tif").shape == (3, *SHAPE)
        assert tifffile.imread(tmp_path / "height.ome.tif").shape == (3, *SHAPE)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "whole.ome.tif")[..., 1], fuse_alone(tmp_path, colors, 1))
