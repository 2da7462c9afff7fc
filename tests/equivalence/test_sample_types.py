"""Samples of every type: decided through the focus range, copied as they are, blended in double precision."""

from __future__ import annotations

import numpy as np
import pytest
import tifffile
import zarr

from qmcif_engine import fuse, fuse_lazily
from qmcif_engine.cli import main
from qmcif_engine.io.input.open import open_stack, read_image
from qmcif_engine.stack.samples import to_samples
from qmcif_engine.stack.synthetic import make_focus_stack
from qmcif_engine.stack.window import Window

GRAY = make_focus_stack(n_images=3, shape=(48, 56), is_color=False).images
COLOR = make_focus_stack(n_images=3, shape=(48, 56)).images
TYPES = ("int8", "int16", "uint32", "bool")
WHOLE = Window(0, 0, 48, 56)


def typed(dtype: str, images=GRAY) -> np.ndarray:
    """The stack in another type, with the same steps between its samples wherever the type has room for them."""
    levels = images.astype(np.int64)
    if dtype == "bool":
        return levels > 100
    if dtype == "uint32":  # far beyond what single precision tells apart
        return (levels + 4_294_967_000).astype(np.uint32)
    return (levels - (128 if dtype in ("int8", "int16") else 0)).astype(dtype)


def save(folder, dtype):
    path = folder / "stack.tif"
    tifffile.imwrite(path, typed(dtype), photometric="minisblack", metadata={"axes": "ZYX"})
    return path


@pytest.mark.parametrize("images", [GRAY, COLOR], ids=["gray", "color"])
@pytest.mark.parametrize(("dtype", "shift"), [("int8", 128), ("int16", 128), ("uint32", -4_294_967_000)])
def test_shifted_samples_are_decided_on_and_blended_as_those_of_eight_bits(dtype, shift, images):
    expected, result = fuse(list(images)), fuse(list(typed(dtype, images)))
    assert result.fused.dtype == dtype
    np.testing.assert_array_equal(result.source_index, expected.source_index)
    np.testing.assert_array_equal(result.fused.astype(np.int64) + shift, expected.fused)


def test_bits_are_decided_on_as_black_and_white():
    result, expected = fuse(list(typed("bool"))), fuse(list(typed("bool") * np.uint8(255)))
    assert (result.fused.dtype, tuple(result.focus_range)) == (bool, (0.0, 1.0))
    np.testing.assert_array_equal(result.source_index, expected.source_index)


@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_goes_through_files_and_lazy_arrays_unchanged(tmp_path, capsys, dtype):
    images, source = typed(dtype), save(tmp_path, dtype)
    expected = fuse(list(images)).fused
    np.testing.assert_array_equal(fuse_lazily(open_stack(images)).fused.compute(), expected)
    for suffix in (".tif", ".ome.tif", ".ome.zarr"):
        target = tmp_path / f"fused{suffix}"
        assert main(["fuse", str(source), "-o", str(target)]) == 0
        found = zarr.open_group(target, mode="r")["0"][:] if suffix == ".ome.zarr" else tifffile.imread(target)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == dtype
    target = tmp_path / "stack.ome.zarr"
    assert main(["align", "--model", "none", str(source), "-o", str(target)]) == 0
    for stack in (open_stack(target), open_stack(images)):
        assert stack.dtype == dtype
        np.testing.assert_array_equal(stack.read(1, WHOLE), images[1])
    for suffix in ("png", "jpg"):
        capsys.readouterr()
        assert main(["fuse", str(source), "-o", str(tmp_path / f"fused.{suffix}")]) == 2
        assert f"to hold {dtype} samples" in (message := capsys.readouterr().err)
        assert "use .tif" in message
        assert not (tmp_path / f"fused.{suffix}").exists()


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("uint32", (0, 0, 0, 2, 2**32 - 1)), ("int16", (-32768, 0, 0, 2, 32767)), ("int8", (-128, 0, 0, 2, 127)), ("bool", (0, 0, 0, 1, 1))],
)
def test_values_beyond_a_type_end_at_its_limits(dtype, expected):
    values = np.array([-1e12, -0.5, 0.5, 1.5, 1e12])
    for precision in (np.float32, np.float64):
        np.testing.assert_array_equal(to_samples(values.astype(precision), np.dtype(dtype)), np.array(expected, dtype))


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint32"])
def test_alignment_and_exposure_keep_the_type(tmp_path, dtype):
    target = tmp_path / "fused.tif"
    assert main(["fuse", str(save(tmp_path, dtype)), "--align", "translation", "--even-exposure", "-o", str(target)]) == 0
    assert read_image(target).samples.dtype == dtype
