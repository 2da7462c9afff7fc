"""Aligning from the command line: the stack that is written, what is refused, and what is told."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest
import tifffile

from qmcif_engine.cli import main
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.io.output.formats import write_image
from qmcif_engine.io.output.transform_files import load_transforms, save_transforms
from qmcif_engine.stack.alignment.transforms import IDENTITY, TransformModel, Transforms
from qmcif_engine.stack.synthetic import make_focus_stack
from qmcif_engine.stack.window import Window

SHAPE = (200, 260)
MARGIN_PX = 6
SHIFTS = ((0, 0), (3, -5), (-4, 2))
"""Down and right, of each image against the scene."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three images that lie whole pixels apart, as PNG and as one OME-TIFF with two channels and two time points."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    canvas = tuple(side + 2 * MARGIN_PX for side in SHAPE)
    scene = make_focus_stack(n_images=3, shape=canvas, dtype=np.uint16, blur_px=2.0).images
    images = []
    for number, (down, right) in enumerate(SHIFTS):
        top, left = MARGIN_PX + down, MARGIN_PX + right
        images.append(scene[number, top : top + SHAPE[0], left : left + SHAPE[1]])
        write_image(tmp_path / "in" / f"{number}.png", images[-1])
    channels = np.moveaxis(np.array(images)[..., :2], -1, 1)
    metadata = {"axes": "TZCYX", "PhysicalSizeX": 0.2, "PhysicalSizeY": 0.3, "PhysicalSizeZ": 1.5, "Channel": {"Name": ["DAPI", "GFP"]}}
    tifffile.imwrite(tmp_path / "times.ome.tif", np.stack([channels, channels[:, ::-1]]), metadata=metadata, ome=True)
    matrices = tuple(((1.0, 0.0, float(-right)), (0.0, 1.0, float(-down)), IDENTITY[2]) for down, right in SHIFTS)
    known = Transforms(matrices=matrices, model=TransformModel.TRANSLATION, image_shape=SHAPE, reference=0)
    save_transforms(tmp_path / "known.json", known)
    return tmp_path


def read_all(path):
    with open_stack(path) as stack:
        return np.stack([stack.read(number, Window.whole(stack.image_shape)) for number in range(stack.n_images)])


@pytest.mark.parametrize("output", ["a.tif", "a.ome.tif", "a.ome.zarr", "frames/{frame}.png"])
def test_images_that_moved_coincide_in_every_format(folder, capsys, output):
    assert main(["align", "in", "-o", output, "--transforms", "known.json"]) == 0

    assert "aligned 3 images by translation, at most 5.8 px" in capsys.readouterr().out
    before, after = read_all("in"), read_all("frames" if "{" in output else output)
    assert (after.dtype, after.shape) == (before.dtype, before.shape)
    np.testing.assert_array_equal(after[0], before[0])
    np.testing.assert_array_equal(after[1, 10:-10, 10:-10], before[1, 7:-13, 15:-5])


def test_a_similarity_is_estimated_where_no_model_is_named(folder, capsys):
    assert main(["align", "in", "-o", "a.tif", "--json", "--reference", "1"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert (told["align"], told["reference"], told["images"]) == ("similarity", 1, 3)
    shifts = np.array(told["matrices"])[:, :2, 2] + (np.array(told["matrices"])[:, :2, :2] - np.eye(2)) @ [130, 100]
    np.testing.assert_allclose(shifts, [(-right, -down) for down, right in SHIFTS], atol=0.5)


@pytest.mark.parametrize("name", ["--model", "--align"])
def test_found_transforms_are_kept_and_give_the_same_bytes_again(folder, name):
    assert main(["align", "in", "-o", "a.tif", name, "homography", "--transforms", "new.json", "--quiet"]) == 0
    assert load_transforms("new.json").model is TransformModel.HOMOGRAPHY
    assert main(["align", "in", "-o", "b.tif", "--transforms", "new.json", "--quiet", "--workers", "3"]) == 0

    assert (folder / "a.tif").read_bytes() == (folder / "b.tif").read_bytes()


def test_every_point_in_time_becomes_a_stack_with_all_that_is_known_of_it(folder):
    options = ["--transforms", "known.json", "--crop", "--even-exposure", "--quiet"]
    assert main(["align", "times.ome.tif", "-o", "a.ome.tif", *options]) == 0

    assert sorted(path.name for path in folder.glob("a*")) == ["a_t000.ome.tif", "a_t001.ome.tif"]
    with open_stack("a_t001.ome.tif") as stack:
        assert stack.companions.image_shape == (200 - 7, 260 - 7, 2)
        assert (stack.metadata.pixel_size, stack.metadata.z_step, stack.metadata.channel_names) == ((0.3, 0.2), 1.5, ("DAPI", "GFP"))


def test_channels_that_do_not_decide_are_evened_out_as_well(folder):
    with open_stack("times.ome.tif") as stack:
        samples = np.stack([stack.companions.read(number, Window.whole(SHAPE)) for number in range(3)])
    samples[2, ..., 1] //= 2
    tifffile.imwrite("dim.ome.tif", np.moveaxis(samples, -1, 1), metadata={"axes": "ZCYX"}, ome=True)
    options = ["--transforms", "known.json", "--channels", "1", "--quiet"]

    assert main(["align", "dim.ome.tif", "-o", "even.ome.tif", "--even-exposure", *options]) == 0
    assert main(["align", "dim.ome.tif", "-o", "uneven.ome.tif", *options]) == 0

    even, uneven = tifffile.imread("even.ome.tif")[:, 1].astype(float), tifffile.imread("uneven.ome.tif")[:, 1].astype(float)
    assert uneven[2].mean() / uneven[0].mean() == pytest.approx(0.5, abs=0.05)
    assert even[2].mean() / even[0].mean() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "a.png"], "PNG holds one: use .tif, .ome.tif or .ome.zarr"),
        (["-o", "a.xyz"], "has the suffix '.xyz'"),
        (["-o", "missing/a.tif"], "'missing' does not exist"),
        (["-o", "in/0.png/{frame}.tif"], "'in/0.png' is not a folder"),
        (["-o", "in/0.png/new/{frame}.tif"], "0.png' is not a folder"),
        (["-o", f"{'long' * 100}/{{frame}}.tif"], "cannot be written (File name too long)"),
        (["-o", "frames/{frame}.jpg"], "to hold uint16 samples; JPEG holds uint8"),
        (["-o", "a.tif", "--reference", "4"], "image 4 was given as the reference"),
        (["-o", "a.tif", "--model", "similarity", "--transforms", "known.json"], "holds transforms of the model translation"),
        (["-o", "a.tif", "--model", "projective"], "invalid choice: 'projective'"),
        (["-o", "a.tif", "--transforms", "a.tif"], "is to hold both a result and the transforms"),
        (["-o", "a.tif", "--workers", "0"], "a whole number of at least 1 is needed"),
        (["-o", "known.json"], "has the suffix '.json'"),
    ],
)
def test_what_cannot_be_met_is_refused_before_anything_is_written(folder, capsys, arguments, message):
    before = sorted(folder.rglob("*"))
    assert main(["align", "in", *arguments]) == 2

    assert message in capsys.readouterr().err
    assert sorted(folder.rglob("*")) == before


def test_an_existing_target_and_the_inputs_are_kept(folder, capsys):
    (folder / "a.tif").write_text("mine")
    assert main(["align", "in", "-o", "a.tif", "--transforms", "known.json"]) == 2
    assert (folder / "a.tif").read_text() == "mine"
    assert main(["align", "times.ome.tif", "--time", "0", "-o", "times.ome.tif", "--transforms", "known.json", "--overwrite"]) == 2
    assert "is the input 'times.ome.tif', which would be lost" in capsys.readouterr().err

    assert main(["align", "in", "-o", "a.tif", "--transforms", "known.json", "--overwrite", "--quiet"]) == 0
    assert read_all("a.tif").shape == (3, *SHAPE, 3)


def test_what_the_next_run_would_take_for_an_image_is_told(folder, capsys):
    assert main(["align", "in", "-o", "in/aligned.tif", "--transforms", "known.json"]) == 0

    assert "'in/aligned.tif' lies among the images" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("n_finished", "reason"), [(0, "nothing was left behind"), (1, "the first 1 of 2 time points are finished and kept")]
)
def test_an_interruption_says_what_was_finished(folder, capsys, monkeypatch, n_finished, reason):
    from qmcif_engine.cli import align_command

    calls = []

    def write_or_stop(stack, target, **options):
        calls.append(target)
        if len(calls) > n_finished:
            raise KeyboardInterrupt
        return write_stack(stack, target, **options)

    write_stack = align_command.write_stack
    monkeypatch.setattr(align_command, "write_stack", write_or_stop)

    assert main(["align", "times.ome.tif", "-o", "a.ome.tif", "--transforms", "known.json", "--quiet"]) == 130

    assert f"interrupted; {reason}" in capsys.readouterr().err
    assert len(list(folder.glob("a*"))) == n_finished


STANDING_STILL = """
import sys, time
from qmcif_engine.cli import align_command, main

write = align_command.write_stack

def stand_still(done, total):
    print(done, flush=True)
    time.sleep(3600)

align_command.write_stack = lambda *arguments, **options: write(*arguments, **options | {"on_progress": stand_still})
sys.exit(main(sys.argv[1:]))
"""


def test_interrupting_a_real_run_leaves_nothing_and_ends_with_130(tmp_path):
    tifffile.imwrite(tmp_path / "in.tif", np.random.default_rng(0).integers(0, 255, (3, 300, 300), np.uint8), photometric="minisblack")
    command = [sys.executable, "-c", STANDING_STILL, "align", "in.tif", "-o", "out.ome.zarr", "--model", "none"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        try:
            assert run.stdout.readline() == "1\n"
            run.send_signal(signal.SIGINT)
            _, message = run.communicate()
        finally:
            run.kill()

    assert (run.returncode, "interrupted; nothing was left behind" in message) == (130, True), message
    assert [path.name for path in tmp_path.iterdir()] == ["in.tif"]
