"""``qmcif fuse --guide``: decisions of one stack, samples of another, beside every other option."""

import json

import numpy as np
import pytest
import tifffile

from qmcif_engine import FusionConfig, fuse
from qmcif_engine.cli import main
from qmcif_engine.io.output.transform_files import save_transforms
from qmcif_engine.stack.alignment.transforms import TransformModel, Transforms
from qmcif_engine.stack.preparation import prepare_stack
from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.stack.synthetic import make_focus_stack

SETTINGS = {"blend_px": 0, "feather_px": 0, "tile_px": 64}
FAST = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")] + ["--quiet"]
SHAPE = (100, 120)


@pytest.fixture(scope="module")
def clean():
    return make_focus_stack(n_images=3, shape=SHAPE, seed=3, is_color=False).images


@pytest.fixture(scope="module")
def noisy(clean):
    noise = np.random.default_rng(0).normal(0, 25, clean.shape)
    return np.clip(clean + noise, 0, 255).astype(np.uint8)


@pytest.fixture
def files(tmp_path, clean, noisy):
    """The noisy stack, and the clean one that is to decide for it, as TIFF files."""
    return [write(tmp_path / name, samples) for name, samples in (("noisy.tif", noisy), ("clean.tif", clean))]


def write(path, samples, axes="ZYX"):
    tifffile.imwrite(path, samples, metadata={"axes": axes}, ome=True)
    return str(path)


def fuse_files(folder, stack, guide, *further):
    arguments = ["fuse", stack, "-o", str(folder / "out.tif"), "--maps", str(folder / "maps"), "--overwrite", *FAST, *further]
    assert main([*arguments, "--guide", guide]) == 0
    return tifffile.imread(folder / "out.tif"), tifffile.imread(folder / "maps" / "source_index.tif")


def take(frames, index):
    return np.take_along_axis(frames, index[None].astype(int), axis=0)[0]


def test_decisions_are_those_of_the_guide_and_samples_those_of_the_stack(tmp_path, files, clean, noisy):
    fused, index = fuse_files(tmp_path, *files)

    expected = fuse(noisy, FusionConfig().replaced(SETTINGS), guide=clean)
    np.testing.assert_array_equal(index, expected.source_index)
    np.testing.assert_array_equal(fused, expected.fused)
    assert (index != fuse(noisy, FusionConfig().replaced(SETTINGS)).source_index).any()


def test_a_guide_of_several_files_is_given_as_an_input_is(tmp_path, files, clean):
    expected, _ = fuse_files(tmp_path, *files)
    folder = tmp_path / "guides"
    folder.mkdir()
    for number, image in enumerate(clean):
        tifffile.imwrite(folder / f"{number}.tif", image)

    of_folder, _ = fuse_files(tmp_path, files[0], str(folder))
    assert main(["fuse", files[0], "-o", str(tmp_path / "of_files.tif"), *FAST, "--guide", *map(str, sorted(folder.iterdir()))]) == 0

    np.testing.assert_array_equal(of_folder, expected)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "of_files.tif"), expected)


def test_a_guide_is_moved_as_its_stack_is(tmp_path, files, clean, noisy):
    matrices = tuple(((1.0, 0.0, shift), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)) for shift in (0.0, 4.0, -3.5))
    transforms = Transforms(matrices=matrices, model=TransformModel.TRANSLATION, image_shape=SHAPE, reference=0)
    save_transforms(tmp_path / "transforms.json", transforms)

    fused, index = fuse_files(tmp_path, *files, "--transforms", str(tmp_path / "transforms.json"))

    stack, guide = (prepare_stack(stack_arrays(images), transforms=transforms) for images in (noisy, clean))
    expected = fuse(stack, FusionConfig().replaced(SETTINGS), guide=guide)
    np.testing.assert_array_equal(index, expected.source_index)
    np.testing.assert_array_equal(fused, expected.fused)


def test_the_exposure_of_a_guide_is_evened_out_as_that_of_its_stack(tmp_path, files, clean, noisy):
    darker = clean.copy()
    darker[0] = clean[0] // 2
    guide = write(tmp_path / "darker.tif", darker)

    _, uneven = fuse_files(tmp_path, files[0], guide)
    _, even = fuse_files(tmp_path, files[0], guide, "--even-exposure", "--reference", "2")

    wanted = fuse(clean, FusionConfig().replaced(SETTINGS)).source_index
    assert (even != wanted).mean() < (uneven != wanted).mean()


def test_every_point_in_time_has_its_own_guide(tmp_path, files, clean, noisy):
    fused, _ = fuse_files(tmp_path, *files)
    stack = write(tmp_path / "times.tif", np.stack([noisy, noisy[:, ::-1]]), "TZYX")
    guide = write(tmp_path / "guides.tif", np.stack([clean, clean[:, ::-1]]), "TZYX")

    assert main(["fuse", stack, "-o", str(tmp_path / "each.tif"), *FAST, "--split-time", "--guide", guide]) == 0

    np.testing.assert_array_equal(tifffile.imread(tmp_path / "each_t000.tif"), fused)
    expected = fuse(noisy[:, ::-1], FusionConfig().replaced(SETTINGS), guide=clean[:, ::-1])
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "each_t001.tif"), expected.fused)


def test_frames_and_channels_are_chosen_in_both_and_a_gray_guide_needs_no_choice(tmp_path, files, clean, noisy):
    settings = FusionConfig().replaced(SETTINGS)
    two = write(tmp_path / "two.tif", np.stack([noisy[:, ::-1], noisy], axis=1), "ZCYX")
    both = write(tmp_path / "both.tif", np.stack([clean[:, ::-1], clean], axis=1), "ZCYX")
    expected = fuse(noisy[[2, 0]], settings, guide=clean[[2, 0]])

    for guide in (files[1], both):
        fused, index = fuse_files(tmp_path, two, guide, "--channels", "2", "--exclude", "2", "--order", "3,1")
        np.testing.assert_array_equal(index, expected.source_index)
        np.testing.assert_array_equal(fused[1], expected.fused)


def test_the_plan_counts_the_guide(tmp_path, files, capsys):
    plans = []
    for guide in ([], ["--guide", files[1]]):
        assert main(["fuse", files[0], "-o", str(tmp_path / "out.tif"), "--workers", "1", "--dry-run", "--json", *guide]) == 0
        plans.append(json.loads(capsys.readouterr().out))

    assert plans[1]["memory_bytes"] > plans[0]["memory_bytes"]


REFUSED = {
    "slabs": ({}, ["--slab", "2"], "--guide was given with --slab; slabs are decided on by themselves"),
    "size": ({"rows": 90}, [], "the guide has 3 images of shape (90, 120) and the stack has 3 of (100, 120)"),
    "times": ({"n_times": 2}, [], "the guide has 2 time points and the stack has 1; as many are needed"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_and_nothing_is_written(tmp_path, files, clean, capsys, name):
    change, further, message = REFUSED[name]
    samples = clean[:, : change.get("rows", 100)]
    if "n_times" in change:
        samples = np.stack([samples] * change["n_times"])
    guide = write(tmp_path / "guide.tif", samples, "TZYX" if samples.ndim == 4 else "ZYX")

    assert main(["fuse", files[0], "-o", str(tmp_path / "out.tif"), *further, "--guide", guide]) == 2

    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("out*"))


def test_a_guide_is_never_replaced(tmp_path, files, capsys):
    before = (tmp_path / "clean.tif").read_bytes()

    assert main(["fuse", files[0], "-o", files[1], "--overwrite", "--guide", files[1]]) == 2

    assert "clean.tif" in capsys.readouterr().err
    assert (tmp_path / "clean.tif").read_bytes() == before
