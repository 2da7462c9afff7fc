"""Stacks are written window by window, come back sample by sample, and appear whole or not at all."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import tifffile
import zarr

from qmcif_engine.errors import Cancelled, InvalidConfigError, OutputError
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.io.output.stack_output import write_stack
from qmcif_engine.io.tiff import tiff_writer
from qmcif_engine.stack.alignment.transforms import IDENTITY, TransformModel, Transforms
from qmcif_engine.stack.image_metadata import ImageMetadata
from qmcif_engine.stack.preparation import prepare_stack
from qmcif_engine.stack.stack import Stack, stack_arrays
from qmcif_engine.stack.window import Window
from tests.scenes import logged_stack

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (70, 90)
TARGETS = ("out.tif", "out.ome.tif", "out.ome.zarr")
FRAMES = "frames/{frame}.tif"
METADATA = ImageMetadata(pixel_size=(0.5, 0.25), z_step=2.0, unit="micrometer")
TURNED = ((1.02, 0.03, 2.3), (-0.03, 1.02, 1.6), IDENTITY[2])
N_MEGABYTES_HELD = 60  # blocks that wait, their copies, and what the libraries keep


def make_samples(dtype=np.uint8, channels=(), n_images=3):
    generator = np.random.default_rng(7)
    samples = generator.integers(0, 250, (n_images, *SHAPE, *channels))
    return samples.astype(dtype) if np.dtype(dtype).kind == "u" else (samples / 300 - 0.2).astype(dtype)


def make_stack(samples, metadata=METADATA, **attributes):
    return stack_arrays(list(samples)).replaced(metadata=metadata, **attributes)


def align(samples, **options):
    shape = (samples.shape[1], samples.shape[2])
    matrices = (TURNED, *[IDENTITY] * (len(samples) - 1))
    transforms = Transforms(matrices=matrices, model=TransformModel.AFFINE, image_shape=shape, reference=1)
    return prepare_stack(make_stack(samples, **options), transforms=transforms)


def read_back(path, **options):
    with open_stack(path, **options) as stack:
        shown = stack if stack.companions is None else stack.companions
        return np.stack([shown.read(number, Window.whole(shown.image_shape)) for number in range(shown.n_images)]), stack.metadata


def digest(path: Path) -> str:
    files = sorted(part for part in path.rglob("*") if part.is_file()) if path.is_dir() else [path]
    return hashlib.sha256(b"".join(part.name.encode() + part.read_bytes() for part in files)).hexdigest()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
@pytest.mark.parametrize("channels", [(), (3,)])
@pytest.mark.parametrize("largest_stripped_bytes", [2**26, 0])
def test_every_sample_comes_back_in_its_type(tmp_path, monkeypatch, target, dtype, channels, largest_stripped_bytes):
    monkeypatch.setattr(tiff_writer, "LARGEST_STRIPPED_BYTES", largest_stripped_bytes)
    samples = make_samples(dtype, channels)

    assert write_stack(make_stack(samples), tmp_path / target) == (tmp_path / target,)

    found, metadata = read_back(tmp_path / target)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, samples)
    if ".ome." in target:
        assert (metadata.pixel_size, metadata.z_step, metadata.unit) == ((0.5, 0.25), 2.0, "micrometer")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("largest_stripped_bytes", [2**26, 0])
def test_dyes_keep_their_number_and_names(tmp_path, monkeypatch, target, largest_stripped_bytes):
    monkeypatch.setattr(tiff_writer, "LARGEST_STRIPPED_BYTES", largest_stripped_bytes)
    samples = make_samples(np.uint16, (4,))
    names = ("DAPI", "GFP", "Cy3", "Cy5")
    companions = stack_arrays(list(samples))
    stack = make_stack(samples[..., :3], metadata=replace(METADATA, channel_names=names), companions=companions)

    write_stack(stack, tmp_path / target)

    found, metadata = read_back(tmp_path / target, channels=[1])
    np.testing.assert_array_equal(found, samples)
    if ".ome." in target:
        assert metadata.channel_names == names
    if target.endswith(".tif"):
        with tifffile.TiffFile(tmp_path / target) as tiff:
            assert (tiff.series[0].axes, tiff.series[0].shape) == ("ZCYX", (3, 4, *SHAPE))


@pytest.mark.parametrize("target", ["out.tif", "out.ome.tif", FRAMES])
def test_alpha_goes_along(tmp_path, target):
    samples = make_samples(channels=(4,))
    alpha = stack_arrays(list(samples[..., 3]))
    paths = write_stack(make_stack(samples[..., :3], alpha=alpha), tmp_path / target)

    with open_stack(list(paths)) as stack:
        whole = Window.whole(SHAPE)
        np.testing.assert_array_equal([stack.read(number, whole) for number in range(3)], samples[..., :3])
        np.testing.assert_array_equal([stack.alpha.read(number, whole) for number in range(3)], samples[..., 3])


def test_an_ome_zarr_has_smaller_copies_of_every_image_along_z(tmp_path):
    samples = np.zeros((2, 600, 520), np.uint8)
    samples[1] = 80
    write_stack(make_stack(samples), tmp_path / "out.ome.zarr")
    group = zarr.open_group(tmp_path / "out.ome.zarr", mode="r")
    multiscale = group.attrs["ome"]["multiscales"][0]

    assert [axis["name"] for axis in multiscale["axes"]] == ["z", "y", "x"]
    assert [group[item["path"]].shape for item in multiscale["datasets"]] == [(2, 600, 520), (2, 300, 260)]
    assert [item["coordinateTransformations"][0]["scale"] for item in multiscale["datasets"]] == [[2.0, 0.5, 0.25], [2.0, 1.0, 0.5]]
    np.testing.assert_array_equal(group["1"][:, 10, 10], [0, 80])


@pytest.mark.parametrize("suffix", [".png", ".tif", ".jpg", ".ome.tif"])
def test_each_image_gets_a_file_where_the_name_says_so(tmp_path, suffix):
    samples = make_samples(channels=(3,))

    paths = write_stack(make_stack(samples), tmp_path / "new" / f"a_{{frame}}{suffix}")

    assert [path.name for path in paths] == [f"a_00{number}{suffix}" for number in (1, 2, 3)]
    assert sorted((tmp_path / "new").iterdir()) == list(paths)
    if suffix != ".jpg":
        np.testing.assert_array_equal(read_back(tmp_path / "new")[0], samples)


@pytest.mark.parametrize("target", [*TARGETS, FRAMES])
def test_the_bytes_do_not_depend_on_the_workers(tmp_path, target):
    samples = np.random.default_rng(1).integers(0, 255, (3, 700, 530), np.uint8)
    digests = set()
    for workers in (1, 2, 5):
        (tmp_path / str(workers)).mkdir()
        paths = write_stack(align(samples), tmp_path / str(workers) / target, workers=workers)
        digests.add(tuple(digest(path) for path in paths))

    assert len(digests) == 1


@pytest.mark.parametrize("target", TARGETS)
def test_moved_images_are_written_as_they_are_read_with_repeated_edges(tmp_path, target):
    stack = align(make_samples(channels=(3,)))
    write_stack(stack, tmp_path / target)
    found, _ = read_back(tmp_path / target)

    whole = Window.whole(SHAPE)
    np.testing.assert_array_equal(found, [stack.read(number, whole) for number in range(3)])
    assert not stack.valid(0, whole).all()
    assert found[0].min(axis=-1)[~stack.valid(0, whole)].max() > 0


def test_a_cropped_stack_holds_only_pixels_that_all_images_have(tmp_path):
    stack = align(make_samples())
    write_stack(stack, tmp_path / "out.tif", crop=True)
    found, _ = read_back(tmp_path / "out.tif")

    n_found = found.shape[1] * found.shape[2]
    n_valid = int(stack.valid(0, Window.whole(SHAPE)).sum())
    assert 0.8 * n_valid < n_found <= n_valid
    with tifffile.TiffFile(tmp_path / "out.tif") as tiff:
        top, left, bottom, right = tiff.shaped_metadata[0]["qmcif"]["area"]
    np.testing.assert_array_equal(found[2], stack.read(2, Window(top, left, bottom, right)))


def test_images_without_a_common_part_cannot_be_cropped(tmp_path):
    far = ((1.0, 0.0, 100.0), IDENTITY[1], IDENTITY[2])
    transforms = Transforms(matrices=(far, IDENTITY), model=TransformModel.TRANSLATION, image_shape=SHAPE, reference=1)

    with pytest.raises(InvalidConfigError, match="have no pixel in common"):
        write_stack(prepare_stack(make_stack(make_samples(n_images=2)), transforms=transforms), tmp_path / "out.tif", crop=True)
    assert not list(tmp_path.iterdir())


def test_a_step_that_images_left_out_made_uneven_is_not_claimed(tmp_path):
    write_stack(make_stack(make_samples(), frame_numbers=(0, 1, 3)), tmp_path / "uneven.ome.tif")
    write_stack(make_stack(make_samples(), frame_numbers=(4, 2, 0)), tmp_path / "even.ome.tif")

    assert read_back(tmp_path / "uneven.ome.tif")[1].z_step is None
    assert read_back(tmp_path / "even.ome.tif")[1].z_step == 4.0


@pytest.mark.parametrize("target", [*TARGETS, FRAMES])
def test_a_cancelled_run_leaves_nothing(tmp_path, target):
    answers = iter([False, True])

    with pytest.raises(Cancelled, match="writing the stack was cancelled; nothing was written: start it again"):
        write_stack(align(make_samples()), tmp_path / target, is_cancelled=lambda: next(answers))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_that_cannot_be_read_ends_the_writing_and_leaves_nothing(tmp_path, target):
    stack = logged_stack(make_samples(), fail_after=2)

    with pytest.raises(OSError, match="lost the disk"):
        write_stack(stack, tmp_path / target)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("target", TARGETS)
def test_an_existing_target_is_replaced_only_where_that_is_offered(tmp_path, target):
    write_stack(make_stack(make_samples()), tmp_path / target)
    before = digest(tmp_path / target)
    other = make_samples()[::-1]

    with pytest.raises(OutputError, match="exists already; a new name is needed"):
        write_stack(make_stack(other), tmp_path / target)
    assert digest(tmp_path / target) == before

    write_stack(make_stack(other), tmp_path / target, overwrite=True)
    np.testing.assert_array_equal(read_back(tmp_path / target)[0], other)


def test_one_picture_a_file_cannot_hold_a_stack(tmp_path):
    message = r"is to hold 3 images; PNG holds one: use .tif, .ome.tif or .ome.zarr, or .* a name such as out_\{frame\}.png"
    with pytest.raises(OutputError, match=message):
        write_stack(make_stack(make_samples()), tmp_path / "out.png")


def generate(shape):
    return Stack(
        names=("a", "b"), image_shape=shape, dtype=np.dtype(np.uint8), read=lambda number, window: np.full(window.shape, number, np.uint8)
    )


def prepare_large_images(folder, target):
    write_stack(generate((600, 1200)), folder / f"warm-up-{target}")
    return lambda: write_stack(generate((6000, 12000)), folder / target, workers=2)


@pytest.mark.parametrize("target", TARGETS)
def test_images_larger_than_memory_are_never_held(tmp_path, target, peak_of):
    assert peak_of(prepare_large_images, tmp_path, target) < N_MEGABYTES_HELD * 2**20
    assert open_stack(tmp_path / target).read(1, Window(5999, 11999, 6000, 12000)) == 1


def test_progress_ends_at_all_blocks(tmp_path):
    for target in (*TARGETS, FRAMES):
        steps = []
        write_stack(make_stack(make_samples()), tmp_path / target, on_progress=lambda *step, steps=steps: steps.append(step))
        assert steps[-1][0] == steps[-1][1] == len(steps)
