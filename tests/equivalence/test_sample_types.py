"""Samples of every type: decided through the focus range, copied as they are, blended in double precision."""

from __future__ import annotations

import numpy as np
import pytest
import tifffile

from qmcif_engine import fuse, fuse_lazily, fuse_to_file
from qmcif_engine.cli import main
from qmcif_engine.io.input.open import open_stack, read_image
from qmcif_engine.stack.samples import to_samples
from qmcif_engine.stack.synthetic import make_focus_stack
from qmcif_engine.stack.window import Window

GRAY = make_focus_stack(n_images=3, shape=(48, 56), is_color=False).images
COLOR = make_focus_stack(n_images=3, shape=(48, 56)).images
WHOLE = Window(0, 0, 48, 56)


def typed(dtype: str, images=GRAY) -> np.ndarray:
    """The stack in another type, with the same steps between its samples wherever the type has room for them."""
    levels = images.astype(np.int64)
    if dtype == "bool":
        return levels > 100
    if dtype == "uint32":  # far beyond what single precision tells apart
        return (levels + 4_294_967_000).astype(np.uint32)
    return (levels - (128 if dtype in ("int8", "int16") else 0)).astype(dtype)


@pytest.mark.parametrize("images", [GRAY, COLOR], ids=["gray", "color"])
@pytest.mark.parametrize(("dtype", "shift"), [("int8", 128), ("int16", 128), ("uint32", -4_294_967_000)])
def test_shifted_samples_are_decided_on_and_blended_as_those_of_eight_bits(dtype, shift, images):
    expected = fuse(list(images), with_maps=True)
    result = fuse(list(typed(dtype, images)), with_maps=True)
    assert result.fused.dtype == dtype
    np.testing.assert_array_equal(result.source_index, expected.source_index)
    np.testing.assert_array_equal(result.fused.astype(np.int64) + shift, expected.fused)


def test_bits_are_decided_on_as_black_and_white():
    result = fuse(list(typed("bool")), with_maps=True)
    assert result.fused.dtype == bool
    assert tuple(result.focus_range) == (0.0, 1.0)
    expected = fuse(list(typed("bool") * np.uint8(255)), with_maps=True)
    np.testing.assert_array_equal(result.source_index, expected.source_index)


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint32", "bool"])
def test_identical_images_return_their_samples(dtype):
    image = typed(dtype)[0]
    np.testing.assert_array_equal(fuse([image, image.copy()]).fused, image)


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint32", "bool"])
@pytest.mark.parametrize("suffix", [".tif", ".ome.tif", ".ome.zarr"])
def test_every_type_goes_through_files_unchanged(tmp_path, dtype, suffix):
    source, target = tmp_path / "stack.tif", tmp_path / f"fused{suffix}"
    tifffile.imwrite(source, typed(dtype), photometric="minisblack", metadata={"axes": "ZYX"})
    assert main(["fuse", str(source), "-o", str(target)]) == 0
    expected = fuse(list(typed(dtype))).fused
    if suffix == ".ome.zarr":
        import zarr

        found = zarr.open_group(target, mode="r")["0"][:]
    else:
        found = tifffile.imread(target)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == dtype


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint32", "bool"])
def test_stacks_of_every_type_are_written_and_opened_again(tmp_path, dtype):
    target = tmp_path / "stack.ome.zarr"
    assert main(["align", "--model", "none", str(save(tmp_path, dtype)), "-o", str(target)]) == 0
    for stack in (open_stack(target), open_stack(typed(dtype))):
        assert stack.dtype == dtype
        np.testing.assert_array_equal(stack.read(1, WHOLE), typed(dtype)[1])


def save(folder, dtype):
    path = folder / "stack.tif"
    tifffile.imwrite(path, typed(dtype), photometric="minisblack", metadata={"axes": "ZYX"})
    return path


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint32", "bool"])
def test_lazy_tiles_are_those_of_the_whole(dtype):
    lazy = fuse_lazily(open_stack(typed(dtype)))
    assert lazy.fused.dtype == dtype
    np.testing.assert_array_equal(lazy.fused.compute(), fuse(list(typed(dtype))).fused)


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint32", "bool"])
@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_formats_that_cannot_hold_a_type_are_refused_with_one_that_can(tmp_path, capsys, dtype, suffix):
    assert main(["fuse", str(save(tmp_path, dtype)), "-o", str(tmp_path / f"fused.{suffix}")]) == 2
    assert f"to hold {dtype} samples" in (message := capsys.readouterr().err)
    assert "use .tif" in message
    assert not (tmp_path / f"fused.{suffix}").exists()


def test_values_beyond_a_type_end_at_its_limits():
    values = np.array([-1e12, -0.5, 0.5, 1.5, 1e12])
    np.testing.assert_array_equal(to_samples(values, np.dtype(np.uint32)), [0, 0, 0, 2, 2**32 - 1])
    np.testing.assert_array_equal(to_samples(values.astype(np.float32), np.dtype(np.uint32)), [0, 0, 0, 2, 2**32 - 1])
    np.testing.assert_array_equal(to_samples(values, np.dtype(np.int16)), [-32768, 0, 0, 2, 32767])
    np.testing.assert_array_equal(to_samples(values, np.dtype(np.int8)), [-128, 0, 0, 2, 127])
    np.testing.assert_array_equal(to_samples(values, np.dtype(bool)), [False, False, False, True, True])


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint32"])
def test_alignment_and_exposure_keep_the_type(tmp_path, dtype):
    pytest.importorskip("cv2")
    target = tmp_path / "fused.tif"
    assert main(["fuse", str(save(tmp_path, dtype)), "--align", "translation", "--even-exposure", "-o", str(target)]) == 0
    assert read_image(target).samples.dtype == dtype


def test_several_channels_keep_their_type(tmp_path):
    source = tmp_path / "dyes.tif"
    channels = np.stack([typed("int16"), typed("int16")[:, ::-1]], axis=1)
    tifffile.imwrite(source, channels, ome=True, metadata={"axes": "ZCYX"})
    source.rename(tmp_path / "dyes.ome.tif")
    fuse_to_file(open_stack(tmp_path / "dyes.ome.tif"), tmp_path / "fused.ome.tif")
    found = tifffile.imread(tmp_path / "fused.ome.tif")
    assert (found.shape, found.dtype) == ((2, 48, 56), np.int16)
